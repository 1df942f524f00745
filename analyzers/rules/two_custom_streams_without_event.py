"""Two side streams use the same data, and nothing orders them.

## What it does
Finds data that is written on one stream of your own and used on another one, with no event,
`wait_stream` or synchronisation between the two.

## Why it matters
Two streams that are not the default stream are never ordered by themselves, in any library. The
consumer may run before, during or after the producer.

## Example
Record an event on the producer's stream and let the consumer's stream wait for it.

## Fix safety
A sketch: where the event belongs depends on what else the two streams are meant to overlap.

## When to ignore
When the two use disjoint parts of one buffer.

## References
- Numba documentation, launching on streams that are not the default one
- CUDA runtime, "Stream synchronization behavior"
"""

from collections.abc import Iterator

from analyzers import crossing
from analyzers.dryrun.streams import DEFAULT
from analyzers.finding import Finding, Severity
from analyzers.rule import Bad, rule
from analyzers.timeline import CrossStream, Timeline

BAD = [
    Bad(
        """
        from numba import cuda

        @cuda.jit
        def produce(values):
            i = cuda.grid(1)
            if i < values.size:
                values[i] = i

        @cuda.jit
        def consume(values, out):
            i = cuda.grid(1)
            if i < values.size:
                out[i] = values[i]

        def run(grid, threads, n):
            first, second = cuda.stream(), cuda.stream()
            values = cuda.device_array(n)
            out = cuda.device_array(n)
            produce[grid, threads, first](values)
            consume[grid, threads, second](values, out)  # <-
            cuda.synchronize()
        """
    ),
    Bad(
        """
        import torch

        def overlap(batch, net):
            copies, work = torch.cuda.Stream(), torch.cuda.Stream()
            with torch.cuda.stream(copies):
                x = batch.cuda(non_blocking=True)
            with torch.cuda.stream(work):
                y = net(x)  # <-
            torch.cuda.synchronize()
            return y
        """
    ),
]
GOOD = [
    """
    import torch

    def overlap(batch, net):
        copies, work = torch.cuda.Stream(), torch.cuda.Stream()
        with torch.cuda.stream(copies):
            x = batch.cuda(non_blocking=True)
        work.wait_stream(copies)
        with torch.cuda.stream(work):
            y = net(x)
        torch.cuda.synchronize()
        return y
    """,
    # An event of CuPy, recorded by the stream that produces.
    """
    import cupy as cp

    def overlap(host):
        first, second = cp.cuda.Stream(), cp.cuda.Stream()
        with first:
            x = cp.asarray(host) * 2
        second.wait_event(first.record())
        with second:
            y = x.sum()
        second.synchronize()
        return y
    """,
    # One stream for each part, and the parts are disjoint.
    """
    from numba import cuda

    @cuda.jit
    def scale(values, start, count):
        i = cuda.grid(1)
        if i < count:
            values[start + i] *= 2

    def run(grid, threads, values, parts):
        streams = [cuda.stream() for _ in range(4)]
        for number, (start, count) in enumerate(parts):
            scale[grid, threads, streams[number % 4]](values, start, count)
        cuda.synchronize()
    """,
]

MESSAGE = (
    "{what} {uses} that line {line} {made} on another stream. "
    "Two streams of your own are never ordered by themselves. "
    "Record an event on the first and let the second wait for it."
)


@rule("GPU305", severity=Severity.ERROR, bad=BAD, good=GOOD)
def two_custom_streams_without_event(timeline: Timeline) -> Iterator[Finding]:
    for cross in timeline.of(CrossStream):
        if DEFAULT not in (cross.producer, cross.consumer) and not crossing.foreign(cross):
            yield crossing.finding(timeline, cross, MESSAGE, Severity.ERROR, None)
