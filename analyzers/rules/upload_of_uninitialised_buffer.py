"""A buffer without content is copied to the device.

## What it does
Finds `to_device(np.empty(…))` and its kin: a host array that nothing has written to yet is sent to
the device, only to have memory there. Arrays of zeros or ones that take the same way are reported
as possible.

## Why it matters
The whole buffer crosses PCIe, and every page of it is touched on the host for the first time, to
carry nothing. Allocating on the device costs a call.

## Example
Allocate on the device.

## Fix safety
Safe for `empty`: the content is undefined before and after. Zeros must be set on the device, which
`device_array` does not do.

## When to ignore
When the buffer is filled between its allocation and the copy by code that cannot be seen here.

## References
- Numba documentation, `numba.cuda.device_array`
- CuPy documentation, `cupy.empty`; PyCUDA documentation, `pycuda.gpuarray.empty`
"""

from collections.abc import Iterator

from analyzers.call_edits import replace_expression
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import numpy as np
        from numba import cuda

        def normalised(kernel, x):
            out = cuda.to_device(np.empty(x.size, dtype=np.float32))  # <-
            kernel[64, 256](x, out)
            return out.copy_to_host()
        """,
        fixed="""
        import numpy as np
        from numba import cuda

        def normalised(kernel, x):
            out = cuda.device_array(x.size, dtype=np.float32)
            kernel[64, 256](x, out)
            return out.copy_to_host()
        """,
    ),
    Bad(
        """
        import cupy as cp
        import numpy as np

        def workspace(x):
            return cp.asarray(np.empty_like(x)), cp.asarray(np.empty(x.shape))  # <-
        """,
        fixed="""
        import cupy as cp
        import numpy as np

        def workspace(x):
            return cp.empty_like(x), cp.empty(x.shape)
        """,
    ),
]
GOOD = [
    # Filled before it is sent.
    """
    import numpy as np
    from numba import cuda

    def packed(rows):
        host = np.empty((len(rows), 4), dtype=np.float32)
        for i, row in enumerate(rows):
            host[i] = row
        return cuda.to_device(host)
    """,
    """
    import numpy as np
    from numba import cuda

    def product(a, b):
        host = np.empty(a.shape)
        np.multiply(a, b, out=host)
        rows = np.empty((2, a.size))
        rows[0][:] = a
        return cuda.to_device(host), cuda.to_device(rows)
    """,
    """
    import numpy as np
    from numba import cuda

    def read_into(stream, count):
        host = np.empty(count, dtype=np.uint8)
        stream.readinto(host)
        return cuda.to_device(host)
    """,
    # Allocated where it is needed.
    """
    from numba import cuda

    def output(x):
        return cuda.device_array_like(x)
    """,
]


@rule(
    "GPU215",
    severity=Severity.WARNING,
    bad=BAD,
    good=GOOD,
    instead_of=("GPU201", "GPU203", "GPU205"),
)
def upload_of_uninitialised_buffer(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    for copy in timeline.of(Copy):
        factory = copy.source.made_by
        if copy.direction is not Direction.TO_DEVICE or not copy.source.fresh:
            continue
        if not isinstance(factory, Call) or copy.destination is not None:
            continue
        if factory.fact.device != "host" or factory.fact.pins or _given(copy, "to"):
            continue
        if copy.source.filled == "undefined":
            yield _undefined(timeline, copy, factory)
        elif copy.source.filled == "constant":
            yield _constant(timeline, copy, factory)


def _given(copy: Copy, name: str) -> bool:
    return copy.call.has(name)


def _undefined(timeline: Timeline, copy: Copy, factory: Call) -> Finding:
    inline = _inline(copy, factory)
    return Finding(
        copy.place.span,
        f"{shown(timeline.text(copy.place.span))} sends a buffer that nothing has written to. "
        "All of its bytes cross PCIe and carry nothing. Allocate it on the device.",
        Confidence.CERTAIN if inline else Confidence.LIKELY,
        Severity.WARNING,
        fix=_fix(timeline, copy, factory) if inline else None,
    )


def _constant(timeline: Timeline, copy: Copy, factory: Call) -> Finding:
    return Finding(
        copy.place.span,
        f"{shown(timeline.text(factory.span))} is one number many times, and all of it crosses "
        "PCIe. It may be cheaper to allocate on the device and fill it there.",
        Confidence.POSSIBLE,
        Severity.WARNING,
    )


def _inline(copy: Copy, factory: Call) -> bool:
    arguments = copy.call.arguments
    return bool(arguments) and arguments[0].span == factory.span


# What uploads, and what allocates instead.
_ALLOCATE = {"to_device": "device_array", "asarray": "empty", "array": "empty", "to_gpu": "empty"}


def _fix(timeline: Timeline, copy: Copy, factory: Call) -> Fix | None:
    """`cuda.to_device(np.empty(n))` becomes `cuda.device_array(n)`."""
    upload = timeline.text(copy.call.callee)
    module, _, name = upload.rpartition(".")
    allocate = _ALLOCATE.get(name)
    if allocate is None or not module or len(copy.call.arguments) != 1 or factory.has_star:
        return None
    if any(a.keyword and a.name not in ("shape", "dtype") for a in factory.arguments):
        return None
    like = factory.method.endswith("_like")
    if len(factory.arguments) > (1 if like else 2):
        return None
    if name == "to_gpu" and not like and len(factory.arguments) < 2:
        return None  # its allocator asks for the type of the numbers
    called = timeline.text(factory.callee)
    text = timeline.text(factory.span)
    new = f"{module}.{allocate}{'_like' if like else ''}{text[len(called) :]}"
    edit = replace_expression(timeline.source, copy.call.span, new)
    return Fix("Allocate on the device", (edit,), Safety.SAFE) if edit is not None else None
