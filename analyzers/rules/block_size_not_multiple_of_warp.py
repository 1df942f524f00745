"""A block's number of threads is no multiple of the warp.

## What it does
Finds launches whose number of threads per block is known and is not a multiple of 32.

## Why it matters
Threads run in warps of 32. A block of 100 threads takes four warps and leaves 28 lanes idle in the
last one, in every block of the grid.

## Example
Use 128 or 256 threads, and compute the grid from that by a division that rounds up.

## Fix safety
The kernel must check its bounds, and shared memory may be laid out for the old size: so no edit is
proposed.

## When to ignore
For kernels that one warp or one small block solves, and for demonstrations.

## References
- CUDA C++ Best Practices Guide, "Execution configuration optimizations"
- Numba, "Choosing the block size"
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Severity
from analyzers.gpus import limits
from analyzers.launching import has_threads, serious, shape
from analyzers.rule import Bad, rule
from analyzers.timeline import Launch, Timeline

BAD = [
    Bad(
        """
        from numba import cuda

        @cuda.jit
        def scale(x, f):
            i = cuda.grid(1)
            if i < x.size:
                x[i] *= f

        def run(x, n):
            threads = 100
            blocks = (n + threads - 1) // threads
            scale[blocks, threads](x, 2)  # <-
        """
    ),
    Bad(
        """
        import cupy as cp

        kernel = cp.RawKernel(SOURCE, "blur")

        def blur(image, out):
            h, w = image.shape
            kernel(((w + 9) // 10, (h + 9) // 10), (10, 10), (image, out, w, h))  # <-
        """
    ),
]
GOOD = [
    """
    from numba import cuda

    @cuda.jit
    def scale(x, f):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= f

    def run(x, n):
        scale[(n + 127) // 128, 128](x, 2)
    """,
    # One block: the size of the problem.
    """
    from numba import cuda

    @cuda.jit
    def solve(x):
        i = cuda.threadIdx.x
        x[i] += 1

    def run(x):
        solve[1, 20](x)
    """,
    # 16 by 16 is eight full warps.
    """
    import cupy as cp

    kernel = cp.RawKernel(SOURCE, "blur")

    def blur(image, out):
        h, w = image.shape
        kernel(((w + 15) // 16, (h + 15) // 16), (16, 16), (image, out, w, h))
    """,
]


@rule("GPU601", severity=Severity.WARNING, bad=BAD, good=GOOD)
def block_size_not_multiple_of_warp(timeline: Timeline) -> Iterator[Finding]:
    warp = limits().warp
    for launch in timeline.of(Launch):
        if not has_threads(launch) or not serious(launch.place):
            continue
        block, grid = shape(launch.block), shape(launch.grid)
        threads = block.product if block is not None else None
        if threads is None or threads <= 1 or threads % warp == 0:
            continue
        if grid is None or grid.product == 1 or threads > limits().threads_per_block:
            continue
        idle = -threads % warp
        yield Finding(
            launch.block_span or launch.place.span,
            f"A block of {threads} threads is no multiple of the warp ({warp}). "
            f"The last warp of every block leaves {idle} of {warp} lanes idle. "
            "Use 128 or 256 threads, and round the number of blocks up.",
            _confidence(threads, grid.product),
            Severity.WARNING,
        )


def _confidence(threads: int, blocks: int | None) -> Confidence:
    if threads < limits().warp or (blocks is not None and blocks < 16):
        return Confidence.POSSIBLE  # a small problem of its own in each block, or a demonstration
    return Confidence.LIKELY
