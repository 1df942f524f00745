"""Page-locked memory is allocated again and again, or for everything at once.

## What it does
Finds `pinned_array`, `pagelocked_empty`, `empty_pinned` and their kin in a loop that copies through
the new buffer, and `.pin_memory()` on data as it comes from a file.

## Why it matters
Page-locking is a slow system call, and while it runs no two streams make progress together. What
is locked cannot be swapped: a whole data set takes memory from everything else on the machine.

## Example
Allocate a few staging buffers once, and reuse them. Let the `DataLoader` pin its batches.

## Fix safety
None is offered: a buffer that is reused must not be refilled before the copy from it is done
(GPU309).

## When to ignore
Where the data is small, or where weights are kept pinned on purpose to swap them in quickly.

## References
- CUDA programming guide, "Implicit Synchronization": page-locked host memory allocation
- PyTorch documentation, "Use pinned memory buffers"
"""

from collections.abc import Iterator

from analyzers.copying import same_turn
from analyzers.dryrun.values import Value
from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import applies, shown, when
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import numpy as np
        from numba import cuda

        def feed(kernel, arrays, stream):
            for array in arrays:
                host = cuda.pinned_array(array.shape, dtype=np.float32)  # <-
                host[:] = array
                device = cuda.to_device(host, stream=stream)
                kernel[64, 256, stream](device)
                stream.synchronize()
        """
    ),
    Bad(
        """
        import torch

        def features(path):
            return torch.load(path).pin_memory()  # <-

        def step(x):
            return x.cuda(non_blocking=True)
        """
    ),
]
GOOD = [
    # Allocated once, refilled.
    """
    import numpy as np
    from numba import cuda

    def feed(kernel, arrays, stream, shape):
        host = cuda.pinned_array(shape, dtype=np.float32)
        for array in arrays:
            host[:] = array
            device = cuda.to_device(host, stream=stream)
            kernel[64, 256, stream](device)
            stream.synchronize()
    """,
    # Kept with what it belongs to.
    """
    import pycuda.driver as drv
    from pycuda import gpuarray

    def prepare(scans):
        for scan in scans:
            rows = scan.rows
            scan.rows = drv.pagelocked_empty(rows.shape, rows.dtype)
            scan.rows[:] = rows
            scan.device = gpuarray.to_gpu(scan.rows)
    """,
    # A ring of buffers, made before the work begins.
    """
    import numpy as np
    from numba import cuda

    def ring(count, shape):
        buffers = []
        for _ in range(count):
            buffers.append(cuda.pinned_array(shape, dtype=np.float32))
        return buffers, [cuda.pinned_array(shape) for _ in range(count)]
    """,
]


@rule("GPU510", severity=Severity.WARNING, bad=BAD, good=GOOD)
def pinned_allocation_in_loop_or_whole_dataset(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    copies = list(timeline.of(Copy))
    loads = {call.span for call in timeline.calls("load")}
    for call in timeline.calls():
        if call.fact.pins != "always" or call.fact.effect == "managed" or not applies(call.place):
            continue
        if call.receiver_span in loads:
            yield _whole(timeline, call)
        elif (
            call.receiver is None
            and not _kept(timeline, call)
            and any(_through(copy, call) for copy in copies)
        ):
            yield _per_turn(timeline, call)


def _kept(timeline: Timeline, call: Call) -> bool:
    """The buffer is put where later turns find it."""
    target, _, _ = timeline.text(call.place.statement).partition("=")
    return any(mark in target for mark in (".", "["))


def _through(copy: Copy, call: Call) -> bool:
    """Whether the copy goes through the buffer in the turn that allocated it."""
    ends = (copy.source, copy.destination)
    return same_turn(copy.place, call.place) and any(_is(end, call) for end in ends)


def _is(value: Value | None, call: Call) -> bool:
    made = value.made_by if value is not None else None
    return isinstance(made, Call) and made.span == call.span


def _per_turn(timeline: Timeline, call: Call) -> Finding:
    return Finding(
        call.span,
        f"{shown(timeline.text(call.span))} locks new memory {when(call.place)}. That is a slow "
        "system call, and no two streams run side by side meanwhile. Allocate a few buffers once "
        "and refill them.",
        Confidence.LIKELY,
        Severity.WARNING,
    )


def _whole(timeline: Timeline, call: Call) -> Finding:
    return Finding(
        call.span,
        f"{shown(timeline.text(call.span))} locks all that the file holds. It may be more than "
        "the machine can spare, since locked memory is never swapped. Pin batch by batch.",
        Confidence.POSSIBLE,
        Severity.WARNING,
    )
