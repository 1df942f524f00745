"""A device array is read or written element by element.

## What it does
Finds single elements of a device array (Numba) that the host reads or writes in a loop.

## Why it matters
Every `d[i]` is a copy of a few bytes with a wait of its own; every `d[i] = v` is a launch and a
wait. Thousands of elements cost thousands of round trips.

## Example
Copy the array to the host once, or reduce it on the device.

## Fix safety
Where the loop only reads, one `copy_to_host()` before it is the same; where it writes, the result
must be copied back.

## When to ignore
For a handful of elements.

## References
- numba-cuda source, devicearray.py: `_do_getitem` and `_do_setitem`
"""

from collections.abc import Iterator

from analyzers.finding import Finding, Severity
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline
from analyzers.waiting import implicit, remark

BAD = [
    Bad(
        """
        import numpy as np
        from numba import cuda

        def total(host):
            d = cuda.to_device(host)
            result = 0.0
            for i in range(d.size):
                result += d[i]  # <-
            return result
        """
    ),
    Bad(
        """
        import numpy as np
        from numba import cuda

        def fill(rows, columns):
            d = cuda.device_array((rows, columns))
            for i in range(rows):
                for j in range(columns):
                    d[i, j] = i * j  # <-
            return d
        """
    ),
]
GOOD = [
    """
    import numpy as np
    from numba import cuda

    def total(host):
        d = cuda.to_device(host)
        result = 0.0
        for value in d.copy_to_host():
            result += value
        return result
    """,
    # The elements of a list are arrays; a row is a view.
    """
    import numpy as np
    from numba import cuda

    @cuda.jit
    def scale(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    def run(hosts):
        arrays = [cuda.to_device(host) for host in hosts]
        for number in range(len(arrays)):
            scale[32, 128](arrays[number])
            scale[32, 128](arrays[number][0])
        return arrays
    """,
]


@rule("GPU114", severity=Severity.ERROR, bad=BAD, good=GOOD)
def element_loop_over_device_array(timeline: Timeline) -> Iterator[Finding]:
    for wait, sure in implicit(timeline, "GPU114"):
        if wait.place.in_loop:
            yield remark(
                timeline,
                wait,
                sure,
                "{what} moves one element of a device array {when}. "
                "Each is a transfer and a wait of its own. "
                "Copy the array once with `copy_to_host()`, or compute on the device.",
                severity=Severity.ERROR,
            )
