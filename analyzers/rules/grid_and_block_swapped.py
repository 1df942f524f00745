"""Grid and block are passed in the wrong order.

## What it does
Finds launches whose first position holds the threads of a block and whose second holds the number
of blocks: by their names, or because the first is a block's constant and the second is computed
from the size.

## Why it matters
It works by accident while there are few blocks, in blocks of odd sizes. As soon as the data needs
more than 1024 blocks, the driver rejects the launch.

## Example
`kernel[blocks, threads](…)`; CuPy `kernel((blocks,), (threads,), args)`.

## Fix safety
Right where the names say what they hold. A kernel with a grid-stride loop gave correct results in
either order.

## When to ignore
When the names are misleading and the values are right.

## References
- Numba, "Kernel invocation": the number of blocks first, then the threads per block
- CuPy, `RawKernel.__call__`: grid, block, args
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Edit, Finding, Fix, Safety, Severity
from analyzers.gpus import limits
from analyzers.judging import shown
from analyzers.launching import (
    has_threads,
    is_ceiling,
    names_blocks,
    names_threads,
    serious,
    shape,
)
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
            threads = 256
            blocks = (n + threads - 1) // threads
            scale[threads, blocks](x, 2)  # <-
        """,
        fixed="""
        from numba import cuda

        @cuda.jit
        def scale(x, f):
            i = cuda.grid(1)
            if i < x.size:
                x[i] *= f

        def run(x, n):
            threads = 256
            blocks = (n + threads - 1) // threads
            scale[blocks, threads](x, 2)
        """,
    ),
    Bad(
        """
        import cupy as cp

        module = cp.RawModule(code=SOURCE)

        def resample(out, x):
            threadsperblock = (8, 8)
            blockspergrid = (out.shape[0] // 8 + 1, out.shape[1] // 8 + 1)
            kernel = module.get_function("resample")
            kernel(threadsperblock, blockspergrid, (x, out))  # <-
        """,
        fixed="""
        import cupy as cp

        module = cp.RawModule(code=SOURCE)

        def resample(out, x):
            threadsperblock = (8, 8)
            blockspergrid = (out.shape[0] // 8 + 1, out.shape[1] // 8 + 1)
            kernel = module.get_function("resample")
            kernel(blockspergrid, threadsperblock, (x, out))
        """,
    ),
    # No names: a block's constant where the grid belongs.
    Bad(
        """
        import cupy as cp

        k = cp.RawKernel(SOURCE, "k")

        def run(x, size):
            bs = 128
            k((bs,), ((size + bs - 1) // bs,), (x, size))  # <-
        """,
        fixed="""
        import cupy as cp

        k = cp.RawKernel(SOURCE, "k")

        def run(x, size):
            bs = 128
            k(((size + bs - 1) // bs,), (bs,), (x, size))
        """,
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
        threads_per_block = 256
        blocks_per_grid = (n + threads_per_block - 1) // threads_per_block
        scale[blocks_per_grid, threads_per_block](x, 2)
    """,
    # Keywords say which is which.
    """
    import cupy as cp

    k = cp.RawKernel(SOURCE, "k")

    def run(x, threads, blocks):
        k(block=(threads,), grid=(blocks,), args=(x,))
    """,
    # A fixed grid for a grid-stride loop.
    """
    from numba import cuda

    @cuda.jit
    def scale(x, f):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            x[i] *= f

    def run(x):
        scale[256, 128](x, 2)
    """,
]


@rule("GPU605", severity=Severity.ERROR, bad=BAD, good=GOOD)
def grid_and_block_swapped(timeline: Timeline) -> Iterator[Finding]:
    for launch in timeline.of(Launch):
        grid_span, block_span = launch.grid_span, launch.block_span
        if not has_threads(launch) or grid_span is None or block_span is None:
            continue
        first, second = timeline.text(grid_span), timeline.text(block_span)
        if any(a.keyword and a.name in ("grid", "block") for a in launch.call.arguments):
            continue
        sure = _confidence(launch, first, second)
        if sure is None or not serious(launch.place) or "=" in first:
            continue
        yield Finding(
            launch.place.span,
            f"The grid comes first, but {shown(first)} holds the threads of a block and "
            f"{shown(second)} the number of blocks. The launch fails as soon as there are more "
            "than 1024 blocks. Swap the two.",
            sure,
            Severity.ERROR,
            fix=Fix(
                "Swap grid and block",
                (Edit(grid_span, second), Edit(block_span, first)),
                Safety.UNSAFE,
                "Right where the names hold what they say.",
            ),
        )


def _confidence(launch: Launch, first: str, second: str) -> Confidence | None:
    if _plain(first) and _plain(second) and names_threads(first) and names_blocks(second):
        return Confidence.CERTAIN
    grid, block = shape(launch.grid), shape(launch.block)
    if grid is None or block is None:
        return None
    threads = grid.product
    common = limits()
    if threads is None or threads % common.warp or not 0 < threads <= common.threads_per_block:
        return None
    computed = any(is_ceiling(part) and not part.known for part in block.parts)
    return Confidence.LIKELY if computed else None


def _plain(text: str) -> bool:
    """A name, with dots perhaps, or a tuple of one."""
    return text.strip("(), ").replace(".", "_").isidentifier()
