"""A whole array is copied to the host to compute one number.

## What it does
Finds a copy from the device whose result is reduced in the same expression: `x.cpu().max()`,
`(p.cpu().numpy() == y.cpu().numpy()).mean()`, `np.sum(a.get())`.

## Why it matters
All elements cross PCIe so that the host can make one number of them. The GPU reduces them at the
bandwidth of its own memory, and four bytes are left to copy.

## Example
Reduce on the device and read the result.

## Fix safety
A sketch only: NumPy adds in double precision and in another order, and gives another type.

## When to ignore
When the array is needed on the host anyway, when it is tiny, or when the reduction must be exactly
NumPy's.

## References
- PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization"
- CUDA C++ Best Practices Guide, "Data transfer between host and device"
"""

from collections.abc import Iterator

from analyzers.copying import inside
from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import applies, measured, repeated_confidence, shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import torch

        def train(model, loader, device):
            model = model.to(device)
            right = 0
            for x, y in loader:
                predicted = model(x.to(device)).argmax(1)
                right += (predicted.cpu() == y).sum()  # <-
            return right
        """
    ),
    Bad(
        """
        import cupy as cp
        import numpy as np

        def largest(frames):
            found = []
            for frame in frames:
                spectrum = cp.fft.fft(cp.asarray(frame))
                found.append(np.max(cp.asnumpy(cp.abs(spectrum))))  # <-
            return found
        """
    ),
]
GOOD = [
    # Reduced where the data is.
    """
    import torch

    def train(model, loader, device):
        model = model.to(device)
        right = torch.zeros((), device=device)
        for x, y in loader:
            predicted = model(x.to(device)).argmax(1)
            right += (predicted == y.to(device)).sum()
        return right.item()
    """,
    # The array itself is kept, too.
    """
    import torch

    def report(model, x, table):
        scores = model.cuda()(x).cpu().numpy()
        table.append(scores)
        return scores.mean()
    """,
    # A loss has one element.
    """
    import torch

    def report(model, x, y):
        loss = torch.nn.functional.mse_loss(model.cuda()(x), y)
        return loss.detach().cpu().mean()
    """,
]


@rule(
    "GPU210",
    severity=Severity.INFO,
    bad=BAD,
    good=GOOD,
    instead_of=("GPU105", "GPU117"),
)
def reduce_on_host_after_full_copy(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    told: set[object] = set()
    for call in timeline.calls():
        copy = _reduced(call)
        if copy is None or copy.place.span in told or not applies(call.place):
            continue
        told.add(copy.place.span)
        often = repeated_confidence(call.place)
        if often is None or measured(call.place):
            continue
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(copy.place.span))} copies every element to the host, where "
            f"`{call.method}` makes one number of them. The GPU reduces at the bandwidth of its "
            "own memory. Reduce first, then read one number.",
            Confidence.LIKELY.weaker(often).weaker(copy.source.sure),
            Severity.INFO,
        )


def _reduced(call: Call) -> Copy | None:
    """The copy whose result this call reduces to one number, written in the same expression."""
    if not call.fact.reduces or not call.result.scalar or call.result.on_gpu:
        return None
    operand = call.receiver or (call.arguments[0].value if call.arguments else None)
    copy = operand.fetched if operand is not None else None
    if not isinstance(copy, Copy) or not inside(copy.place.span, call.span):
        return None
    return copy if copy.source.on_gpu and not copy.source.scalar else None
