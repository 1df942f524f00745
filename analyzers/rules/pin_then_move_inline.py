"""A tensor is pinned only to be copied in the same breath.

## What it does
Finds `.pin_memory()` whose only use is the `.to(device)` or `.cuda()` that follows in the same
expression.

## Why it matters
`pin_memory()` allocates page-locked memory and copies the tensor into it while the host waits.
Together with the copy to the device that takes longer than the plain copy from pageable memory,
which the driver stages in much the same way.

## Example
Leave the pinning out, pin in the `DataLoader`, or keep one pinned buffer and refill it.

## Fix safety
The values stay the same. It may be slower where long work on the host follows at once and the
copy is asynchronous: then the inline pin is what makes the overlap possible.

## When to ignore
Where a measurement shows that the overlap is worth the pinning.

## References
- PyTorch tutorial "A guide on good usage of non_blocking and pin_memory()", key learnings
"""

from collections.abc import Iterator

from analyzers.call_edits import replace_expression
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity, Span
from analyzers.judging import applies, shown, when
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import torch

        def train(model, batches):
            model.cuda()
            for batch in batches:
                x = torch.stack(batch).pin_memory().cuda()  # <-
                model(x)
        """,
        fixed="""
        import torch

        def train(model, batches):
            model.cuda()
            for batch in batches:
                x = torch.stack(batch).cuda()
                model(x)
        """,
    ),
    # With `non_blocking=True` it may be on purpose.
    Bad(
        """
        import numpy as np
        import torch

        def batch(data, starts, width, device):
            x = torch.stack([torch.from_numpy(data[i : i + width]) for i in starts])
            return x.pin_memory().to(device, non_blocking=True)  # <-
        """,
        fixed="""
        import numpy as np
        import torch

        def batch(data, starts, width, device):
            x = torch.stack([torch.from_numpy(data[i : i + width]) for i in starts])
            return x.to(device, non_blocking=True)
        """,
    ),
]
GOOD = [
    # Pinned once, copied often.
    """
    import torch

    def steps(model, x, device, count):
        host = x.pin_memory()
        for _ in range(count):
            model(host.to(device, non_blocking=True))
    """,
    # Allocated pinned, then filled.
    """
    import torch

    def send(rows, device):
        host = torch.empty(len(rows), 4, pin_memory=True)
        for i, row in enumerate(rows):
            host[i] = row
        return host.to(device, non_blocking=True)
    """,
]


@rule("GPU204", severity=Severity.INFO, bad=BAD, good=GOOD, instead_of=("GPU202",))
def pin_then_move_inline(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    for copy in timeline.of(Copy):
        pin = copy.source.made_by
        if copy.direction is not Direction.TO_DEVICE or not applies(copy.place):
            continue
        if not isinstance(pin, Call) or pin.fact.pins != "always" or pin.receiver_span is None:
            continue
        if copy.call.receiver_span != pin.span:
            continue
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(pin.span))} pins a tensor that is copied once, "
            f"{when(pin.place)}. The host waits while page-locked memory is allocated and filled, "
            "which costs more than the plain copy. Drop it, or refill one pinned buffer.",
            Confidence.LIKELY if copy.blocking else Confidence.POSSIBLE,
            Severity.INFO,
            fix=_fix(timeline, pin, pin.receiver_span),
        )


def _fix(timeline: Timeline, pin: Call, receiver: Span) -> Fix | None:
    edit = replace_expression(timeline.source, pin.span, timeline.text(receiver))
    if edit is None:
        return None
    condition = "It pays where no long work on the host follows that the copy could overlap with."
    return Fix("Copy without pinning first", (edit,), Safety.UNSAFE, condition)
