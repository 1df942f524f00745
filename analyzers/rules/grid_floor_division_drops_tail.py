"""The grid is rounded down, so the last elements are never computed.

## What it does
Finds launches whose grid is a size divided by the block's size with `//`, where nothing rounds up
and the kernel has no loop over the rest.

## Why it matters
The last `n % block` elements are left as they were, without an error. Where n is smaller than a
block, nothing runs at all.

## Example
`triton.cdiv(n, BLOCK)`, `(n + block - 1) // block` or `math.ceil(n / block)`.

## Fix safety
Rounding up starts threads beyond the last element: right where the kernel checks its bounds or
masks its accesses, a write past the end where it does not.

## When to ignore
When the size is a multiple of the block by construction; an assertion tells readers, and this rule.

## References
- Numba, "Writing CUDA kernels": the grid covers all elements, the kernel checks boundaries
- Triton tutorial, "Vector addition": `triton.cdiv`
"""

import re
from collections.abc import Iterator

from analyzers.dryrun.values import Value
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import replace_expression
from analyzers.judging import shown
from analyzers.kernels import Kernel
from analyzers.launching import (
    around,
    is_floor_division,
    is_triton,
    kernel_of,
    part_text,
    serious,
    shape,
)
from analyzers.rule import Bad, rule
from analyzers.timeline import Launch, Timeline

BAD = [
    Bad(
        """
        import triton
        import triton.language as tl

        @triton.jit
        def add(x, y, out, n, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            mask = i < n
            tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)

        def run(x, y, out):
            n, BLOCK = x.numel(), 1024
            grid = (n // BLOCK,)  # <-
            add[grid](x, y, out, n, BLOCK=BLOCK)
        """,
        fixed="""
        import triton
        import triton.language as tl

        @triton.jit
        def add(x, y, out, n, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            mask = i < n
            tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)

        def run(x, y, out):
            n, BLOCK = x.numel(), 1024
            grid = (triton.cdiv(n, BLOCK),)
            add[grid](x, y, out, n, BLOCK=BLOCK)
        """,
    ),
    Bad(
        """
        from numba import cuda

        @cuda.jit
        def scale(x, f):
            i = cuda.grid(1)
            if i < x.size:
                x[i] *= f

        def run(x):
            threads = 256
            blocks = x.shape[0] // threads  # <-
            scale[blocks, threads](x, 2)
            scale[int(x.size / 256), 256](x, 3)  # <-
        """,
        fixed="""
        from numba import cuda

        @cuda.jit
        def scale(x, f):
            i = cuda.grid(1)
            if i < x.size:
                x[i] *= f

        def run(x):
            threads = 256
            blocks = -(-x.shape[0] // threads)
            scale[blocks, threads](x, 2)
            scale[int(-(-x.size // 256)), 256](x, 3)
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

    def run(x):
        threads = 256
        scale[(x.shape[0] + threads - 1) // threads, threads](x, 2)
        scale[-(-x.shape[0] // threads), threads](x, 2)
        scale[x.shape[0] // threads + 1, threads](x, 2)
    """,
    # A multiple by assertion, and one by arithmetic.
    """
    from numba import cuda

    @cuda.jit
    def scale(x, f):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= f

    def run(x, n):
        threads = 256
        assert n % threads == 0
        scale[n // threads, threads](x, 2)

    def all_of_it(x):
        scale[4096 // 256, 256](x, 2)
    """,
    # A grid-stride loop covers any size with any grid.
    """
    from numba import cuda

    @cuda.jit
    def scale(x, f):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            x[i] *= f

    def run(x):
        scale[x.shape[0] // 1024, 256](x, 2)
    """,
    # One program for each row: the number of columns is no tile.
    """
    import triton
    import triton.language as tl

    @triton.jit
    def normalise(x, y, N_COLS: tl.constexpr, BLOCK_N: tl.constexpr):
        i = tl.arange(0, BLOCK_N)
        row = tl.load(x + tl.program_id(0) * N_COLS + i, mask=i < N_COLS, other=0.0)
        tl.store(y + tl.program_id(0) * N_COLS + i, row / tl.sum(row), mask=i < N_COLS)

    def run(x, y, columns):
        rows = x.numel() // columns
        block = triton.next_power_of_2(columns)
        normalise[(rows,)](x, y, N_COLS=columns, BLOCK_N=block)
    """,
    # Pages of a cache: no launch.
    """
    import torch

    def page_of(position, block_size):
        return position // block_size
    """,
]


@rule("GPU606", severity=Severity.ERROR, bad=BAD, good=GOOD)
def grid_floor_division_drops_tail(timeline: Timeline) -> Iterator[Finding]:
    for launch in timeline.of(Launch):
        grid = shape(launch.grid)
        kernel = kernel_of(launch.kernel)
        if grid is None or not serious(launch.place) or (kernel is not None and kernel.strides):
            continue
        for axis, part in enumerate(grid.parts):
            sure = _confidence(timeline, launch, kernel, part, axis)
            if sure is None:
                continue
            span = part.ref.span
            possible = sure is Confidence.POSSIBLE
            yield Finding(
                span,
                f"{shown(timeline.text(span))} rounds the grid down. The elements after the last "
                f"full block {'may be' if possible else 'are'} never computed, without an error. "
                "Round up, and let the kernel check its bounds.",
                sure,
                Severity.WARNING if possible else Severity.ERROR,
                fix=_fix(timeline, launch, kernel, part),
            )


def _confidence(
    timeline: Timeline, launch: Launch, kernel: Kernel | None, part: Value, axis: int
) -> Confidence | None:
    if not is_floor_division(part):
        return None
    if _asserted(timeline, launch, part) or not _is_block(timeline, launch, part, axis):
        return None
    if kernel is None:
        return Confidence.POSSIBLE
    checks = kernel.masked if is_triton(launch) else kernel.guarded
    return Confidence.LIKELY if checks else Confidence.POSSIBLE


def _is_block(timeline: Timeline, launch: Launch, part: Value, axis: int) -> bool:
    """Whether the size is divided by what one block or program works on."""
    right, divisor = part.ref.right, _divisor(timeline, part)
    if is_triton(launch):
        words = re.findall(r"\w+", divisor)
        kernel = kernel_of(launch.kernel)
        tiles = kernel.shapes if kernel is not None else frozenset[str]()
        mine = [a for a in launch.call.arguments if a.keyword and _is_tile(a.name, tiles)]
        given = [timeline.text(a.span).partition("=")[2].strip() for a in mine]
        return (
            divisor in given
            or any(a.name in words for a in mine)
            or (right.known and any(a.value.constant == right.constant for a in mine))
        )
    block = shape(launch.block)
    if block is None:
        return False
    number = block.numbers[axis] if axis < len(block.parts) else None
    if number is not None and right.known:
        return number == right.constant
    return divisor == part_text(timeline, launch.block_span, axis)


def _is_tile(name: str, tiles: frozenset[str]) -> bool:
    """Whether the parameter is the size of what one program works on, not of the data."""
    return name in tiles or (not tiles and "BLOCK" in name.upper())


def _divisor(timeline: Timeline, part: Value) -> str:
    return timeline.text(part.ref.span).rpartition("/")[2].strip(" ()")


def _asserted(timeline: Timeline, launch: Launch, part: Value) -> bool:
    """Whether the code says that the size is a multiple of the block, or handles the rest."""
    divisor = _divisor(timeline, part)
    text = around(timeline, launch.place)
    if re.search(rf"%\s*\(?\s*{re.escape(divisor)}\b", text) or "divmod(" in text:
        return True
    left = part.ref.left
    return getattr(left.ref, "operator", "") == "*" and any(
        side.known and part.ref.right.known and side.constant % part.ref.right.constant == 0
        for side in (left.ref.left, left.ref.right)
        if isinstance(side.constant, int) and part.ref.right.constant
    )


def _fix(timeline: Timeline, launch: Launch, kernel: Kernel | None, part: Value) -> Fix | None:
    text = timeline.text(part.ref.span)
    left, _, right = text.rpartition("/")
    left, right = left.rstrip("/ "), right.strip()
    triton = is_triton(launch) and re.search(r"^import triton$", timeline.source.text, re.M)
    if not left or "\n" in text:
        return None
    new = f"triton.cdiv({left}, {right})" if triton else f"-(-{_grouped(left)} // {right})"
    edit = replace_expression(timeline.source, part.ref.span, new)
    if edit is None:
        return None
    checks = kernel is not None and (kernel.masked if is_triton(launch) else kernel.guarded)
    safety = Safety.UNSAFE if not checks else Safety.SAFE
    return Fix("Round the grid up", (edit,), safety, "" if checks else _CONDITION)


_CONDITION = "Right where the kernel checks its bounds; else it would write past the end."


def _grouped(text: str) -> str:
    return text if re.fullmatch(r"[\w.\[\]()]+", text) else f"({text})"
