"""An argument of a raw CUDA kernel has other bytes than its parameter.

## What it does
Reads the C signature of a `RawKernel` from its source string and finds Python floats for `float`
parameters, integers for floating parameters and the reverse, arrays of another type than the
pointer, and a wrong number of arguments.

## Why it matters
CuPy passes a Python float as a double and an int as a long long, and checks nothing. A `float`
parameter then reads half of a double: a number that has nothing to do with what was passed.

## Example
`kernel(grid, block, (cp.float32(2.0), x, y, cp.int32(n)))`

## Fix safety
Safe for scalars: the value is given the type that the signature states.

## When to ignore
An int for an `int` parameter works on little-endian machines, and is not reported.

## References
- CuPy, "Raw kernels", on arguments: "No validation is performed"
"""

from collections.abc import Iterator

from analyzers.c_signature import Parameter
from analyzers.dryrun.values import Kind, Value
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import replace_expression
from analyzers.judging import shown
from analyzers.raw_kernels import alias, is_raw, pairs, signature
from analyzers.rule import Bad, rule
from analyzers.timeline import Argument, Launch, Timeline

BAD = [
    Bad(
        """
        import cupy as cp

        axpy = cp.RawKernel(r'''
        extern "C" __global__
        void axpy(float a, const float* x, float* y, int n) {
            int i = blockDim.x * blockIdx.x + threadIdx.x;
            if (i < n) y[i] += a * x[i];
        }''', "axpy")

        def run(x, y, n):
            axpy(((n + 255) // 256,), (256,), (2.0, x, y, cp.int32(n)))  # <-
        """,
        fixed="""
        import cupy as cp

        axpy = cp.RawKernel(r'''
        extern "C" __global__
        void axpy(float a, const float* x, float* y, int n) {
            int i = blockDim.x * blockIdx.x + threadIdx.x;
            if (i < n) y[i] += a * x[i];
        }''', "axpy")

        def run(x, y, n):
            axpy(((n + 255) // 256,), (256,), (cp.float32(2.0), x, y, cp.int32(n)))
        """,
    ),
    # An array of doubles where the kernel reads floats.
    Bad(
        """
        import cupy as cp

        SOURCE = '''extern "C" __global__ void fill(float* out, double value) {
            out[threadIdx.x] = value;
        }'''
        module = cp.RawModule(code=SOURCE)
        fill = module.get_function("fill")

        def run():
            out = cp.zeros(64)
            fill((1,), (64,), (out, 0.5))  # <-
            return out
        """
    ),
]
GOOD = [
    """
    import cupy as cp

    axpy = cp.RawKernel(r'''
    extern "C" __global__
    void axpy(float a, const float* x, float* y, int n) {
        int i = blockDim.x * blockIdx.x + threadIdx.x;
        if (i < n) y[i] += a * x[i];
    }''', "axpy")

    def run(n):
        x = cp.ones(n, dtype=cp.float32)
        y = cp.zeros(n, dtype=cp.float32)
        axpy(((n + 255) // 256,), (256,), (cp.float32(2.0), x, y, n))
    """,
    # A double and a long long are what Python numbers are passed as.
    """
    import cupy as cp

    scale = cp.RawKernel('''
    extern "C" __global__ void scale(double a, double* x, long long n) {
        long long i = blockDim.x * blockIdx.x + threadIdx.x;
        if (i < n) x[i] *= a;
    }''', "scale")

    def run():
        scale((4,), (256,), (0.5, cp.ones(1000), 1000))
    """,
    # The source is not at hand: nothing is known.
    """
    import cupy as cp

    def run(path, x):
        kernel = cp.RawKernel(open(path).read(), "scale")
        kernel((4,), (256,), (0.5, x))
    """,
]

_FLOATING = frozenset({"float16", "float32", "float64"})
_SAME = {"bool": {"bool", "uint8", "int8"}, "uint8": {"bool", "uint8"}}


@rule("GPU905", severity=Severity.ERROR, bad=BAD, good=GOOD)
def rawkernel_scalar_abi_mismatch(timeline: Timeline) -> Iterator[Finding]:
    for launch in timeline.of(Launch):
        if not is_raw(launch):
            continue
        yield from _count(launch)
        for parameter, argument in pairs(launch):
            if parameter.pointer:
                yield from _array(timeline, parameter, argument)
            else:
                yield from _scalar(timeline, parameter, argument)


def _count(launch: Launch) -> Iterator[Finding]:
    wanted, given = signature(launch), launch.call.arguments
    known = launch.grid is not None and given and not any(a.star for a in given)
    if wanted is not None and known and len(wanted) != len(given):
        yield Finding(
            launch.place.span,
            f"The kernel takes {len(wanted)} arguments and gets {len(given)}. Nothing checks that, "
            "and what is missing is read from whatever lies there. Pass what the signature states.",
            Confidence.CERTAIN,
            Severity.ERROR,
        )


def _array(timeline: Timeline, parameter: Parameter, argument: Argument) -> Iterator[Finding]:
    value = argument.value
    known = value.kind is Kind.TENSOR and value.dtype and parameter.dtype
    if not known or value.dtype in _SAME.get(parameter.dtype, {parameter.dtype}):
        return
    if value.dtype not in _SIZES or _SIZES[value.dtype] == _SIZES.get(parameter.dtype):
        return  # the same bytes under another name, or a type of its own
    yield Finding(
        argument.span,
        f"{shown(timeline.text(argument.span))} holds {value.dtype}, and the kernel's "
        f"`{parameter.name}` points to {parameter.type}. Nothing checks that, and the kernel reads "
        f"other numbers. Make the array {parameter.dtype}.",
        Confidence.CERTAIN.weaker(value.sure),
        Severity.ERROR,
    )


_SIZES = {
    "int8": 1, "uint8": 1, "bool": 1, "float16": 2, "int16": 2, "uint16": 2, "float32": 4,
    "int32": 4, "uint32": 4, "float64": 8, "int64": 8, "uint64": 8, "complex64": 8,
    "complex128": 16,
}  # fmt: skip


def _scalar(timeline: Timeline, parameter: Parameter, argument: Argument) -> Iterator[Finding]:
    given = _passed_as(argument.value)
    if not given or not parameter.dtype:
        return
    floating = parameter.dtype in _FLOATING
    if parameter.dtype == given or (given == "int64" and not floating):
        return
    text = timeline.text(argument.span)
    yield Finding(
        argument.span,
        f"{shown(text)} is passed as {given}, and the kernel's `{parameter.name}` is "
        f"{parameter.type}. Nothing checks that: it reads bytes that mean another number. "
        f"Pass `{alias(timeline) or 'numpy'}.{parameter.dtype}(…)`.",
        Confidence.CERTAIN,
        Severity.ERROR,
        fix=_fix(timeline, parameter, argument, given),
    )


def _passed_as(value: Value) -> str:
    """The type a Python number is passed as; empty when its type is not known."""
    if value.kind is not Kind.NUMBER or value.dtype:
        return ""
    if isinstance(value.constant, bool):
        return ""
    if isinstance(value.constant, float):
        return "float64"
    if isinstance(value.constant, int):
        return "int64"
    return "float64" if getattr(value.ref, "operator", "") == "/" else ""


def _fix(timeline: Timeline, parameter: Parameter, argument: Argument, given: str) -> Fix | None:
    name = alias(timeline)
    if not name or (given == "float64" and parameter.dtype not in _FLOATING):
        return None  # a float for a whole number: what is meant is not known
    text = timeline.text(argument.span)
    edit = replace_expression(timeline.source, argument.span, f"{name}.{parameter.dtype}({text})")
    if edit is None:
        return None
    return Fix(f"Pass it as {parameter.dtype}", (edit,), Safety.SAFE)
