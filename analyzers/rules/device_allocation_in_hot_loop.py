"""Device memory of one size is allocated on every turn of a loop.

## What it does
Finds Numba's `device_array`, and PyCUDA's and cuda-python's allocators, in a loop where the size
is the same on every turn and the buffer does not outlive it.

## Why it matters
These libraries ask the driver for each allocation, and give memory back in batches that wait for
the device (Numba after ten pending deallocations). PyTorch and CuPy keep a pool and are not meant.

## Example
Allocate once before the loop, and copy into it with `to=` or `copy_to_device`.

## Fix safety
Results kept from an earlier turn would be overwritten, so no edit is proposed.

## When to ignore
With a pooling memory manager (RMM) plugged into Numba.

## References
- Numba-CUDA, "Deallocation behavior"
- CUDA C++ Programming Guide, "Implicit synchronization": device memory allocation
"""

import re
from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import applies, shown, when
from analyzers.launching import around
from analyzers.places import LoopKind
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline

BAD = [
    Bad(
        """
        import numpy as np
        from numba import cuda

        @cuda.jit
        def filter_frame(frame, out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = frame[i]

        def run(frames, n):
            total = 0
            for frame in frames:
                d_out = cuda.device_array(n, np.float32)  # <-
                filter_frame[(n + 255) // 256, 256](cuda.to_device(frame), d_out)
                total += d_out.copy_to_host().sum()
            return total
        """
    ),
    Bad(
        """
        import pycuda.driver as drv

        def run(kernel, steps, nbytes):
            for step in range(steps):
                scratch = drv.mem_alloc(nbytes)  # <-
                kernel(scratch, block=(256, 1, 1), grid=(64, 1))
        """
    ),
]
GOOD = [
    """
    import numpy as np
    from numba import cuda

    @cuda.jit
    def filter_frame(frame, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = frame[i]

    def run(frames, n):
        d_out = cuda.device_array(n, np.float32)
        for frame in frames:
            filter_frame[(n + 255) // 256, 256](cuda.to_device(frame), d_out)
    """,
    # Kept: each turn needs its own.
    """
    import numpy as np
    from numba import cuda

    def buffers(count, n):
        kept = []
        for i in range(count):
            buffer = cuda.device_array(n, np.float32)
            kept.append(buffer)
        return kept
    """,
    # Of another size on each turn.
    """
    import numpy as np
    from numba import cuda

    def run(kernel, frames):
        for frame in frames:
            out = cuda.device_array(frame.size, np.float32)
            kernel.forall(frame.size)(frame, out)
    """,
    # A pool hands out the same memory again.
    """
    import torch

    def run(model, loader):
        for x in loader:
            noise = torch.empty(64, device="cuda")
            model(x.cuda(), noise)
    """,
]

_UNPOOLED = ("numba.cuda.device_array", "numba.cuda.DeviceNDArray", "pycuda.driver.mem_alloc")
_POOL = re.compile(r"\brmm\b|MemoryPool|set_memory_manager")


@rule("GPU504", severity=Severity.WARNING, bad=BAD, good=GOOD)
def device_allocation_in_hot_loop(timeline: Timeline) -> Iterator[Finding]:
    calls = [call for call in timeline.calls() if call.name.startswith(_UNPOOLED)]
    if not calls or _POOL.search(timeline.source.text):
        return
    for call in calls:
        place = call.place
        if not place.in_loop or not applies(place):
            continue
        if place.loops[-1].comprehension or not _same_size(timeline, call):
            continue
        if not _dies(timeline, call):
            continue
        many = place.loops[-1].kind in (LoopKind.DATA, LoopKind.STEPS, LoopKind.ITEMS)
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} allocates device memory of the same size "
            f"{when(place)}. The driver is asked each time, and giving memory back waits for the "
            "GPU. Allocate once before the loop and reuse the buffer.",
            Confidence.LIKELY if many else Confidence.POSSIBLE,
            Severity.WARNING,
        )


def _same_size(timeline: Timeline, call: Call) -> bool:
    """Whether nothing that the loop changes decides the size."""
    words = set(
        re.findall(r"[A-Za-z_]\w*", " ".join(timeline.text(a.span) for a in call.arguments))
    )
    loop = call.place.loops[-1].span
    header = timeline.text(loop)
    targets = set(re.findall(r"[A-Za-z_]\w*", header.partition(" in ")[0]))
    lines = timeline.source.lines[loop.line : call.place.span.line - 1]
    for line in lines:
        assigned = re.match(r"\s*([\w, ]+?)\s*(?:[-+*/|&]|//)?=(?!=)", line)
        if assigned:
            targets |= set(re.findall(r"[A-Za-z_]\w*", assigned[1]))
    return words.isdisjoint(targets)


def _dies(timeline: Timeline, call: Call) -> bool:
    """Whether the buffer is bound to a plain name that nothing keeps."""
    bound = re.match(r"(\w+)\s*=", timeline.text(call.place.statement))
    if bound is None:
        return False
    name = re.escape(bound[1])
    kept = (
        rf"append\(.*\b{name}\b|\]\s*=\s*{name}\b|\.\w+\s*=\s*{name}\b|(return|yield)\b.*\b{name}\b"
    )
    swapped = rf"=\s*{name}\s*(,|$)|,\s*{name}\s*="
    text = around(timeline, call.place)
    return not re.search(f"{kept}|{swapped}", text, re.MULTILINE)
