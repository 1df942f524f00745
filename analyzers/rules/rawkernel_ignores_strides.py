"""A strided view is passed to a kernel that sees only a pointer.

## What it does
Finds transposed, sliced or broadcast views passed to a `RawKernel`, and `.data_ptr()` of one,
where no strides are passed along.

## Why it matters
A raw pointer carries no strides. The kernel reads the untransposed buffer as if it were what was
passed, and returns numbers that look plausible and are wrong.

## Example
`cp.ascontiguousarray(m.T)`, or `x[:, ::2].contiguous()`, bound to a name.

## Fix safety
Safe for a parameter that the kernel only reads (`const`): a copy on the device. What the kernel
writes would go into the copy.

## When to ignore
When the kernel was written for that layout, the transposed one for instance.

## References
- CuPy, "Raw kernels": views are ignored, `matrix.T` is passed as `matrix`
"""

import re
from collections.abc import Iterator

from analyzers.c_signature import Parameter
from analyzers.dryrun.values import Device, Kind, Value
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import replace_expression
from analyzers.judging import shown
from analyzers.launching import around, serious
from analyzers.raw_kernels import alias, is_raw, pairs, signature
from analyzers.rule import Bad, rule
from analyzers.timeline import Argument, Launch, Timeline

BAD = [
    Bad(
        """
        import cupy as cp

        k = cp.RawKernel(
            'extern "C" __global__ void k(const float* m, float* out, int n) { out[0] = m[n]; }',
            "k",
        )

        def run(m, n):
            m = cp.asarray(m)
            out = cp.empty(m.shape[::-1], m.dtype)
            k((32,), (128,), (m.T, out, n))  # <-
            return out
        """,
        fixed="""
        import cupy as cp

        k = cp.RawKernel(
            'extern "C" __global__ void k(const float* m, float* out, int n) { out[0] = m[n]; }',
            "k",
        )

        def run(m, n):
            m = cp.asarray(m)
            out = cp.empty(m.shape[::-1], m.dtype)
            k((32,), (128,), (cp.ascontiguousarray(m.T), out, n))
            return out
        """,
    ),
    # Every second column, under a name.
    Bad(
        """
        import cupy as cp

        k = cp.RawKernel(SOURCE, "k")

        def run(rows):
            x = cp.zeros((64, 64), cp.float32)
            half = x[:, ::2]
            k((32,), (128,), (half, rows))  # <-
        """,
        fixed="""
        import cupy as cp

        k = cp.RawKernel(SOURCE, "k")

        def run(rows):
            x = cp.zeros((64, 64), cp.float32)
            half = x[:, ::2]
            k((32,), (128,), (cp.ascontiguousarray(half), rows))
        """,
    ),
    Bad(
        """
        import torch
        import library

        def run(n):
            x = torch.zeros(n, n, device="cuda")
            y = torch.empty(n, device="cuda")
            column = x[:, ::2]
            library.launch(column.data_ptr(), y.data_ptr(), n)  # <-
        """
    ),
]
GOOD = [
    """
    import cupy as cp

    k = cp.RawKernel(SOURCE, "k")

    def run(m, out, n):
        turned = cp.ascontiguousarray(cp.asarray(m).T)
        k((32,), (128,), (turned, out, n))
    """,
    # The kernel takes strides.
    """
    import cupy as cp

    k = cp.RawKernel(
        'extern "C" __global__ void k(const float* m, int row_stride, int n) { }', "k"
    )

    def run(m, n):
        m = cp.asarray(m)
        k((32,), (128,), (m.T, m.T.strides[0] // m.itemsize, n))
    """,
    # An elementwise kernel follows the strides.
    """
    import cupy as cp

    square = cp.ElementwiseKernel("T x", "T y", "y = x * x", "square")

    def run(m):
        return square(cp.asarray(m).T)
    """,
    # The first rows lie together.
    """
    import cupy as cp

    k = cp.RawKernel(SOURCE, "k")

    def run(m, n):
        m = cp.asarray(m)
        k((32,), (128,), (m[:n], n))
    """,
]

_TAKES_STRIDES = re.compile(r"stride|pitch|\bld[abcxy]?\b|layout|\bstep", re.IGNORECASE)


@rule("GPU906", severity=Severity.ERROR, bad=BAD, good=GOOD)
def rawkernel_ignores_strides(timeline: Timeline) -> Iterator[Finding]:
    for launch in timeline.of(Launch):
        if not is_raw(launch) or not serious(launch.place) or _strided_on_purpose(timeline, launch):
            continue
        known = {a.span: p for p, a in pairs(launch)}
        for argument in launch.call.arguments:
            if _is_view(argument.value):
                yield _finding(timeline, argument, known.get(argument.span))
    yield from _pointers(timeline)


def _is_view(value: Value) -> bool:
    return value.kind is Kind.TENSOR and value.strided and value.device is not Device.HOST


def _strided_on_purpose(timeline: Timeline, launch: Launch) -> bool:
    stated = signature(launch) or ()
    arguments = " ".join(timeline.text(a.span) for a in launch.call.arguments)
    return any(_TAKES_STRIDES.search(p.name) for p in stated) or bool(
        _TAKES_STRIDES.search(arguments)
    )


def _finding(timeline: Timeline, argument: Argument, parameter: Parameter | None) -> Finding:
    text = timeline.text(argument.span)
    return Finding(
        argument.span,
        f"{shown(text)} is a strided view, and a raw kernel gets only its pointer. "
        "The kernel reads the memory behind it as if it were contiguous. "
        "Pass a contiguous copy.",
        Confidence.LIKELY.weaker(argument.value.sure),
        Severity.ERROR,
        fix=_fix(timeline, argument, parameter),
    )


def _fix(timeline: Timeline, argument: Argument, parameter: Parameter | None) -> Fix | None:
    name = alias(timeline)
    if not name or (parameter is not None and not parameter.constant):
        return None
    text = f"{name}.ascontiguousarray({timeline.text(argument.span)})"
    edit = replace_expression(timeline.source, argument.span, text)
    if edit is None:
        return None
    safe = parameter is not None
    condition = "" if safe else "Right where the kernel only reads it."
    return Fix("Pass a contiguous copy", (edit,), Safety.SAFE if safe else Safety.UNSAFE, condition)


def _pointers(timeline: Timeline) -> Iterator[Finding]:
    """`view.data_ptr()`: the address goes somewhere that does not know of strides."""
    for call in timeline.calls():
        view = call.receiver
        if view is None or not call.name.endswith(".data_ptr") or not _is_view(view):
            continue
        statement = timeline.text(call.place.statement)
        if _TAKES_STRIDES.search(statement) or not serious(call.place):
            continue
        if re.search(r"[=!]=|\bis_contiguous\b|assert|hash|%", around(timeline, call.place)):
            continue  # identity or alignment may be all that is asked
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} is the address of a strided view. Whoever gets it "
            "reads the memory behind it as if it were contiguous. "
            "Take the address of a contiguous copy that is bound to a name.",
            Confidence.LIKELY.weaker(view.sure),
            Severity.ERROR,
        )
