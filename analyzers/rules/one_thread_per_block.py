"""Every block has a single thread.

## What it does
Finds launches of many blocks with one thread each.

## Why it matters
A warp always has 32 lanes: 31 of them idle. An SM holds at most 16 to 32 blocks at a time, so it
runs 32 threads where it could run 2048.

## Example
`kernel.forall(n)` (Numba), or 256 threads a block with `if i < n` in the kernel.

## Fix safety
The kernel must check its bounds, and one that reads `blockIdx.x` must take the thread's global
index in its place: so no edit is proposed.

## When to ignore
For kernels that are sequential on purpose, one per block.

## References
- CCCL, `libcudacxx` arch_traits.h: blocks and threads per multiprocessor
- Numba, "Choosing the block size"
"""

import re
from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Severity
from analyzers.launching import has_threads, kernel_of, part_text, serious, shape
from analyzers.rule import Bad, rule
from analyzers.timeline import Launch, Timeline

BAD = [
    Bad(
        """
        from numba import cuda

        @cuda.jit
        def double(x):
            i = cuda.grid(1)
            x[i] *= 2

        def run(x):
            n = x.size
            double[n, 1](cuda.to_device(x))  # <-
        """
    ),
    Bad(
        """
        import cupy as cp

        k = cp.RawKernel(SOURCE, "double_all")

        def run(x):
            k((4096,), (1,), (x,))  # <-
        """
    ),
]
GOOD = [
    """
    from numba import cuda

    @cuda.jit
    def double(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    def run(x):
        double.forall(x.size)(cuda.to_device(x))
    """,
    # One thread in all: a set-up kernel.
    """
    from numba import cuda

    @cuda.jit
    def start(x):
        x[0] = 1

    def run(x):
        start[1, 1](x)
    """,
    # A Triton grid counts programs; the threads are Triton's matter.
    """
    import triton
    import triton.language as tl

    @triton.jit
    def add(x, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

    def run(x, n):
        add[(triton.cdiv(n, 256), 1)](x, n, BLOCK=256)
    """,
]


@rule("GPU604", severity=Severity.WARNING, bad=BAD, good=GOOD)
def one_thread_per_block(timeline: Timeline) -> Iterator[Finding]:
    for launch in timeline.of(Launch):
        if not has_threads(launch) or not serious(launch.place):
            continue
        block, grid = shape(launch.block), shape(launch.grid)
        if block is None or block.product != 1:
            continue
        blocks = grid.product if grid is not None else None
        if blocks is not None and blocks <= 32:
            continue
        yield Finding(
            launch.block_span or launch.place.span,
            "Each block has one thread. 31 of the 32 lanes of its warp idle, and an SM holds at "
            "most 32 blocks. Use 256 threads a block and an index check in the kernel.",
            _confidence(timeline, launch, blocks),
            Severity.WARNING,
        )


_COUNTS = re.compile(r"^(n|N)$|size|shape|len\(|\bnum|count|total|numel|n_?elem|^\d{3,}$")


def _confidence(timeline: Timeline, launch: Launch, blocks: int | None) -> Confidence:
    """Sure where the grid counts elements; a sequential problem per block is a choice."""
    kernel = kernel_of(launch.kernel)
    if kernel is not None and kernel.indices:
        return Confidence.LIKELY
    text = part_text(timeline, launch.grid_span, 0)
    many = blocks is not None and blocks >= 1024
    return Confidence.LIKELY if many or _COUNTS.search(text) else Confidence.POSSIBLE
