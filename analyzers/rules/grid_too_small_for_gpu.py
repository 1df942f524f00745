"""A grid of few blocks leaves most of the GPU idle.

## What it does
Finds launches in a loop whose whole grid is a constant that is smaller than the number of
multiprocessors.

## Why it matters
A block runs on one multiprocessor. Eight blocks leave 100 of an A100's 108 idle.

## Example
At least two blocks for each multiprocessor; a grid-stride loop takes any number of elements.

## Fix safety
How the work is split is the kernel's matter, so no edit is proposed.

## When to ignore
For small data, set-up kernels and reductions by a single block.

## References
- Numba's own warning: "Grid size … will likely result in GPU under-utilization"
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Severity
from analyzers.gpus import limits, product
from analyzers.judging import applies, when
from analyzers.launching import has_threads, kernel_of, serious, shape
from analyzers.places import Heat
from analyzers.rule import Bad, rule
from analyzers.timeline import Launch, Timeline

BAD = [
    Bad(
        """
        from numba import cuda

        @cuda.jit
        def scale(x, f):
            for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
                x[i] *= f

        def run(batches):
            for batch in batches:
                scale[8, 1024](cuda.to_device(batch), 2)  # <-
        """
    ),
    Bad(
        """
        import cupy as cp

        k = cp.RawKernel(SOURCE, "smooth")

        def run(x, steps):
            for _ in range(steps):
                k((16,), (256,), (x, x.size))  # <-
        """
    ),
]
GOOD = [
    """
    from numba import cuda

    @cuda.jit
    def scale(x, f):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            x[i] *= f

    def run(batches):
        for batch in batches:
            scale[512, 256](cuda.to_device(batch), 2)
    """,
    # One block, one small block: a reduction or a set-up.
    """
    from numba import cuda

    @cuda.jit
    def first(x):
        x[cuda.threadIdx.x] = 0

    def run(x, steps):
        for _ in range(steps):
            first[1, 32](x)
            first[1, 256](x)
    """,
    # Launched once.
    """
    from numba import cuda

    @cuda.jit
    def fill(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = 0

    def setup(x):
        fill[8, 128](x)
    """,
]

_SMALL = 64  # of blocks, where no GPU is named: fewer than any of them has multiprocessors … almost


@rule("GPU603", severity=Severity.WARNING, bad=BAD, good=GOOD)
def grid_too_small_for_gpu(timeline: Timeline) -> Iterator[Finding]:
    gpu = product(timeline.gpu)
    enough = gpu.sms if gpu is not None else _SMALL
    for launch in timeline.of(Launch):
        place = launch.place
        if not has_threads(launch) or not serious(place) or not applies(place):
            continue
        grid, block = shape(launch.grid), shape(launch.block)
        blocks = grid.product if grid is not None else None
        threads = block.product if block is not None else None
        # A single block is a choice: it can synchronise. Few threads mean little data.
        if blocks is None or threads is None or not 1 < blocks < enough:
            continue
        if threads < limits().warp or place.heat is not Heat.HOT:
            continue
        kernel = kernel_of(launch.kernel)
        strides = kernel is None or kernel.strides
        named = f"the {gpu.sms} multiprocessors of {gpu.name}" if gpu else "a GPU's multiprocessors"
        yield Finding(
            launch.grid_span or place.span,
            f"A grid of {blocks} blocks keeps at most {blocks} of {named} busy, {when(place)}. "
            "The others idle. Use more and smaller blocks, and a grid-stride loop in the kernel.",
            Confidence.LIKELY if place.in_loop and strides else Confidence.POSSIBLE,
            Severity.WARNING,
        )
