"""A block of 1024 threads leaves a third of some multiprocessors empty.

## What it does
Finds blocks of 640 to 1024 threads that do not divide 1536, where the configuration names a GPU
whose multiprocessors hold 1536 threads (`gpu = "RTX 4090"`).

## Why it matters
On compute capability 8.6, 8.9 and 12.0 (A10, L4, L40S, RTX 30, 40 and 50) one block of 1024
threads fits, and 512 places stay empty: 67 % at most. Six blocks of 256 fill it.

## Example
128, 256 or 512 threads fill the multiprocessors of every capability since 7.0.

## Fix safety
Shared memory may be laid out for the old size, so no edit is proposed.

## When to ignore
For block-wide reductions, kernels bound by registers or shared memory, and GPUs with 2048 threads
per multiprocessor (V100, A100, H100, B200).

## References
- CCCL, `libcudacxx` arch_traits.h: threads per multiprocessor
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Cost, Finding, Severity
from analyzers.gpus import limits, product
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
            threads = 1024
            scale[(n + threads - 1) // threads, threads](x, 2)  # <-
        """
    ),
    Bad(
        """
        import cupy as cp

        k = cp.RawKernel(SOURCE, "k")

        def run(image, out, h, w):
            k(((w + 31) // 32, (h + 31) // 32), (32, 32), (image, out, h, w))  # <-
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
        scale[(n + 255) // 256, 256](x, 2)
        scale[(n + 767) // 768, 768](x, 2)
    """,
    # One block: a reduction.
    """
    import cupy as cp

    k = cp.RawKernel(SOURCE, "total")

    def run(x, out):
        k((1,), (1024,), (x, out))
    """,
]

_RESIDENT = 1536  # threads per multiprocessor of the GPUs this is about


@rule("GPU607", severity=Severity.INFO, bad=BAD, good=GOOD, gpu="RTX 4090")
def block_1024_halves_occupancy_on_1536_thread_sm(timeline: Timeline) -> Iterator[Finding]:
    gpu = product(timeline.gpu)
    if gpu is None or gpu.threads_per_sm != _RESIDENT:
        return
    for launch in timeline.of(Launch):
        if not has_threads(launch) or not serious(launch.place):
            continue
        block, grid = shape(launch.block), shape(launch.grid)
        threads = block.product if block is not None else None
        if threads is None or grid is None or grid.product == 1:
            continue
        if not _RESIDENT / 2 < threads <= limits().threads_per_block:
            continue
        share = round(100 * threads / _RESIDENT)
        yield Finding(
            launch.block_span or launch.place.span,
            f"A block of {threads} threads fills at most {share} % of an SM of {gpu.name}. "
            "Only one such block fits. Blocks of 128, 256 or 512 threads fill every GPU.",
            Confidence.LIKELY,
            Severity.INFO,
            cost=Cost(
                f"At most {share} % of the places for threads are used.",
                f"{_RESIDENT} // {threads} * {threads} / {_RESIDENT}",
            ),
        )
