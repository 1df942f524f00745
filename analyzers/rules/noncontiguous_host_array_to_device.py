"""A host array with gaps is handed to a copy that refuses it.

## What it does
Finds `cuda.to_device(a[:, ::2])`, `gpuarray.to_gpu(a[:, :64])` and the like: a strided slice, or a
name that is bound to one.

## Why it matters
Numba copies one block of memory and raises `ValueError` for an array with gaps; it does not make a
copy by itself. PyCUDA refuses most such arrays as well.

## Example
`np.ascontiguousarray` closes the gaps.

## Fix safety
Safe: the values are the same, in C order.

## When to ignore
Transposed arrays and arrays in Fortran order are accepted as they are, and are not reported.

## References
- Numba source, `devicearray.py`: `sentry_contiguous`
"""

from collections.abc import Iterator

from analyzers.call_edits import replace_expression
from analyzers.copying import module_name
from analyzers.dryrun.values import Device, Kind
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Copy, Direction, Timeline

BAD = [
    Bad(
        """
        import numpy as np
        from numba import cuda

        def half(path):
            image = np.load(path)
            return cuda.to_device(image[:, ::2])  # <-
        """,
        fixed="""
        import numpy as np
        from numba import cuda

        def half(path):
            image = np.load(path)
            return cuda.to_device(np.ascontiguousarray(image[:, ::2]))
        """,
    ),
    Bad(
        """
        import numpy as np
        from numba import cuda

        def crop(image: np.ndarray, left, right):
            window = image[:, left:right]
            stream = cuda.stream()
            return cuda.to_device(window, stream=stream)  # <-
        """,
        fixed="""
        import numpy as np
        from numba import cuda

        def crop(image: np.ndarray, left, right):
            window = image[:, left:right]
            stream = cuda.stream()
            return cuda.to_device(np.ascontiguousarray(window), stream=stream)
        """,
    ),
]
GOOD = [
    # Whole rows are one block.
    """
    import numpy as np
    from numba import cuda

    def rows(path, start, stop):
        image = np.load(path)
        return cuda.to_device(image[start:stop]), cuda.to_device(image[3, start:stop])
    """,
    # Fortran order is accepted.
    """
    import numpy as np
    from numba import cuda

    def transposed(path):
        return cuda.to_device(np.load(path).T)
    """,
    # A copy has no gaps.
    """
    import numpy as np
    from numba import cuda

    def half(path):
        image = np.load(path)
        return cuda.to_device(image[:, ::2].copy()), cuda.to_device(image[:, ::2] * 2)
    """,
]


@rule("GPU213", severity=Severity.ERROR, bad=BAD, good=GOOD)
def noncontiguous_host_array_to_device(timeline: Timeline) -> Iterator[Finding]:
    for copy in timeline.of(Copy):
        source = copy.source
        if copy.direction is not Direction.TO_DEVICE or not copy.call.arguments:
            continue
        if not copy.call.name.startswith(("numba.", "pycuda.")) or not source.gaps:
            continue
        if source.kind is not Kind.TENSOR or source.device is not Device.HOST:
            continue
        numba = copy.call.name.startswith("numba.")
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(copy.place.span))} is given an array with gaps between its "
            f"rows or elements. {_consequence(numba)} Close the gaps with "
            "`np.ascontiguousarray`.",
            (Confidence.LIKELY if numba else Confidence.POSSIBLE).weaker(source.sure),
            Severity.ERROR if numba else Severity.WARNING,
            fix=_fix(timeline, copy),
        )


def _consequence(numba: bool) -> str:
    if numba:
        return "Numba raises ValueError instead of copying it."
    return "PyCUDA may refuse it."


def _fix(timeline: Timeline, copy: Copy) -> Fix | None:
    numpy = module_name(timeline.source, "numpy")
    argument = next((a for a in copy.call.arguments if a.value is copy.source), None)
    if not numpy or argument is None or argument.keyword:
        return None
    text = f"{numpy}.ascontiguousarray({timeline.text(argument.span)})"
    edit = replace_expression(timeline.source, argument.span, text)
    return Fix("Close the gaps", (edit,), Safety.SAFE) if edit is not None else None
