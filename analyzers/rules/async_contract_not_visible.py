"""A copy to the host that does not wait is handed on, and nobody can tell when it is there.

## What it does
Finds functions that return or keep the result of `.to("cpu", non_blocking=True)` without waiting,
without an event, and without saying in their name that the result comes later.

## Why it matters
The result looks like any host tensor and holds old bytes until the copy engine has filled it. Who
gets it reads it at once; most real races of this kind began with such a function.

## Example
Let the copy wait, or hand on an event beside the tensor and name the function accordingly.

## Fix safety
Taking `non_blocking=True` out of a copy to the host only adds the wait that is missing.

## When to ignore
When every reader waits for the stream first.

## References
- PyTorch tutorial on pinned memory and `non_blocking`, "Other copy directions"
"""

import re
from collections.abc import Iterator

from analyzers.dryrun.values import Device
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import remove_keyword
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Copy, Direction, HostRead, Timeline, Wait

BAD = [
    Bad(
        """
        import torch

        def fetch(model, batch):
            scores = model(batch.cuda())
            return scores.to("cpu", non_blocking=True)  # <-
        """,
        fixed="""
        import torch

        def fetch(model, batch):
            scores = model(batch.cuda())
            return scores.to("cpu")
        """,
    ),
    Bad(
        """
        import torch

        def offload(model):
            for param in model.parameters():
                param.data = param.data.to(torch.device("cpu"), non_blocking=True)  # <-
            torch.cuda.empty_cache()
        """,
        fixed="""
        import torch

        def offload(model):
            for param in model.parameters():
                param.data = param.data.to(torch.device("cpu"))
            torch.cuda.empty_cache()
        """,
    ),
]
GOOD = [
    """
    import torch

    def offload(model):
        for param in model.parameters():
            param.data = param.data.to(torch.device("cpu"), non_blocking=True)
        torch.cuda.synchronize()
    """,
    # The name says it.
    """
    import torch

    def fetch_async(model, batch):
        return model(batch.cuda()).to("cpu", non_blocking=True)
    """,
    # An event goes with it.
    """
    import torch

    def fetch(model, batch):
        host = model(batch.cuda()).to("cpu", non_blocking=True)
        done = torch.cuda.Event()
        done.record()
        return host, done
    """,
    # The caller chooses.
    """
    import torch

    def fetch(model, batch, non_blocking):
        return model(batch.cuda()).to("cpu", non_blocking=non_blocking)
    """,
]

_SAYS = re.compile(
    r"async|non_?block|nowait|no_wait|future|launch|enqueue|issue|begin", re.IGNORECASE
)
_LATER = frozenset({"event_record", "stream_record", "event_wait", "wait_event"})


@rule("GPU806", severity=Severity.WARNING, bad=BAD, good=GOOD)
def async_contract_not_visible(timeline: Timeline) -> Iterator[Finding]:
    copies = [c for c in timeline.of(Copy) if _handed_on(timeline, c)]
    read = {event.copy.call.span for event in timeline.of(HostRead)} if copies else set[object]()
    for copy in copies:
        if copy.call.span in read or _told(timeline, copy):
            continue
        statement = timeline.text(copy.place.statement)
        direct = statement.startswith("return") and statement.endswith(
            timeline.text(copy.call.span)
        )
        edit = remove_keyword(timeline.source, copy.call.span, "non_blocking")
        yield Finding(
            copy.call.span,
            f"{shown(timeline.text(copy.call.span))} returns before the bytes are there, and "
            "nothing here waits for them or says so. Whoever reads the result may see old bytes. "
            "Let the copy wait, or hand on an event beside it.",
            Confidence.LIKELY if direct and copy.source.on_gpu else Confidence.POSSIBLE,
            Severity.WARNING,
            fix=Fix("Let the copy wait", (edit,), Safety.SAFE) if edit is not None else None,
        )


def _handed_on(timeline: Timeline, copy: Copy) -> bool:
    """A new host tensor that the copy is still filling, asked for in so many words."""
    function = copy.place.function
    if copy.direction is not Direction.TO_HOST or copy.blocking or copy.destination is not None:
        return False
    argument = copy.call.argument("non_blocking")
    if argument is None or argument.value.constant is not True or function is None:
        return False
    if copy.source.device is Device.HOST or "test" in function.roles:
        return False
    return _SAYS.search(function.name) is None and not copy.place.stream


def _told(timeline: Timeline, copy: Copy) -> bool:
    """The function waits later, or records an event that others can wait for."""
    function, order = copy.place.function, copy.place.order
    if any(e.place.function == function and e.place.order > order for e in timeline.of(Wait)):
        return True
    later = timeline.calls()
    return any(
        c.fact.effect in _LATER and c.place.function == function and c.place.order > order
        for c in later
    ) or "synchron" in timeline.text(function.span if function else copy.place.statement)
