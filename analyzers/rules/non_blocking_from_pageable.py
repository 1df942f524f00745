"""An asynchronous copy to the device starts in pageable memory.

## What it does
Finds `.to(device, non_blocking=True)`, `to_device(a, stream=s)` and their kin on an array that is
known to lie in ordinary, pageable memory, where the copy is made again and again.

## Why it matters
The copy engine reads only page-locked memory. From anywhere else the driver first copies the data
into a small pinned buffer of its own, piece by piece, on the calling thread. The call is
asynchronous in name, and the overlap it was written for does not come.

## Example
Fill a pinned buffer that lives as long as the loop, or let the `DataLoader` pin its batches.

## Fix safety
None is offered: `.pin_memory()` in the same expression blocks the host for longer than it saves
(GPU204), and a buffer that is reused must not be refilled while its copy is under way (GPU309).

## When to ignore
The argument does no harm: it spares PyTorch's own wait. Ignore this for small arrays, and where
nothing runs on the host meanwhile.

## References
- CUDA Runtime API, "API synchronization behavior", asynchronous copies from pageable memory
- PyTorch tutorial "A guide on good usage of non_blocking and pin_memory()"
- Nsight Systems expert rule `cuda_memcpy_async`
"""

from collections.abc import Iterator

from analyzers.copying import pageable
from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import measured, shown
from analyzers.places import LoopKind
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import numpy as np
        import torch

        def train(model, paths, optimizer):
            model.cuda()
            for path in paths:
                x = torch.from_numpy(np.load(path)).to("cuda", non_blocking=True)  # <-
                model(x).sum().backward()
                optimizer.step()
        """
    ),
    Bad(
        """
        import numpy as np
        from numba import cuda

        def feed(kernel, blocks, shape, count):
            stream = cuda.stream()
            for _ in range(count):
                host = np.random.rand(*shape)
                device = cuda.to_device(host, stream=stream)  # <-
                kernel[blocks, 128, stream](device)
            stream.synchronize()
        """
    ),
]
GOOD = [
    # The buffer is page-locked.
    """
    import numpy as np
    import torch

    def train(model, paths, optimizer, shape):
        model.cuda()
        buffer = torch.empty(shape, pin_memory=True)
        for path in paths:
            buffer.copy_(torch.from_numpy(np.load(path)))
            x = buffer.to("cuda", non_blocking=True)
            model(x).sum().backward()
            torch.cuda.synchronize()
    """,
    # What the loader hands out is pinned by the loader: see GPU701.
    """
    import torch
    from torch.utils.data import DataLoader

    def train(model, dataset):
        for x in DataLoader(dataset, pin_memory=True):
            model(x.to("cuda", non_blocking=True))
    """,
    # Once, before the work begins.
    """
    import numpy as np
    import torch

    def load_table(path):
        return torch.from_numpy(np.load(path)).to("cuda", non_blocking=True)
    """,
]


@rule("GPU203", severity=Severity.INFO, bad=BAD, good=GOOD)
def non_blocking_from_pageable(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    for copy in timeline.of(Copy):
        if copy.direction is not Direction.TO_DEVICE or copy.blocking:
            continue
        if not copy.place.repeated or measured(copy.place) or copy.source.homemade:
            continue
        sure = pageable(copy.source)
        if sure is None:
            continue
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(copy.place.span))} reads pageable memory, so the driver stages "
            f"the copy piece by piece on the calling thread. There is little overlap to gain. "
            f"{_remedy(copy)}",
            sure.weaker(_kind(copy)).weaker(copy.result.sure),
            Severity.INFO,
        )


def _remedy(copy: Copy) -> str:
    loader = isinstance(copy.source.made_by, Call) and copy.source.made_by.fact.kind == "loader"
    if loader or any(loop.kind is LoopKind.DATA for loop in copy.place.loops):
        return "Let the loader pin its batches (`pin_memory=True`)."
    return "Fill a pinned buffer that is kept between the steps."


def _kind(copy: Copy) -> Confidence:
    made = copy.source.made_by
    if isinstance(made, Call) and made.fact.upload:
        return Confidence.POSSIBLE  # numbers from a list: mostly a few bytes
    return Confidence.LIKELY if copy.place.in_loop else Confidence.POSSIBLE
