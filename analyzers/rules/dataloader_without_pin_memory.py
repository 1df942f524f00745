"""Batches that go to the GPU come from pageable memory.

## What it does
Finds `DataLoader(…)` without `pin_memory` whose batches are moved to the device in the same file.

## Why it matters
The GPU's copy engine reads only page-locked memory. From pageable memory the driver first copies
the batch into a small buffer of its own, piece by piece, while the host waits.

## Example
`pin_memory=torch.cuda.is_available()` is right on every machine: a literal `True` warns where
there is no GPU.

## Fix safety
Safe in that form, unless the collate function returns device tensors, which cannot be pinned.

## When to ignore
In containers with little lockable memory, or when every batch is tiny.

## References
- PyTorch documentation, "Memory pinning" in `torch.utils.data`
- PyTorch performance tuning guide, "Enable asynchronous data loading and augmentation"
"""

from collections.abc import Iterator

from analyzers.call_edits import add_keyword
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.places import Heat, LoopKind
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, LoaderUsed, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import torch
        from torch.utils.data import DataLoader

        def train(model, dataset, device):
            loader = DataLoader(dataset, num_workers=8)  # <-
            for x, y in loader:
                model(x.to(device, non_blocking=True))
        """,
        fixed="""
        import torch
        from torch.utils.data import DataLoader

        def train(model, dataset, device):
            loader = DataLoader(dataset, num_workers=8, pin_memory=torch.cuda.is_available())
            for x, y in loader:
                model(x.to(device, non_blocking=True))
        """,
    ),
    Bad(
        """
        import torch
        from torch.utils import data

        def step(model, batch):
            return model(batch.cuda())

        def train(model, dataset):
            for batch in data.DataLoader(dataset):  # <-
                step(model, batch)
        """,
        fixed="""
        import torch
        from torch.utils import data

        def step(model, batch):
            return model(batch.cuda())

        def train(model, dataset):
            for batch in data.DataLoader(dataset, pin_memory=torch.cuda.is_available()):
                step(model, batch)
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
    # The batches stay on the host.
    """
    import torch
    from torch.utils.data import DataLoader

    def mean(dataset):
        return sum(x.mean() for x, y in DataLoader(dataset, batch_size=64))
    """,
    # Options that cannot be seen may pin.
    """
    import torch
    from torch.utils.data import DataLoader

    def train(model, dataset, device, options):
        for x, y in DataLoader(dataset, **options):
            model(x.to(device))
    """,
]


@rule("GPU701", severity=Severity.WARNING, bad=BAD, good=GOOD)
def dataloader_without_pin_memory(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    for call in timeline.calls():
        if call.fact.kind != "loader" or not call.fact.pins:
            continue
        if call.has(call.fact.pins) or call.has_star or _elsewhere(call):
            continue
        moved = call.span in timeline.loaders_moved
        if not moved and not _handed_out(timeline, call) and not _handed_on(timeline, call):
            continue
        yield Finding(
            call.span,
            "The batches of this `DataLoader` lie in pageable memory. Each copy to the GPU is "
            "staged by the driver while the host waits. Add "
            "`pin_memory=torch.cuda.is_available()`.",
            Confidence.LIKELY if moved else Confidence.POSSIBLE,
            Severity.WARNING,
            fix=_fix(timeline, call),
        )


def _elsewhere(call: Call) -> bool:
    function = call.place.function
    return function is not None and "test" in function.roles


def _handed_out(timeline: Timeline, call: Call) -> bool:
    """The loader is returned from a file that is written for a GPU: others move its batches."""
    text = timeline.text(call.place.statement)
    return (
        "cuda" in timeline.source.text
        and text.startswith("return")
        and call.place.heat is not Heat.HOT
    )


def _handed_on(timeline: Timeline, call: Call) -> bool:
    """The loader is given to something, and the file moves the batches of loaders it is given."""
    handed = any(used.loader.span == call.span for used in timeline.of(LoaderUsed))
    return handed and any(
        copy.direction is Direction.TO_DEVICE
        and any(loop.kind is LoopKind.DATA for loop in copy.place.loops)
        and not isinstance(copy.source.made_by, Call)
        for copy in timeline.of(Copy)
    )


def _fix(timeline: Timeline, call: Call) -> Fix | None:
    if "torch" not in timeline.imports:
        return None
    edit = add_keyword(timeline.source, call.span, call.fact.pins, "torch.cuda.is_available()")
    return Fix("Pin the batches", (edit,), Safety.SAFE) if edit is not None else None
