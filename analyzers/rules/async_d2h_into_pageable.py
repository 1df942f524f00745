"""An asynchronous copy to the host ends in pageable memory.

## What it does
Finds copies to the host that are given a stream, or asked not to wait, whose destination is an
ordinary array: `d.copy_to_host(np.empty(n), stream=s)`, `d.copy_to_host(stream=s)`,
`a.get(blocking=False)`, `host.copy_(x, non_blocking=True)`.

## Why it matters
The copy engine writes only to page-locked memory. Into pageable memory the driver copies through a
small buffer of its own and holds the calling thread until the data is there: the stream argument
buys no overlap.

## Example
Allocate the destination once with `cuda.pinned_array` (Numba), `cupyx.empty_pinned` (CuPy),
`pagelocked_empty` (PyCUDA) or `pin_memory=True` (PyTorch), pass it in, and wait before reading it.

## Fix safety
None is offered: a pinned destination makes the copy truly asynchronous, so the wait that was
never needed becomes necessary (GPU901), and a buffer that is reused needs care.

## When to ignore
The code is right, only not faster than the plain copy. Ignore this for small copies.

## References
- CUDA Runtime API, "API synchronization behavior": transfers from device to pageable memory
- Numba source, `DeviceNDArray.copy_to_host`: without a destination it allocates with `np.empty`
- CuPy source, `ndarray.get`
"""

from collections.abc import Iterator

from analyzers.copying import pageable
from analyzers.dryrun.values import Device
from analyzers.finding import Confidence, Finding, Related, Severity
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import numpy as np
        from numba import cuda

        def fetch(parts, streams):
            results = []
            for part, stream in zip(parts, streams):
                device = cuda.to_device(part)
                host = np.empty(part.size, dtype=np.float32)
                device.copy_to_host(host, stream=stream)  # <-
                results.append(host)
            cuda.synchronize()
            return results
        """
    ),
    Bad(
        """
        import cupy as cp

        def fetch(x, stream):
            total = cp.asarray(x).sum(axis=0)
            host = total.get(stream=stream, blocking=False)  # <-
            stream.synchronize()
            return host
        """
    ),
    Bad(
        """
        import torch

        def offload(gradients, stream):
            kept = torch.empty(gradients.shape)
            kept.copy_(gradients.cuda(), non_blocking=True)  # <-
            torch.cuda.synchronize()
            return kept
        """
    ),
]
GOOD = [
    """
    import numpy as np
    from numba import cuda

    def fetch(part, stream):
        host = cuda.pinned_array(part.size, dtype=np.float32)
        device = cuda.to_device(part, stream=stream)
        device.copy_to_host(host, stream=stream)
        stream.synchronize()
        return host
    """,
    # PyTorch allocates a pinned destination by itself.
    """
    import torch

    def fetch(x):
        host = x.cuda().to("cpu", non_blocking=True)
        torch.cuda.synchronize()
        return host
    """,
    # It waits, and says so.
    """
    import numpy as np
    from numba import cuda

    def fetch(part):
        host = np.empty(part.size, dtype=np.float32)
        cuda.to_device(part).copy_to_host(host)
        return host
    """,
]


@rule("GPU216", severity=Severity.INFO, bad=BAD, good=GOOD)
def async_d2h_into_pageable(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    for copy in timeline.of(Copy):
        if copy.direction is not Direction.TO_HOST or copy.blocking:
            continue
        sure = _pageable(copy)
        if sure is None or copy.source.device is Device.UNKNOWN:
            continue
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(copy.place.span))} lands in pageable memory, so the driver "
            "holds the host until the data is there. The stream buys no overlap. "
            "Pass in a pinned buffer that is allocated once, and wait before reading it.",
            sure.weaker(copy.source.sure),
            Severity.INFO,
            related=_allocation(copy),
        )


def _pageable(copy: Copy) -> Confidence | None:
    if copy.destination is not None:
        return pageable(copy.destination)
    into = copy.call.fact.into
    # Without a destination an array library allocates one; a star may hold it.
    if into in ("", "receiver") or copy.call.has(into) or copy.call.has_star:
        return None
    pinned = copy.call.argument("pagelocked")
    return Confidence.LIKELY if pinned is None else None


def _allocation(copy: Copy) -> tuple[Related, ...]:
    made = copy.destination.made_by if copy.destination is not None else None
    if not isinstance(made, Call):
        return ()
    return (Related(made.span, "allocated here, in pageable memory"),)
