"""A pinned batch is copied to the device, and the host waits for it all the same.

## What it does
Finds `.to(device)` and `.cuda()` without `non_blocking=True` on what a `DataLoader` with
`pin_memory=True` hands out, or on another pinned tensor.

## Why it matters
Without `non_blocking=True` PyTorch waits for the stream after each copy, and with it for the
kernels of the step before. The pinned memory was paid for, and the overlap it buys is thrown away.

## Example
Add the keyword to every move of the batch.

## Fix safety
Safe: the copy is ordered with the kernels that use the batch on the same stream, and the argument
is ignored on a CPU device. It is not offered where the host tensor is written again in the same
turn (GPU309).

## When to ignore
On devices other than CUDA, where the host must wait (see GPU909).

## References
- PyTorch tutorial "A guide on good usage of non_blocking and pin_memory()"
- PyTorch source, `Copy.cu`: the wait after a blocking copy
"""

from collections.abc import Iterator

from analyzers.call_edits import add_keyword
from analyzers.dryrun.values import Device, Kind
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.judging import shown, when
from analyzers.places import LoopKind
from analyzers.rule import Bad, rule
from analyzers.timeline import Copy, Direction, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import torch
        from torch.utils.data import DataLoader

        def train(model, dataset, device):
            loader = DataLoader(dataset, batch_size=64, pin_memory=True)
            for x, y in loader:
                x = x.to(device)  # <-
                model(x)
        """,
        fixed="""
        import torch
        from torch.utils.data import DataLoader

        def train(model, dataset, device):
            loader = DataLoader(dataset, batch_size=64, pin_memory=True)
            for x, y in loader:
                x = x.to(device, non_blocking=True)
                model(x)
        """,
    ),
    Bad(
        """
        import torch
        from torch.utils.data import DataLoader

        def train(model, dataset):
            for batch in DataLoader(dataset, pin_memory=True):
                model(batch["image"].cuda())  # <-
        """,
        fixed="""
        import torch
        from torch.utils.data import DataLoader

        def train(model, dataset):
            for batch in DataLoader(dataset, pin_memory=True):
                model(batch["image"].cuda(non_blocking=True))
        """,
    ),
]
GOOD = [
    """
    import torch
    from torch.utils.data import DataLoader

    def train(model, dataset, device):
        loader = DataLoader(dataset, batch_size=64, pin_memory=True)
        for x, y in loader:
            model(x.to(device, non_blocking=True))
    """,
    # Not pinned: see GPU701.
    """
    import torch
    from torch.utils.data import DataLoader

    def statistics(dataset):
        loader = DataLoader(dataset, batch_size=64)
        for x, y in loader:
            print(x.mean(), y.shape)
    """,
]


@rule("GPU202", severity=Severity.WARNING, bad=BAD, good=GOOD)
def blocking_h2d_from_pinned_source(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    told: set[object] = set()
    for copy in timeline.of(Copy):
        if copy.direction is not Direction.TO_DEVICE or not copy.blocking:
            continue
        if copy.call.fact.async_by != "non_blocking" or copy.call.has("non_blocking"):
            continue
        if not copy.place.repeated or copy.source.kind is not Kind.TENSOR:
            continue
        sure = _confidence(copy)
        if sure is None:
            continue
        loop = copy.place.loops[-1].span if copy.place.loops else copy.place.function
        if sure is Confidence.POSSIBLE and loop in told:
            continue  # said once for the loop
        told.add(loop)
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(copy.place.span))} waits for the copy, and for the kernels "
            f"queued before it, {when(copy.place)}. {_memory(copy)} "
            "Add `non_blocking=True`.",
            sure,
            Severity.WARNING,
            fix=_fix(timeline, copy),
        )


def _memory(copy: Copy) -> str:
    if copy.source.pinned:
        return "The batch is pinned, so the copy could overlap with them."
    return "With a pinned batch the copy could overlap with them."


def _confidence(copy: Copy) -> Confidence | None:
    if copy.source.pinned is True:
        return Confidence.CERTAIN.weaker(copy.result.sure)
    if copy.source.made_by is not None or copy.source.homemade or copy.source.pinned is False:
        return None
    from_loader = any(loop.kind is LoopKind.DATA for loop in copy.place.loops)
    if from_loader or (copy.source.device is Device.HOST and not _written(copy)):
        return Confidence.POSSIBLE  # the loader is made elsewhere
    return None


def _written(copy: Copy) -> bool:
    """What the host has just computed isn't pinned by any loader."""
    return copy.source.type.startswith("numpy.") or copy.source.fetched is not None


def _fix(timeline: Timeline, copy: Copy) -> Fix | None:
    edit = add_keyword(timeline.source, copy.call.span, "non_blocking", "True")
    if edit is None:
        return None
    if copy.source.pinned is True:
        return Fix("Do not wait for the copy", (edit,), Safety.SAFE)
    condition = "It helps only when the batches are pinned (`pin_memory=True` at the loader)."
    return Fix("Do not wait for the copy", (edit,), Safety.UNSAFE, condition)
