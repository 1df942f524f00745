"""A kernel uses its thread's index without checking it, and the grid is rounded up.

## What it does
Finds Numba kernels that index an array with `cuda.grid(…)` and compare that index with nothing,
launched with a grid that is rounded up or by `forall`; and Triton kernels whose tile is loaded or
stored without a mask under such a grid.

## Why it matters
The last block has more threads than there are elements left. They write past the end of the
buffer: no IndexError on a GPU, but other data overwritten, or an illegal access later.

## Example
`if i < a.size:` around the body; in Triton `mask=offs < n` on every load and store.

## Fix safety
Safe for the simple shape: one `i = cuda.grid(1)`, and a body that only indexes with `i`.

## When to ignore
When the size is a multiple of the block by construction.

## References
- Numba, "Writing CUDA kernels": "you must check boundaries"
"""

import ast
import re
from collections.abc import Iterator

from analyzers.dryrun.values import Value
from analyzers.finding import Confidence, Finding, Fix, Related, Safety, Severity
from analyzers.fixes import wrap_statements
from analyzers.judging import shown
from analyzers.kernels import Kernel
from analyzers.launching import around, is_ceiling, is_triton, kernel_of, serious, shape
from analyzers.rule import Bad, rule
from analyzers.timeline import Launch, Timeline

BAD = [
    Bad(
        """
        from numba import cuda

        @cuda.jit
        def scale(a, f):
            i = cuda.grid(1)
            a[i] *= f  # <-

        def run(a, n):
            scale[(n + 255) // 256, 256](a, 2)
        """,
        fixed="""
        from numba import cuda

        @cuda.jit
        def scale(a, f):
            i = cuda.grid(1)
            if i < a.size:
                a[i] *= f

        def run(a, n):
            scale[(n + 255) // 256, 256](a, 2)
        """,
    ),
    Bad(
        """
        import math
        from numba import cuda

        @cuda.jit
        def add(a, b, out):
            i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
            x = a[i] + b[i]  # <-
            out[i] = x

        def run(a, b, out):
            blocks = math.ceil(a.size / 128)
            add[blocks, 128](a, b, out)
        """,
        fixed="""
        import math
        from numba import cuda

        @cuda.jit
        def add(a, b, out):
            i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
            if i < a.size:
                x = a[i] + b[i]
                out[i] = x

        def run(a, b, out):
            blocks = math.ceil(a.size / 128)
            add[blocks, 128](a, b, out)
        """,
    ),
    Bad(
        """
        import triton
        import triton.language as tl

        @triton.jit
        def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + i)  # <-
            tl.store(out_ptr + i, x * 2)

        def run(x, out):
            n = x.numel()
            double[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        """
    ),
    # A loop over the blocks is no check.
    Bad(
        """
        from numba import cuda, float32

        @cuda.jit
        def multiply(a, c):
            tile = cuda.shared.array((16, 16), float32)
            x, y = cuda.grid(2)
            for i in range(cuda.gridDim.x):
                tile[cuda.threadIdx.x, cuda.threadIdx.y] = a[i, cuda.threadIdx.y]
            c[x, y] = tile[0, 0]  # <-

        def run(a, c, n):
            blocks = (n + 15) // 16
            multiply[(blocks, blocks), (16, 16)](a, c)
        """
    ),
]
GOOD = [
    """
    from numba import cuda

    @cuda.jit
    def scale(a, f):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= f

    def run(a, n):
        scale[(n + 255) // 256, 256](a, 2)
    """,
    # Returns early.
    """
    from numba import cuda

    @cuda.jit
    def scale(a, f):
        i = cuda.grid(1)
        if i >= a.shape[0]:
            return
        a[i] *= f

    def run(a, n):
        scale[(n + 255) // 256, 256](a, 2)
    """,
    # The grid is exact, by constants.
    """
    from numba import cuda

    @cuda.jit
    def scale(a, f):
        i = cuda.grid(1)
        a[i] *= f

    def run():
        a = cuda.device_array(4096)
        scale[4096 // 256, 256](a, 2)
    """,
    # A grid-stride loop.
    """
    from numba import cuda

    @cuda.jit
    def scale(a, f):
        start = cuda.grid(1)
        for i in range(start, a.size, cuda.gridsize(1)):
            a[i] *= f

    def run(a, n):
        scale[(n + 255) // 256, 256](a, 2)
    """,
    # The size is a multiple of the block.
    """
    import triton
    import triton.language as tl

    @triton.jit
    def double(x_ptr, out_ptr, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + i) * 2)

    def run(x, out):
        n = x.numel()
        assert n % 1024 == 0
        double[(triton.cdiv(n, 1024),)](x, out, BLOCK=1024)
    """,
]


@rule("GPU904", severity=Severity.ERROR, bad=BAD, good=GOOD)
def kernel_without_bounds_check(timeline: Timeline) -> Iterator[Finding]:
    seen: set[ast.AST] = set()
    for launch in timeline.of(Launch):
        kernel = kernel_of(launch.kernel)
        if kernel is None or kernel.node in seen or not serious(launch.place):
            continue
        if not _rounded_up(launch) or re.search(r"%|divmod", around(timeline, launch.place)):
            continue
        access = _unchecked(launch, kernel)
        if access is None:
            continue
        seen.add(kernel.node)
        span = timeline.source.span(access)
        check = "a mask" if is_triton(launch) else "a comparison with the size"
        yield Finding(
            span,
            f"{shown(timeline.text(span))} is reached without {check}, and the grid is rounded up. "
            "The surplus threads of the last block access memory past the end. "
            f"{'Mask every load and store.' if is_triton(launch) else 'Check the index first.'}",
            Confidence.LIKELY,
            Severity.ERROR,
            related=(Related(launch.place.span, "launched here, with a grid that is rounded up"),),
            fix=None if is_triton(launch) else _fix(timeline, kernel),
        )


def _rounded_up(launch: Launch) -> bool:
    if launch.grid is None:
        return launch.call.receiver is not None and not is_triton(launch)  # forall
    grid = shape(launch.grid)
    if grid is None:
        return False
    return any(is_ceiling(part) and not _exact(part) for part in grid.parts)


def _exact(part: Value) -> bool:
    return part.known


def _unchecked(launch: Launch, kernel: Kernel) -> ast.AST | None:
    if kernel.strides:
        return None
    if is_triton(launch):
        return _unmasked(launch, kernel)
    if kernel.guarded or launch.kernel.type.startswith("cupy"):
        return None
    # A device function may do the check.
    return next(iter(kernel.bare_accesses), None)


def _unmasked(launch: Launch, kernel: Kernel) -> ast.AST | None:
    """The first access of a one-dimensional kernel without a single mask or comparison."""
    grid = shape(launch.grid)
    one = grid is not None and len(grid.parts) == 1
    compares = any(isinstance(n, ast.Compare | ast.Mod) for n in ast.walk(kernel.node))
    blocks = kernel.calls & {"make_block_ptr", "make_tensor_descriptor", "min", "minimum"}
    names = [a.arg for a in kernel.node.args.args]
    counts = any(re.fullmatch(r"n|N|n_?elements|numel|size|length|total", name) for name in names)
    if not one or compares or blocks or not counts:
        return None
    return next(iter(kernel.unmasked_accesses), None)


def _fix(timeline: Timeline, kernel: Kernel) -> Fix | None:
    access = next(iter(kernel.bare_accesses), None)
    if access is None or not kernel.only_bare:
        return None
    index = next(iter(kernel.indices), "")
    if len(kernel.indices) != 1 or not isinstance(access.value, ast.Name):
        return None
    first, last = kernel.body[1], kernel.body[-1]
    spans = timeline.source.span(first), timeline.source.span(last)
    edit = wrap_statements(timeline.source, *spans, f"if {index} < {access.value.id}.size:")
    if edit is None:
        return None
    return Fix("Check the index", (edit,), Safety.SAFE)
