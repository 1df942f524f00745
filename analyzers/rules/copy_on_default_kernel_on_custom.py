"""The default stream and a stream of your own use the same array, in a library with raw streams.

## What it does
Finds arrays of Numba, CuPy, PyCUDA and cuda.core that are touched with a stream and without one,
with no wait in between.

## Why it matters
It depends on how the stream was made. Streams of Numba, CuPy and PyCUDA are blocking by default:
the legacy default stream waits for them and they for it, so the numbers are right, but nothing
overlaps, and with per-thread default streams the order is gone. A stream made non-blocking (CuPy's
`non_blocking=True`, every stream of cuda.core) is ordered with nothing: that is a race.

## Example
Give the copies the stream that the kernel has, and wait for that stream once.

## Fix safety
A sketch: all three calls have to change together, and real overlap needs page-locked memory.

## When to ignore
When the copy is meant to be the point at which everything has finished.

## References
- CUDA driver API, "Stream synchronization behavior"
- Numba source, `create_stream`; CuPy documentation of `cupy.cuda.Stream`
- cuda.core, `StreamOptions(nonblocking=True)`
"""

from collections.abc import Iterator

from analyzers import crossing
from analyzers.dryrun.streams import DEFAULT
from analyzers.finding import Confidence, Finding, Severity
from analyzers.rule import Bad, rule
from analyzers.timeline import CrossStream, Timeline

BAD = [
    Bad(
        """
        from numba import cuda

        @cuda.jit
        def double(values):
            i = cuda.grid(1)
            if i < values.size:
                values[i] *= 2

        def run(host, out, grid, threads):
            stream = cuda.stream()
            device = cuda.to_device(host, stream=stream)
            double[grid, threads, stream](device)
            device.copy_to_host(out)  # <-
        """
    ),
    Bad(
        """
        import cupy as cp

        def run(n):
            stream = cp.cuda.Stream(non_blocking=True)
            x = cp.arange(n)
            with stream:
                y = x * 2  # <-
            stream.synchronize()
            return y
        """
    ),
]
GOOD = [
    # One stream for all.
    """
    from numba import cuda

    @cuda.jit
    def double(values):
        i = cuda.grid(1)
        if i < values.size:
            values[i] *= 2

    def run(host, out, grid, threads):
        stream = cuda.stream()
        device = cuda.to_device(host, stream=stream)
        double[grid, threads, stream](device)
        device.copy_to_host(out, stream=stream)
        stream.synchronize()
    """,
    # The stream is waited for before the copy.
    """
    from numba import cuda

    @cuda.jit
    def double(values):
        i = cuda.grid(1)
        if i < values.size:
            values[i] *= 2

    def run(host, out, grid, threads):
        stream = cuda.stream()
        device = cuda.to_device(host, stream=stream)
        double[grid, threads, stream](device)
        stream.synchronize()
        device.copy_to_host(out)
    """,
    # The stream that is named is the default one.
    """
    from numba import cuda

    @cuda.jit
    def double(values):
        i = cuda.grid(1)
        if i < values.size:
            values[i] *= 2

    def run(host, out, grid, threads):
        device = cuda.to_device(host)
        double[grid, threads, cuda.default_stream()](device)
        device.copy_to_host(out)
    """,
]

ORDERED = (
    "{what} {uses} that line {line} {made} on another stream. "
    "The legacy default stream keeps them in order, so nothing overlaps; with per-thread default "
    "streams the order is gone. Use one stream for the copies and the kernel."
)
RACE = (
    "{what} {uses} that line {line} {made} on another stream. "
    "A non-blocking stream is ordered with nothing, not even with the default stream: the data may "
    "be half written. Use one stream for both, or let one wait for the other."
)


@rule("GPU304", severity=Severity.ERROR, bad=BAD, good=GOOD)
def copy_on_default_kernel_on_custom(timeline: Timeline) -> Iterator[Finding]:
    for cross in timeline.of(CrossStream):
        if DEFAULT not in (cross.producer, cross.consumer) or not cross.library:
            continue
        if crossing.foreign(cross):
            continue
        function = cross.place.function
        if function is not None and "test" in function.roles:
            continue
        ordered = cross.ordered_by_default and "PER_THREAD_DEFAULT" not in timeline.source.text
        severity = Severity.INFO if ordered else Severity.ERROR
        message = ORDERED if ordered else RACE
        if crossing.confidence(cross) is not Confidence.POSSIBLE:
            message = message.replace("data may be half written", "data is half written")
        yield crossing.finding(timeline, cross, message, severity, None)
