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

import re
from collections.abc import Iterator

from analyzers.call_edits import add_keyword
from analyzers.dryrun.values import Device, Kind
from analyzers.finding import Confidence, Finding, Fix, Related, Safety, Severity, Span
from analyzers.judging import shown, when
from analyzers.places import LoopKind
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, Timeline
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
    for group in _groups(timeline):
        copy, sure = group[0]
        loop = copy.place.loops[-1].span if copy.place.loops else copy.place.function
        if sure is Confidence.POSSIBLE and loop in told:
            continue  # said once for the loop
        told.add(loop)
        yield _finding(timeline, [copy for copy, _ in group], sure)
        for other, _ in group[1:]:  # the first speaks for all
            yield _finding(timeline, [other], Confidence.POSSIBLE, mended=False)


def _groups(timeline: Timeline) -> Iterator[list[tuple[Copy, Confidence]]]:
    """Sure copies in statements that follow each other, for one remark; others by themselves."""
    group: list[tuple[Copy, Confidence]] = []
    for copy, sure in _copies(timeline):
        last = group[-1][0].place if group else copy.place
        near = last.block == copy.place.block and 0 <= copy.place.index - last.index <= 1
        if group and near and Confidence.POSSIBLE not in (sure, group[-1][1]):
            group.append((copy, sure))
            continue
        if group:
            yield group
        group = [(copy, sure)]
    if group:
        yield group


def _copies(timeline: Timeline) -> Iterator[tuple[Copy, Confidence]]:
    seen: set[Span] = set()
    for copy in timeline.of(Copy):
        if copy.direction is not Direction.TO_DEVICE or not copy.blocking:
            continue
        if copy.call.fact.async_by != "non_blocking" or copy.call.has("non_blocking"):
            continue
        if not copy.place.repeated or copy.source.kind is not Kind.TENSOR:
            continue
        sure = _confidence(timeline, copy)
        if sure is not None and copy.place.span not in seen:
            seen.add(copy.place.span)
            yield copy, sure


def _finding(
    timeline: Timeline, copies: list[Copy], sure: Confidence, *, mended: bool = True
) -> Finding:
    copy, more = copies[0], len(copies) - 1
    others = f"; so do the {more} after it" if more > 1 else "; so does the next" if more else ""
    return Finding(
        copy.place.span,
        f"{shown(timeline.text(copy.place.span))} waits for the copy, and for the kernels "
        f"queued before it, {when(copy.place)}{others}. {_memory(copy)} "
        f"Add `non_blocking=True`{' to each' if more else ''}.",
        sure,
        Severity.WARNING,
        related=tuple(Related(other.place.span, "waits as well") for other in copies[1:]),
        fix=_fix(timeline, copies) if mended else None,
    )


def _memory(copy: Copy) -> str:
    if copy.source.pinned:
        return "The batch is pinned, so the copy could overlap with them."
    return "With a pinned batch the copy could overlap with them."


def _confidence(timeline: Timeline, copy: Copy) -> Confidence | None:
    if copy.source.pinned is True:
        sure = Confidence.CERTAIN.weaker(copy.result.sure)
        return Confidence.POSSIBLE if _is_an_object(timeline, copy) else sure
    if copy.source.made_by is not None or copy.source.homemade or copy.source.pinned is False:
        return None
    from_loader = any(loop.kind is LoopKind.DATA for loop in copy.place.loops)
    if from_loader or (copy.source.device is Device.HOST and not _written(copy)):
        return Confidence.POSSIBLE  # the loader is made elsewhere
    return None


def _is_an_object(timeline: Timeline, copy: Copy) -> bool:
    """A whole batch of a loader with its own collate function may be of any class."""
    loop = next((x for x in reversed(copy.place.loops) if x.kind is LoopKind.DATA), None)
    loader = loop.over.made_by if loop is not None else None
    while isinstance(loader, Call) and loader.fact.kind != "loader" and loader.arguments:
        loader = loader.arguments[0].value.made_by  # enumerate(loader), tqdm(loader)
    moved = copy.call.receiver_span
    if loop is None or moved is None:
        return False
    known = isinstance(loader, Call)
    collates = loader.has("collate_fn") if known else "collate_fn=" in timeline.source.text
    name, _, position = timeline.text(moved).partition("[")
    header = timeline.text(loop.span)
    whole = re.search(rf"for (\w+, )?{re.escape(name)} in", header) is not None
    return collates and whole and position.rstrip("]").isdigit() == bool(position)


def _written(copy: Copy) -> bool:
    """What the host has just computed isn't pinned by any loader."""
    return copy.source.type.startswith("numpy.") or copy.source.fetched is not None


def _fix(timeline: Timeline, copies: list[Copy]) -> Fix | None:
    edits = [add_keyword(timeline.source, c.call.span, "non_blocking", "True") for c in copies]
    done = tuple(edit for edit in edits if edit is not None)
    if len(done) < len(edits):
        return None
    if copies[0].source.pinned is True:
        return Fix("Do not wait for the copy", done, Safety.SAFE)
    condition = "It helps only when the batches are pinned (`pin_memory=True` at the loader)."
    return Fix("Do not wait for the copy", done, Safety.UNSAFE, condition)
