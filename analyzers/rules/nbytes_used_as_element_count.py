"""A number of bytes is used as a number of elements, or the other way round.

## What it does
Follows `.nbytes`, `getsizeof` and sizes multiplied by `itemsize` into the shape of a typed
allocation or into an index of a typed array, and element counts into allocators that want bytes.

## Why it matters
Bytes taken for elements make a buffer two to eight times too large and shift every offset into it;
with one-byte types it happens to be right, so tests with `uint8` images pass. Elements taken for
bytes make a buffer too small, and the kernel writes past its end.

## Example
Use `.size` or `.numel()` for shapes and indices, `.nbytes` for allocators of bytes.

## Fix safety
Offsets that are derived from the same number must change with it, so the replacement is right only
where the number has this one use.

## When to ignore
When the elements are one byte wide.

## References
- NumPy, `ndarray.nbytes` and `ndarray.size`
- PyCUDA `mem_alloc`, CUDA runtime `cudaMalloc`: sizes in bytes
"""

from collections.abc import Iterator

from analyzers.dryrun.values import Kind, Value
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import replace_expression
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Argument, Call, SizedIndex, Timeline

BAD = [
    Bad(
        """
        import numpy as np
        from numba import cuda

        def pack(images):
            total = sum(image.nbytes for image in images)
            return cuda.device_array(total, dtype=np.float32)  # <-
        """
    ),
    Bad(
        """
        import numpy as np
        import pycuda.driver as drv

        def room(values: np.ndarray):
            return drv.mem_alloc(values.size)  # <-
        """,
        fixed="""
        import numpy as np
        import pycuda.driver as drv

        def room(values: np.ndarray):
            return drv.mem_alloc(values.nbytes)
        """,
    ),
    Bad(
        """
        import numpy as np
        import torch

        def scatter(arrays, n):
            batch = torch.empty(n, dtype=torch.float32, device="cuda")
            start = 0
            for array in arrays:
                batch[start : start + array.size] = torch.from_numpy(np.ravel(array)).cuda()  # <-
                start += np.asarray(array).nbytes
            return batch
        """
    ),
]
GOOD = [
    # One byte per element: the two numbers are the same.
    """
    import numpy as np
    import torch

    def pack(arrays):
        total = sum(array.nbytes for array in arrays)
        return np.empty(total, dtype=np.uint8), torch.empty(total, dtype=torch.uint8, device="cuda")
    """,
    """
    import numpy as np
    import pycuda.driver as drv

    def room(values: np.ndarray):
        return drv.mem_alloc(values.nbytes), drv.mem_alloc(values.size * 4)
    """,
    # Bytes divided by the width are elements again.
    """
    import numpy as np
    from numba import cuda

    def pack(raw: np.ndarray):
        count = raw.nbytes // 4
        return cuda.device_array(count, dtype=np.float32)
    """,
]

_ONE_BYTE = frozenset({"uint8", "int8", "bool", "bool_", "byte", "ubyte", "u1", "i1", "b", "B"})


@rule("GPU902", severity=Severity.ERROR, bad=BAD, good=GOOD)
def nbytes_used_as_element_count(timeline: Timeline) -> Iterator[Finding]:
    for call in timeline.calls():
        if call.fact.bytes:
            yield from _elements_as_bytes(timeline, call)
        elif call.result.kind is Kind.TENSOR:
            yield from _bytes_as_elements(timeline, call)
    for index in timeline.of(SizedIndex):
        if _wide(index.base.dtype):
            yield Finding(
                index.place.span,
                f"{shown(timeline.text(index.place.span))} takes a position in bytes as an index "
                f"of {index.base.dtype} elements. Every offset is off by the width of an element. "
                "Count with `.size` or `.numel()`.",
                Confidence.LIKELY,
                Severity.ERROR,
            )


def _wide(dtype: str) -> bool:
    """Whether an element is known to have more than one byte."""
    return bool(dtype) and dtype not in _ONE_BYTE and not dtype.startswith("float8")


def _bytes_as_elements(timeline: Timeline, call: Call) -> Iterator[Finding]:
    if not _wide(call.result.dtype):
        return
    for argument in call.arguments:
        if argument.name not in ("size", "shape", "count", "") or not _in_bytes(argument.value):
            continue
        yield Finding(
            call.span,
            f"`{_short(timeline, argument)}` counts bytes, and {shown(timeline.text(call.callee))} "
            f"takes it for a number of {call.result.dtype} elements. The array is several times "
            "too large, and offsets that are counted alike are wrong. Count with `.size` or "
            "`.numel()`.",
            Confidence.LIKELY,
            Severity.ERROR,
        )
        return


def _in_bytes(value: Value) -> bool:
    return value.bytes or any(item.bytes for item in value.items or ())


def _elements_as_bytes(timeline: Timeline, call: Call) -> Iterator[Finding]:
    first = call.arguments[0] if call.arguments else None
    if first is None:
        return
    text = timeline.text(first.span)
    # `.size` of something unknown is no call: it must be the property of an array.
    uncalled = first.value.kind is Kind.METHOD and text.endswith(".size")
    if first.value.unit != "elements" and not uncalled:
        return
    fix = None
    edit = replace_expression(timeline.source, first.span, f"{text.removesuffix('.size')}.nbytes")
    if text.endswith(".size") and not first.keyword and edit is not None:
        condition = "Right where the buffer is to hold the whole array."
        fix = Fix("Allocate by bytes", (edit,), Safety.UNSAFE, condition)
    yield Finding(
        call.span,
        f"{shown(timeline.text(call.callee))} allocates bytes, but `{_short(timeline, first)}` "
        "counts elements. The buffer is too small, and the device writes past its end. "
        "Use `.nbytes`.",
        Confidence.LIKELY,
        Severity.ERROR,
        fix=fix,
    )


def _short(timeline: Timeline, argument: Argument) -> str:
    return shown(timeline.text(argument.span), 40).strip("`")
