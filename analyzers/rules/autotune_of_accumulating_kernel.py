"""A kernel that adds to its output is autotuned on the real buffers.

## What it does
Finds Triton kernels under `@triton.autotune` that use atomic additions, or load from a pointer
they also store to, where nothing resets or restores that buffer between the trials.

## Why it matters
Autotuning runs the kernel once per configuration, several times over, on the buffers of the first
call. What accumulates does so every time: the first result is wrong, and only the first.

## Example
`@triton.autotune(configs, key=["n"], reset_to_zero=["out"])`; `restore_value=["x"]` for updates in
place.

## Fix safety
Right where the buffer starts at zero; an update in place needs `restore_value`.

## When to ignore
With a single configuration nothing is tried out.

## References
- Triton, `triton.autotune`, note on kernels that update values
"""

import ast
import re
from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import add_keyword
from analyzers.judging import shown
from analyzers.kernels import Kernel
from analyzers.launching import kernel_of
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline

BAD = [
    Bad(
        """
        import triton
        import triton.language as tl

        CONFIGS = [triton.Config({"B": 128}), triton.Config({"B": 256})]

        @triton.autotune(configs=CONFIGS, key=["n"])  # <-
        @triton.jit
        def total(x, out, n, B: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B)
            tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))
        """,
        fixed="""
        import triton
        import triton.language as tl

        CONFIGS = [triton.Config({"B": 128}), triton.Config({"B": 256})]

        @triton.autotune(configs=CONFIGS, key=["n"], reset_to_zero=["out"])
        @triton.jit
        def total(x, out, n, B: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B)
            tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))
        """,
    ),
    Bad(
        """
        import triton
        import triton.language as tl

        @triton.autotune(  # <-
            configs=[triton.Config({"B": 128}), triton.Config({"B": 256})],
            key=["n"],
        )
        @triton.jit
        def scale(x_ptr, n, f, B: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B)
            x = tl.load(x_ptr + i, mask=i < n)
            tl.store(x_ptr + i, x * f, mask=i < n)
        """,
        fixed="""
        import triton
        import triton.language as tl

        @triton.autotune(
            configs=[triton.Config({"B": 128}), triton.Config({"B": 256})],
            key=["n"],
            restore_value=["x_ptr"],
        )
        @triton.jit
        def scale(x_ptr, n, f, B: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B)
            x = tl.load(x_ptr + i, mask=i < n)
            tl.store(x_ptr + i, x * f, mask=i < n)
        """,
    ),
]
GOOD = [
    # Writes only.
    """
    import triton
    import triton.language as tl

    @triton.autotune(configs=CONFIGS, key=["n"])
    @triton.jit
    def double(x_ptr, out_ptr, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(out_ptr + i, x * 2, mask=i < n)
    """,
    # Reset between the trials.
    """
    import triton
    import triton.language as tl

    @triton.autotune(configs=CONFIGS, key=["n"], reset_to_zero=["out"])
    @triton.jit
    def total(x, out, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))
    """,
    # Every run sets the element before it adds to it.
    """
    import triton
    import triton.language as tl

    @triton.autotune(configs=CONFIGS, key=["n"])
    @triton.jit
    def total(x, out, n, B: tl.constexpr):
        tl.store(out + tl.program_id(0), 0.0)
        for start in range(0, n, B):
            i = start + tl.arange(0, B)
            tl.atomic_add(out + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0.0)))
    """,
    # Nothing to try out.
    """
    import triton
    import triton.language as tl

    @triton.autotune(configs=[triton.Config({"B": 128})], key=["n"])
    @triton.jit
    def total(x, out, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))
    """,
]

_HANDLED = frozenset({"reset_to_zero", "restore_value", "pre_hook", "post_hook"})


@rule("GPU612", severity=Severity.ERROR, bad=BAD, good=GOOD)
def autotune_of_accumulating_kernel(timeline: Timeline) -> Iterator[Finding]:
    for defined in timeline.kernels:
        kernel = kernel_of(defined)
        tuned = _tuned(kernel) if kernel is not None else None
        if kernel is None or tuned is None or not kernel.accumulates:
            continue
        if any(k.arg in _HANDLED or k.arg is None for k in tuned.keywords) or _single(tuned):
            continue
        if "pre_hook" in timeline.source.text:
            continue
        name = kernel.accumulates[0]
        yield Finding(
            timeline.source.span(tuned),
            f"Autotuning runs this kernel once per configuration on the real buffers, and it adds "
            f"to {shown(name)}. The first call's result is wrong. "
            f"State `{_word(kernel)}` for what must start afresh in each trial.",
            Confidence.LIKELY,
            Severity.ERROR,
            fix=_fix(timeline, kernel, tuned),
        )


def _tuned(kernel: Kernel) -> ast.Call | None:
    for decorator in kernel.node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("autotune"):
            return decorator
    return None


def _single(tuned: ast.Call) -> bool:
    """Whether the list of configurations, as written, has one entry."""
    configs = next((k.value for k in tuned.keywords if k.arg == "configs"), None)
    configs = configs if configs is not None else next(iter(tuned.args), None)
    return isinstance(configs, ast.List) and len(configs.elts) <= 1


def _word(kernel: Kernel) -> str:
    adds = any(re.match("atomic_", call) for call in kernel.calls)
    return "reset_to_zero" if adds else "restore_value"


def _fix(timeline: Timeline, kernel: Kernel, tuned: ast.Call) -> Fix | None:
    names = ", ".join(f'"{name}"' for name in kernel.accumulates)
    word = _word(kernel)
    edit = add_keyword(timeline.source, timeline.source.span(tuned), word, f"[{names}]")
    if edit is None:
        return None
    zero = "Right where the buffer starts at zero; otherwise state it as `restore_value`."
    kept = "Right where the kernel updates the buffer in place."
    return Fix(
        "Start each trial afresh",
        (edit,),
        Safety.UNSAFE,
        zero if word == "reset_to_zero" else kept,
    )
