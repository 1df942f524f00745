"""A Triton tile has a size that is no power of two.

## What it does
Finds launches that give a literal which is no power of two to a parameter that is the size of a
tile in the kernel (`tl.arange(0, BLOCK)`).

## Why it matters
Triton's tensors have sizes that are powers of two. The kernel does not compile.

## Example
`BLOCK=1024`, or `triton.next_power_of_2(n)`, with a mask.

## Fix safety
Right where the kernel masks its loads and stores and the grid is computed from the same number.

## When to ignore
Never.

## References
- Triton, `triton/language/semantic.py`: "arange's range must be a power of 2"
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import shown
from analyzers.launching import is_triton, kernel_of
from analyzers.rule import Bad, rule
from analyzers.timeline import Argument, Launch, Timeline

BAD = [
    Bad(
        """
        import triton
        import triton.language as tl

        @triton.jit
        def double(x, n, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

        def run(x):
            n = x.numel()
            double[(triton.cdiv(n, 1000),)](x, n, BLOCK=1000)  # <-
        """
    ),
    Bad(
        """
        import triton
        import triton.language as tl

        @triton.jit
        def tile(x, M: tl.constexpr, N: tl.constexpr):
            acc = tl.zeros((M, N), dtype=tl.float32)
            tl.store(x + tl.arange(0, M), tl.sum(acc, 1))

        def run(x):
            tile[(1,)](x, 64, 48)  # <-
        """
    ),
]
GOOD = [
    """
    import triton
    import triton.language as tl

    @triton.jit
    def double(x, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

    def run(x):
        n = x.numel()
        double[(triton.cdiv(n, 1024),)](x, n, BLOCK=1024)
        double[(1,)](x, n, BLOCK=triton.next_power_of_2(n))
    """,
    # A number of turns, no size of a tile.
    """
    import triton
    import triton.language as tl

    @triton.jit
    def repeat(x, n, TURNS: tl.constexpr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        for _ in range(TURNS):
            tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

    def run(x, n):
        repeat[(1,)](x, n, TURNS=3, BLOCK=256)
    """,
]


@rule("GPU611", severity=Severity.ERROR, bad=BAD, good=GOOD)
def triton_block_not_power_of_two(timeline: Timeline) -> Iterator[Finding]:
    for launch in timeline.of(Launch):
        kernel = kernel_of(launch.kernel)
        if kernel is None or not is_triton(launch):
            continue
        for name, argument in _named(launch, kernel.parameters):
            size = argument.value.constant
            if name not in kernel.shapes or not isinstance(size, int) or isinstance(size, bool):
                continue
            if size > 0 and not size & (size - 1):
                continue
            yield Finding(
                argument.span,
                f"{shown(name)} is the size of a tile and gets {size}, which is no power of two. "
                f"The kernel does not compile. Use {_next(size)} and mask what lies beyond.",
                Confidence.CERTAIN,
                Severity.ERROR,
            )


def _named(launch: Launch, parameters: tuple[str, ...]) -> Iterator[tuple[str, Argument]]:
    position = 0
    for argument in launch.call.arguments:
        if argument.star:
            return
        if argument.keyword:
            yield argument.name, argument
        elif position < len(parameters):
            yield parameters[position], argument
            position += 1


def _next(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()
