"""A launch asks for more threads or blocks than the hardware allows.

## What it does
Finds blocks of more than 1024 threads, blocks deeper than 64 in z, grids wider than 65,535 in y or
z, dimensions of 0, and grids whose y or z is a count that can pass 65,535.

## Why it matters
The limits hold on every GPU: the driver rejects the launch. A count of rows in y works in every
test and fails with the first large input.

## Example
At most 1024 threads in x * y * z; put the longest dimension of the grid into x.

## Fix safety
Which dimension moves where is the kernel's matter, so no edit is proposed.

## When to ignore
A count in y or z that cannot grow past 65,535.

## References
- CUDA C++ Programming Guide, table of compute capabilities
- CCCL, `libcudacxx` arch_traits.h
"""

import re
from collections.abc import Iterator

from analyzers.dryrun.values import Kind, Value
from analyzers.finding import Confidence, Finding, Severity
from analyzers.gpus import limits
from analyzers.judging import shown
from analyzers.launching import has_threads, is_ceiling, part_text, serious, shape
from analyzers.rule import Bad, rule
from analyzers.timeline import Launch, Timeline

BAD = [
    Bad(
        """
        from numba import cuda

        @cuda.jit
        def fill(image):
            x, y = cuda.grid(2)
            if x < image.shape[0] and y < image.shape[1]:
                image[x, y] = 0

        def run(image, n):
            g = (n + 31) // 32
            fill[(g, g), (64, 32)](image)  # <-
        """
    ),
    Bad(
        """
        import cupy as cp

        k = cp.RawKernel(SOURCE, "scan")

        def scan(x):
            k((1,), (2048,), (x,))  # <-
        """
    ),
    # Fails when there are more than 65,535 rows.
    Bad(
        """
        import triton
        import triton.language as tl

        @triton.jit
        def rows(x, y, w, BLOCK: tl.constexpr):
            row = tl.program_id(1)
            col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(y + row * w + col, tl.load(x + row * w + col, mask=col < w), mask=col < w)

        def run(x, y):
            num_tokens, w = x.shape
            rows[(triton.cdiv(w, 128), num_tokens)](x, y, w, BLOCK=128)  # <-
        """
    ),
    # The grid has a name: it is read where it is bound.
    Bad(
        """
        import triton
        import triton.language as tl

        @triton.jit
        def merge(x, y, w, BLOCK: tl.constexpr):
            row = tl.program_id(1)
            col = tl.arange(0, BLOCK)
            tl.store(y + row * w + col, tl.load(x + row * w + col, mask=col < w), mask=col < w)

        def run(x, y):
            B, H, M, w = x.shape
            grid = (B * H, M, 1)  # <-
            merge[grid](x, y, w, BLOCK=128)
        """
    ),
]
GOOD = [
    """
    from numba import cuda

    @cuda.jit
    def fill(image):
        x, y = cuda.grid(2)
        if x < image.shape[0] and y < image.shape[1]:
            image[x, y] = 0

    def run(image, n):
        g = (n + 31) // 32
        fill[(g, g), (32, 32)](image)
    """,
    """
    import cupy as cp

    k = cp.RawKernel(SOURCE, "scan")

    def scan(x, threads):
        k((70000, 1), (1024,), (x,))
        k((1,), (threads,), (x,))
    """,
    # Another function gives the number.
    """
    import cupy as cp

    k = cp.RawKernel(SOURCE, "scan")
    width = 0

    def resize(n):
        global width
        width = n

    def scan(x):
        k((width, 1), (256,), (x,))
    """,
    # Rows in x: two thousand million of them.
    """
    import triton
    import triton.language as tl

    @triton.jit
    def rows(x, y, w, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + row * w + col, tl.load(x + row * w + col, mask=col < w), mask=col < w)

    def run(x, y):
        num_tokens, w = x.shape
        rows[(num_tokens, triton.cdiv(w, 128))](x, y, w, BLOCK=128)
    """,
    # One entry for each sequence of a batch: a few hundred.
    """
    import triton
    import triton.language as tl

    @triton.jit
    def rows(x, lens, w, BLOCK: tl.constexpr):
        col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + col, tl.load(lens + tl.program_id(1)), mask=col < w)

    def run(x, kv_seqlens):
        grid = (triton.cdiv(x.numel(), 128), kv_seqlens.numel())
        rows[grid](x, kv_seqlens, x.numel(), BLOCK=128)
    """,
]

_AXES = "xyz"
# Counts that grow with the data, not with the model: batches and heads stay small.
_GROWS = re.compile(
    r"token|row|^n$|^m$|num_(points|edges|nodes|elem|entries|samples|items|pixels|tasks)"
    r"|numel|size$|length|seq_?len|total|nnz|points|edges|vertices|\.shape\[0\]|len\(",
    re.IGNORECASE,
)
_STAYS = re.compile(
    r"batch|head|lens\b|indptr|expert|channel|group|layer|block|split|dim|min\(|%", re.IGNORECASE
)


@rule("GPU602", severity=Severity.ERROR, bad=BAD, good=GOOD)
def block_exceeds_hardware_limit(timeline: Timeline) -> Iterator[Finding]:
    for launch in timeline.of(Launch):
        block_span, grid_span = launch.block_span, launch.grid_span
        for problem in _block_problems(launch) if has_threads(launch) else ():
            yield Finding(
                block_span or launch.place.span, problem, Confidence.CERTAIN, Severity.ERROR
            )
        for problem in _grid_problems(launch):
            yield Finding(
                grid_span or launch.place.span, problem, Confidence.CERTAIN, Severity.ERROR
            )
        yield from _may_grow(timeline, launch)


def _block_problems(launch: Launch) -> Iterator[str]:
    block, known = shape(launch.block), limits()
    if block is None or len(block.parts) > len(_AXES):
        return
    threads = block.product
    if threads is not None and threads > known.threads_per_block:
        yield (
            f"A block of {threads} threads passes the limit of {known.threads_per_block}. "
            "Every GPU rejects the launch. Use fewer threads and more blocks."
        )
        return
    for axis, number, most in zip(_AXES, block.numbers, known.block, strict=False):
        if number is not None and not 0 < number <= most:
            yield (
                f"A block of {number} threads in {axis} is outside 1 to {most}. "
                "Every GPU rejects the launch. Choose another shape."
            )


def _grid_problems(launch: Launch) -> Iterator[str]:
    grid = shape(launch.grid)
    if grid is None or len(grid.parts) > len(_AXES):
        return
    for axis, number, most in zip(_AXES, grid.numbers, limits().grid, strict=False):
        if number is not None and not 0 < number <= most:
            yield (
                f"A grid of {number} blocks in {axis} is outside 1 to {most}. "
                "Every GPU rejects the launch. Put the longest dimension into x."
            )


def _may_grow(timeline: Timeline, launch: Launch) -> Iterator[Finding]:
    grid = shape(launch.grid)
    written = launch.grid_written or launch.grid_span
    if grid is None or written is None or not serious(launch.place):
        return
    for axis, part in list(zip(_AXES, grid.parts, strict=False))[1:]:
        text = part_text(timeline, written, _AXES.index(axis))
        if _is_raw(part) and _GROWS.search(text) and not _STAYS.search(text):
            yield Finding(
                written,
                f"{shown(text)} is the grid's {axis}, which ends at 65,535. "
                "The launch may fail with the first input that is larger. "
                f"Put that count into x, and what is bounded into {axis}.",
                _confidence(text),
                Severity.WARNING,
            )


def _confidence(text: str) -> Confidence:
    sure = re.search(r"num_tokens|n_tokens|numel|total_tokens|nnz|num_rows", text)
    return Confidence.LIKELY if sure else Confidence.POSSIBLE


def _is_raw(value: Value) -> bool:
    """A count as it comes, not divided by anything."""
    if value.known or is_ceiling(value) or value.kind not in (Kind.NUMBER, Kind.UNKNOWN):
        return False
    return getattr(value.ref, "operator", "") in ("", "*")
