"""A Python float turns single-precision arithmetic in a Numba kernel into double precision.

## What it does
Finds Numba kernels over float32 arrays whose elements meet a Python float: a literal in the
kernel, or a scalar argument of the launch.

## Why it matters
Numba takes a Python float for a float64, and float32 with float64 is computed in float64. A T4
computes that at 1/32, A10, L4, L40S and RTX cards at 1/64 of the rate. Integers do not promote.

## Example
Pass `np.float32(0.5)`, and write `np.float32(0.5)` in the kernel.

## Fix safety
The last digits of the results change: they are computed in single precision then.

## When to ignore
When double precision is wanted, or on GPUs that compute it at half the rate (V100, A100, H100,
B200), where it costs little.

## References
- Numba PTX of such a kernel: `cvt.f64.f32`, `sub.f64`, `div.rn.f64`
- CUDA C++ Programming Guide, throughput of native arithmetic instructions
"""

import ast
import re
from collections.abc import Iterator

from analyzers.dryrun.values import Value
from analyzers.finding import Confidence, Edit, Finding, Fix, Related, Safety, Severity, Span
from analyzers.fixes import replace_expression
from analyzers.gpus import product
from analyzers.judging import shown
from analyzers.kernels import Kernel
from analyzers.launching import kernel_of
from analyzers.promotion import SINGLE, Meeting, declared, is_single, meetings
from analyzers.rule import Bad, rule
from analyzers.timeline import Argument, Launch, Timeline

BAD = [
    Bad(
        """
        import numpy as np
        from numba import cuda

        @cuda.jit
        def normalise(a, mean, std):
            i = cuda.grid(1)
            if i < a.size:
                a[i] = (a[i] - mean) / std

        def run(image):
            flat = image.reshape(-1).astype(np.float32)
            d = cuda.to_device(flat)
            normalise[(flat.size + 255) // 256, 256](d, 128.0, 64.0)  # <-
            return d.copy_to_host()
        """,
        fixed="""
        import numpy as np
        from numba import cuda

        @cuda.jit
        def normalise(a, mean, std):
            i = cuda.grid(1)
            if i < a.size:
                a[i] = (a[i] - mean) / std

        def run(image):
            flat = image.reshape(-1).astype(np.float32)
            d = cuda.to_device(flat)
            normalise[(flat.size + 255) // 256, 256](d, np.float32(128.0), np.float32(64.0))
            return d.copy_to_host()
        """,
    ),
    Bad(
        """
        import numpy as np
        from numba import cuda

        @cuda.jit
        def halve(a, out):
            i = cuda.grid(1)
            if i < a.size:
                x = a[i]
                out[i] = x * 0.5  # <-

        def run(n):
            a = cuda.device_array(n, np.float32)
            out = cuda.device_array(n, np.float32)
            halve[(n + 255) // 256, 256](a, out)
        """,
        fixed="""
        import numpy as np
        from numba import cuda

        @cuda.jit
        def halve(a, out):
            i = cuda.grid(1)
            if i < a.size:
                x = a[i]
                out[i] = x * np.float32(0.5)

        def run(n):
            a = cuda.device_array(n, np.float32)
            out = cuda.device_array(n, np.float32)
            halve[(n + 255) // 256, 256](a, out)
        """,
    ),
    # The signature says that the array is single precision.
    Bad(
        """
        from numba import cuda

        @cuda.jit("void(float32[:], int32)")
        def scale(a, n):
            i = cuda.grid(1)
            if i < n:
                a[i] *= 1.5  # <-
        """
    ),
]
GOOD = [
    # Single precision throughout.
    """
    import numpy as np
    from numba import cuda

    @cuda.jit
    def normalise(a, mean, std):
        i = cuda.grid(1)
        if i < a.size:
            a[i] = (a[i] - mean) / std * np.float32(0.5)

    def run(n):
        a = cuda.device_array(n, np.float32)
        normalise[(n + 255) // 256, 256](a, np.float32(128.0), np.float32(64.0))
    """,
    # Integers do not promote.
    """
    import numpy as np
    from numba import cuda

    @cuda.jit
    def double(a, factor):
        i = cuda.grid(1)
        if i < a.size:
            a[i] = a[i] * factor + 1

    def run(n):
        double[(n + 255) // 256, 256](cuda.device_array(n, np.float32), 2)
    """,
    # Double precision is what the arrays have.
    """
    import numpy as np
    from numba import cuda

    @cuda.jit
    def halve(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= 0.5

    def run(n):
        halve[(n + 255) // 256, 256](cuda.device_array(n, np.float64))
    """,
    # A stated signature makes the argument single precision.
    """
    from numba import cuda

    @cuda.jit("void(float32[:], float32)")
    def scale(a, f):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= f

    def run(n):
        scale[(n + 255) // 256, 256](cuda.device_array(n, "float32"), 0.5)
    """,
]


@rule("GPU613", severity=Severity.WARNING, bad=BAD, good=GOOD)
def numba_float64_promotion(timeline: Timeline) -> Iterator[Finding]:
    said: set[ast.expr] = set()
    for launch in timeline.of(Launch):
        kernel = kernel_of(launch.kernel)
        if kernel is None or not launch.kernel.type.startswith("numba"):
            continue
        given = _given(launch, kernel)
        singles = {name for name, a in given.items() if a.value.dtype == "float32"} | {SINGLE}
        met = [m for m in meetings(kernel) if m.arrays & singles]
        if declared(kernel) is None:
            yield from _arguments(timeline, met, given)
        yield from _literals(timeline, met, said, launch.place.span)
    for defined in timeline.kernels:
        yield from _stated(timeline, defined, said)


def _stated(timeline: Timeline, defined: Value, said: set[ast.expr]) -> Iterator[Finding]:
    """Kernels whose decorator states the arrays' types, launched here or not."""
    kernel = kernel_of(defined)
    types = declared(kernel) if kernel is not None else None
    if kernel is None or types is None or not defined.type.startswith("numba"):
        return
    singles = {name for name, text in types.items() if is_single(text)} | {SINGLE}
    met = [m for m in meetings(kernel) if m.arrays & singles]
    yield from _literals(timeline, met, said, None)


def _given(launch: Launch, kernel: Kernel) -> dict[str, Argument]:
    plain = [a for a in launch.call.arguments if not a.star]
    return dict(zip(kernel.parameters, plain, strict=False))


def _arguments(
    timeline: Timeline, met: list[Meeting], given: dict[str, Argument]
) -> Iterator[Finding]:
    names = [m.double.id for m in met if isinstance(m.double, ast.Name)]
    doubles = [given[n] for n in dict.fromkeys(names) if n in given and _is_double(given[n])]
    if not doubles:
        return
    what = " and ".join(shown(timeline.text(a.span), 30) for a in doubles[:2])
    many = len(doubles) > 1
    met_as = (
        "are float64 in the kernel and meet" if many else "is a float64 in the kernel and meets"
    )
    yield Finding(
        doubles[0].span,
        f"{what} {met_as} float32 elements there. {_cost(timeline)} "
        f"Pass {'them' if many else 'it'} as `np.float32(…)`.",
        _confidence(timeline),
        _severity(timeline),
        fix=_fix(timeline, [a.span for a in doubles]),
    )


def _is_double(argument: Argument) -> bool:
    return isinstance(argument.value.constant, float) and argument.value.dtype in ("", "float64")


def _literals(
    timeline: Timeline, met: list[Meeting], said: set[ast.expr], launch: Span | None
) -> Iterator[Finding]:
    for meeting in met:
        node = meeting.double
        if isinstance(node, ast.Name) or node in said:
            continue
        said.add(node)
        span = timeline.source.span(node)
        sure = _confidence(timeline)
        yield Finding(
            span,
            f"{shown(timeline.text(span))} is a float64 and meets float32 elements here. "
            f"{_cost(timeline)} Write `np.float32({timeline.text(span)})`.",
            sure.weaker(Confidence.POSSIBLE) if meeting.accumulates else sure,
            _severity(timeline),
            related=(Related(launch, "launched with float32 arrays here"),) if launch else (),
            fix=_fix(timeline, [span]),
        )


def _cost(timeline: Timeline) -> str:
    gpu = product(timeline.gpu)
    if gpu is not None:
        return f"On {gpu.name} that arithmetic runs at 1/{gpu.fp32_per_fp64} of the rate."
    return "That arithmetic runs in double precision, at 1/32 to 1/64 of the rate on most GPUs."


def _confidence(timeline: Timeline) -> Confidence:
    gpu = product(timeline.gpu)
    return Confidence.POSSIBLE if gpu is not None and gpu.fp32_per_fp64 <= 2 else Confidence.LIKELY


def _severity(timeline: Timeline) -> Severity:
    gpu = product(timeline.gpu)
    return Severity.INFO if gpu is not None and gpu.fp32_per_fp64 <= 2 else Severity.WARNING


_NUMPY = re.compile(r"^import numpy(?: as (\w+))?\s*$", re.MULTILINE)


def _fix(timeline: Timeline, spans: list[Span]) -> Fix | None:
    imported = _NUMPY.search(timeline.source.text)
    if imported is None:
        return None
    numpy = imported[1] or "numpy"
    edits: list[Edit] = []
    for span in spans:
        text = timeline.text(span)
        if "=" in text:
            return None
        edit = replace_expression(timeline.source, span, f"{numpy}.float32({text})")
        if edit is None:
            return None
        edits.append(edit)
    return Fix("Compute in single precision", tuple(edits), Safety.UNSAFE, _CONDITION)


_CONDITION = "The last digits change: the arithmetic is single precision then."
