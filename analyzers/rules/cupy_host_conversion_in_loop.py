"""A CuPy value is brought to the host on every turn of a loop.

## What it does
Finds `float()`, `int()`, `bool()`, `.item()`, `.get()`, `cp.asnumpy()` and conditions on CuPy
arrays in loops.

## Why it matters
CuPy's reductions give arrays without dimensions that stay on the device, so that nothing has to
wait. Converting one of them copies it and waits for everything queued on the stream.

## Example
Ask every N turns whether it has converged.

## Fix safety
An iteration may stop a few turns later, so this is advice.

## When to ignore
When a turn of the loop takes many milliseconds on the device.

## References
- CuPy documentation, "Differences between CuPy and NumPy": reduction methods
- CuPy source, core.pyx: `get()` waits for the stream
"""

from collections.abc import Iterator

from analyzers.finding import Finding, Severity
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline
from analyzers.waiting import fetched_together, implicit, remark

BAD = [
    Bad(
        """
        import cupy as cp

        def solve(step, x, turns, tolerance):
            x = cp.asarray(x)
            for turn in range(turns):
                new = cp.tanh(x)
                change = float(cp.abs(new - x).max())  # <-
                x = new
                if change < tolerance:
                    break
            return x
        """
    ),
    Bad(
        """
        import cupy as cp

        def collect(frames):
            found = []
            for frame in frames:
                spectrum = cp.fft.fft(cp.asarray(frame))
                found.append(cp.asnumpy(spectrum))  # <-
            return found
        """
    ),
]
GOOD = [
    """
    import cupy as cp

    def solve(x, turns, tolerance):
        x = cp.asarray(x)
        for turn in range(turns):
            new = cp.tanh(x)
            if turn % 20 == 0 and float(cp.abs(new - x).max()) < tolerance:
                break
            x = new
        return x
    """,
    # One copy behind the loop.
    """
    import cupy as cp

    def collect(frames):
        found = [cp.fft.fft(cp.asarray(frame)) for frame in frames]
        return cp.asnumpy(cp.stack(found))
    """,
    # `get` of other things.
    """
    import cupy as cp

    def read(queue, settings):
        found = []
        for _ in range(10):
            found.append(queue.get() * settings.get("scale"))
        return found
    """,
]


@rule("GPU117", severity=Severity.INFO, bad=BAD, good=GOOD)
def cupy_host_conversion_in_loop(timeline: Timeline) -> Iterator[Finding]:
    grouped = {wait.place.span for group in fetched_together(timeline) for wait, _ in group}
    for wait, sure in implicit(timeline, "GPU117"):
        if wait.place.span in grouped:
            continue
        yield remark(
            timeline,
            wait,
            sure,
            "{what} brings a CuPy value to the host {when}. "
            "The host waits for all queued work, and the GPU runs dry. "
            "Keep it on the device and look at it every N turns, or copy once behind the loop.",
            severity=Severity.INFO,
        )
