"""A kernel declares more static shared memory than a block may have.

## What it does
Adds up the shared arrays of a Numba kernel whose shapes and types are literal, and reports sums
over 48 KB.

## Why it matters
48 KB per block is the limit on every GPU unless a launch opts in to more, which static arrays
cannot. The kernel does not compile or launch.

## Example
A smaller tile, or dynamic shared memory with an opt-in.

## Fix safety
The tile's size decides how the kernel works, so no edit is proposed.

## When to ignore
Never.

## References
- CCCL, `libcudacxx` arch_traits.h: 48 KB shared memory per block
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Severity
from analyzers.gpus import limits
from analyzers.launching import kernel_of
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline

BAD = [
    Bad(
        """
        from numba import cuda, float32

        @cuda.jit
        def multiply(a, b, c):
            tile = cuda.shared.array((128, 128), float32)  # <-
            i, j = cuda.grid(2)
            tile[cuda.threadIdx.x, cuda.threadIdx.y] = a[i, j]
        """
    ),
    Bad(
        """
        import numpy as np
        from numba import cuda

        @cuda.jit
        def two(a):
            left = cuda.shared.array(shape=(64, 64), dtype=np.float64)
            right = cuda.shared.array(shape=(64, 64), dtype=np.float64)  # <-
            left[0, 0] = a[0]
            right[0, 0] = a[1]
        """
    ),
]
GOOD = [
    """
    from numba import cuda, float32

    @cuda.jit
    def multiply(a, b, c):
        tile = cuda.shared.array((64, 64), float32)
        i, j = cuda.grid(2)
        tile[cuda.threadIdx.x, cuda.threadIdx.y] = a[i, j]
    """,
    # Dynamic: its size is the launch's matter.
    """
    from numba import cuda, float32

    @cuda.jit
    def multiply(a, b, c):
        tile = cuda.shared.array(0, float32)
        tile[cuda.threadIdx.x] = a[0]
    """,
    # Sizes that are not written here.
    """
    from numba import cuda, float32

    def make(size):
        @cuda.jit
        def kernel(a):
            tile = cuda.shared.array((size, size), float32)
            tile[0, 0] = a[0]
        return kernel
    """,
]


@rule("GPU608", severity=Severity.ERROR, bad=BAD, good=GOOD)
def static_shared_memory_over_48k(timeline: Timeline) -> Iterator[Finding]:
    most = limits().static_shared_bytes
    for defined in timeline.kernels:
        kernel = kernel_of(defined)
        if kernel is None:
            continue
        total, calls = kernel.shared_bytes()
        if total <= most or not calls:
            continue
        yield Finding(
            timeline.source.span(calls[-1]),
            f"This kernel's shared arrays take {total:,} bytes, and a block may have {most:,}. "
            "It does not launch. Use a smaller tile, or dynamic shared memory with an opt-in.",
            Confidence.CERTAIN,
            Severity.ERROR,
        )
