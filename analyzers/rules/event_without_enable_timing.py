"""The time between two events is asked for, but an event was made without timing.

## What it does
Finds `elapsed_time` on events of PyTorch that were made without `enable_timing=True`.

## Why it matters
Events of PyTorch record no time unless they are asked to. `elapsed_time` raises a ValueError then,
every time.

## Example
Make both events with `enable_timing=True`.

## Fix safety
Safe: the events do what they did before, and record the time as well.

## When to ignore
Never: the call cannot succeed.

## References
- PyTorch, `torch.cuda.Event`; source, `CUDAEvent.h`
"""

from collections.abc import Iterator

from analyzers.dryrun.values import Kind
from analyzers.finding import Confidence, Edit, Finding, Fix, Related, Safety, Severity
from analyzers.fixes import set_keyword
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline

BAD = [
    Bad(
        """
        import torch

        def measure(model, images):
            start = torch.cuda.Event()
            end = torch.cuda.Event()
            start.record()
            model(images)
            end.record()
            torch.cuda.synchronize()
            return start.elapsed_time(end)  # <-
        """,
        fixed="""
        import torch

        def measure(model, images):
            start = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            start.record()
            model(images)
            end.record()
            torch.cuda.synchronize()
            return start.elapsed_time(end)
        """,
    ),
    Bad(
        """
        import torch

        def measure(model, images):
            start = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(blocking=True)
            start.record()
            model(images)
            end.record()
            end.synchronize()
            return start.elapsed_time(end)  # <-
        """,
        fixed="""
        import torch

        def measure(model, images):
            start = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(blocking=True, enable_timing=True)
            start.record()
            model(images)
            end.record()
            end.synchronize()
            return start.elapsed_time(end)
        """,
    ),
]
GOOD = [
    """
    import torch

    def measure(model, images):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        model(images)
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)
    """,
    # Events of CuPy record the time unless they are told not to.
    """
    import cupy as cp

    def measure(x):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        cp.sort(x)
        end.record()
        end.synchronize()
        return cp.cuda.get_elapsed_time(start, end)
    """,
    # Made elsewhere: how is not known.
    """
    import torch

    def measure(pool, model, images):
        start, end = pool.get(), pool.get()
        start.record()
        model(images)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)
    """,
]


@rule("GPU403", severity=Severity.ERROR, bad=BAD, good=GOOD)
def event_without_enable_timing(timeline: Timeline) -> Iterator[Finding]:
    for call in timeline.calls("elapsed"):
        values = [v for v in (call.receiver, *(a.value for a in call.arguments)) if v is not None]
        made = [v.made_by for v in values if v.kind is Kind.EVENT and _untimed(v.made_by)]
        if not made:
            continue
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} asks for the time of an event that records none. "
            "It raises a ValueError. Make both events with `enable_timing=True`.",
            Confidence.CERTAIN,
            Severity.ERROR,
            related=tuple(Related(m.span, "made without timing here") for m in made),
            fix=_fix(timeline, made),
        )


def _untimed(made: object) -> bool:
    if not isinstance(made, Call) or "enable_timing" not in made.fact.parameters or made.has_star:
        return False
    asked = made.argument("enable_timing")
    return asked is None or asked.value.constant is False


def _fix(timeline: Timeline, made: list[Call]) -> Fix | None:
    edits: list[Edit] = []
    for call in made:
        edit = set_keyword(timeline.source, call.span, "enable_timing", "True")
        asked = call.argument("enable_timing")
        if edit is None or (asked is not None and not asked.keyword):
            return None
        if edit not in edits:
            edits.append(edit)
    return Fix("Record the time", tuple(edits), Safety.SAFE)
