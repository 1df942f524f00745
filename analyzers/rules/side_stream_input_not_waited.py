"""Work on a side stream uses data that the current stream is still producing.

## What it does
Finds work inside `with torch.cuda.stream(s):` that reads a tensor made outside of it by device
work, or overwrites one that is still being read there, with no wait of `s` on the way.

## Why it matters
Streams of PyTorch are created non-blocking: a side stream waits for no other stream, not even for
the default one. The kernel starts as soon as the side stream is free and reads memory that is
half written. Nothing fails; the numbers are wrong now and then.

## Example
Let the side stream wait for the current one before it is entered.

## Fix safety
Safe: the wait is a dependency on the device. The host does not stop, and no result can change
except from wrong to right. Overlap that was never allowed is lost.

## When to ignore
When the order is made in a way that the analysis cannot see, such as a wait in another file.

## References
- PyTorch, "CUDA semantics", CUDA streams: the example that is marked as incorrect
- PyTorch source, `CUDAStream.cpp`: streams of the pool are made with `cudaStreamNonBlocking`
"""

from collections.abc import Iterator

from analyzers import crossing
from analyzers.aside import Refilled
from analyzers.dryrun.streams import DEFAULT
from analyzers.finding import Confidence, Finding, Severity, Span
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import CrossStream, Timeline

BAD = [
    Bad(
        """
        import torch

        def forward_aside(net, rows):
            x = torch.randn(rows, 64, device="cuda")
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                y = net(x)  # <-
            torch.cuda.current_stream().wait_stream(side)
            return y
        """,
        fixed="""
        import torch

        def forward_aside(net, rows):
            x = torch.randn(rows, 64, device="cuda")
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = net(x)
            torch.cuda.current_stream().wait_stream(side)
            return y
        """,
    ),
    # The caller may be on another stream than the default one.
    Bad(
        """
        import torch

        class Reducer:
            def __init__(self):
                self.side = torch.cuda.Stream()

            def reduce(self, bucket):
                self.side.wait_stream(torch.cuda.default_stream())  # <-
                with torch.cuda.stream(self.side):
                    torch.distributed.all_reduce(bucket)
        """,
        fixed="""
        import torch

        class Reducer:
            def __init__(self):
                self.side = torch.cuda.Stream()

            def reduce(self, bucket):
                self.side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(self.side):
                    torch.distributed.all_reduce(bucket)
        """,
    ),
    # Whoever used the buffer of the last call may still be reading it.
    Bad(
        """
        import torch

        class Static:
            def __init__(self):
                self.side = torch.cuda.Stream()
                self.rows = torch.empty(64, 3, device="cuda")

            def __call__(self, rows):
                with torch.cuda.stream(self.side):
                    self.rows.copy_(rows, non_blocking=True)  # <-
                torch.cuda.current_stream().wait_stream(self.side)
                return self.rows
        """,
        fixed="""
        import torch

        class Static:
            def __init__(self):
                self.side = torch.cuda.Stream()
                self.rows = torch.empty(64, 3, device="cuda")

            def __call__(self, rows):
                self.side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(self.side):
                    self.rows.copy_(rows, non_blocking=True)
                torch.cuda.current_stream().wait_stream(self.side)
                return self.rows
        """,
    ),
    # The side stream refills a buffer that the model may still be reading.
    Bad(
        """
        import torch

        def replay(model, loader):
            copies = torch.cuda.Stream()
            static = torch.empty(64, 3, device="cuda")
            for batch in loader:
                with torch.cuda.stream(copies):
                    static.copy_(batch, non_blocking=True)  # <-
                torch.cuda.current_stream().wait_stream(copies)
                model(static)
        """,
        fixed="""
        import torch

        def replay(model, loader):
            copies = torch.cuda.Stream()
            static = torch.empty(64, 3, device="cuda")
            for batch in loader:
                copies.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(copies):
                    static.copy_(batch, non_blocking=True)
                torch.cuda.current_stream().wait_stream(copies)
                model(static)
        """,
    ),
]
GOOD = [
    # Nothing is there yet that another stream could be using; what is uploaded is the host's.
    """
    import torch

    class Loader:
        def __init__(self):
            self.side = torch.cuda.Stream()

        def load(self, rows):
            with torch.cuda.stream(self.side):
                fresh = torch.empty(64, 3, device="cuda")
                fresh.copy_(rows, non_blocking=True)
                fresh.div_(255)
            torch.cuda.current_stream().wait_stream(self.side)
            return fresh
    """,
    # Another method lets the stream wait before this one is called.
    """
    import torch

    class Static:
        def __init__(self):
            self.side = torch.cuda.Stream()
            self.rows = torch.empty(64, 3, device="cuda")

        def before(self):
            self.side.wait_stream(torch.cuda.current_stream())

        def fill(self, rows):
            with torch.cuda.stream(self.side):
                self.rows.copy_(rows, non_blocking=True)
            torch.cuda.current_stream().wait_stream(self.side)
            return self.rows
    """,
    # The side stream waits first.
    """
    import torch

    def forward_aside(net, rows):
        x = torch.randn(rows, 64, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = net(x)
        torch.cuda.current_stream().wait_stream(side)
        return y
    """,
    # An event does the same.
    """
    import torch

    def forward_aside(net, rows):
        x = torch.randn(rows, 64, device="cuda")
        ready = torch.cuda.Event()
        ready.record()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            side.wait_event(ready)
            y = net(x)
        side.synchronize()
        return y
    """,
    # The "side" stream is the current one, and the input comes from the host.
    """
    import torch

    def forward_here(net, batch):
        x = torch.ones(4, device="cuda")
        with torch.cuda.stream(torch.cuda.current_stream()):
            y = net(x)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            z = batch.cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        return y, z
    """,
    # A wait for the device since the input was made.
    """
    import torch

    def forward_aside(net, rows):
        x = torch.randn(rows, 64, device="cuda")
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            y = net(x)
        torch.cuda.synchronize()
        return y
    """,
]

MESSAGE = (
    "{what} runs on {side} and {uses} that line {line} {made} on the current stream. "
    "A side stream waits for nothing by itself, so it works on half-written memory. "
    "Let it wait for the current stream before it is entered."
)


@rule("GPU301", severity=Severity.ERROR, bad=BAD, good=GOOD)
def side_stream_input_not_waited(timeline: Timeline) -> Iterator[Finding]:
    for cross in timeline.of(CrossStream):
        if not crossing.of_tensors(cross) or cross.producer != DEFAULT:
            continue
        fix = crossing.side_waits_first(timeline, cross)
        yield crossing.finding(timeline, cross, MESSAGE, Severity.ERROR, fix)
    yield from crossing.default_stream_waits(timeline, joins=False)
    yield from _refills(timeline)


REFILLS = (
    "{what} changes memory from before while {side} is current, and this stream waits for nobody: "
    "the current stream may still be filling or reading it. "
    "Let it wait for the current stream before it is entered."
)


def _refills(timeline: Timeline) -> Iterator[Finding]:
    """Memory from outside that is overwritten on a stream which waits for nobody in this file."""
    said: set[Span] = set()
    for refill in timeline.of(Refilled):
        place, stream = refill.place, refill.stream
        if place.span in said or crossing.has_waited(timeline, stream):
            continue
        said.add(place.span)
        later = [c for c in crossing.joins_in(timeline, stream) if c.place.order > place.order]
        both = any(c.place.function == place.function for c in later) and refill.value.made_by
        sure = refill.sure if both else Confidence.POSSIBLE
        name = crossing.named(timeline, stream)
        text = REFILLS.format(what=shown(timeline.text(place.span)), side=name)
        yield Finding(place.span, text, sure, Severity.ERROR)
