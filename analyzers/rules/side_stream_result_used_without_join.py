"""A result of a side stream is used on the current stream, which has not waited for it.

## What it does
Finds tensors made inside `with torch.cuda.stream(s):` and used after it on the outer stream with
no `wait_stream`, `wait_event` or synchronisation in between.

## Why it matters
Kernels on the current stream are not ordered behind work on another stream. The copy or kernel on
the side stream may still be running when its result is read: a batch that is half copied trains
the model without an error.

## Example
Let the current stream wait for the side stream before the first use.

## Fix safety
Safe: the wait is a dependency on the device. The host does not stop, and results can only change
from wrong to right.

## When to ignore
When a wait hides in a helper whose name does not tell.

## References
- PyTorch, "CUDA semantics", CUDA streams
- PyTorch source, `CUDAStream.cpp`: streams of the pool are made with `cudaStreamNonBlocking`
"""

import re
from collections.abc import Iterator

from analyzers import crossing
from analyzers.aside import KeptAside
from analyzers.dryrun.streams import DEFAULT
from analyzers.finding import Confidence, Finding, Related, Severity, Span
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import CrossStream, Timeline

BAD = [
    Bad(
        """
        import torch

        def step(model, batch, device):
            copies = torch.cuda.Stream()
            with torch.cuda.stream(copies):
                ready = batch.to(device, non_blocking=True)
            return model(ready)  # <-
        """,
        fixed="""
        import torch

        def step(model, batch, device):
            copies = torch.cuda.Stream()
            with torch.cuda.stream(copies):
                ready = batch.to(device, non_blocking=True)
            torch.cuda.current_stream().wait_stream(copies)
            return model(ready)
        """,
    ),
    # The default stream waits, but the caller may be on another one.
    Bad(
        """
        import torch

        def finish(side):
            torch.cuda.default_stream().wait_stream(side)  # <-
        """,
        fixed="""
        import torch

        def finish(side):
            torch.cuda.current_stream().wait_stream(side)
        """,
    ),
    # A result is put where others find it, and nothing waits for the stream.
    Bad(
        """
        import torch

        class Reloader:
            def __init__(self, device):
                self.device = device
                self.side = torch.cuda.Stream()

            def reload(self, layer, weight):
                with torch.cuda.stream(self.side):
                    layer.weight.data = weight.to(self.device, non_blocking=True)  # <-
        """,
        fixed="""
        import torch

        class Reloader:
            def __init__(self, device):
                self.device = device
                self.side = torch.cuda.Stream()

            def reload(self, layer, weight):
                with torch.cuda.stream(self.side):
                    layer.weight.data = weight.to(self.device, non_blocking=True)
                torch.cuda.current_stream().wait_stream(self.side)
        """,
    ),
    # A read by the host waits for the current stream only.
    Bad(
        """
        import torch

        class Scorer:
            def __init__(self):
                self.side = torch.cuda.Stream()

            def score(self, rows):
                with torch.cuda.stream(self.side):
                    total = rows.cuda().float().sum()
                return total.item()  # <-
        """,
        fixed="""
        import torch

        class Scorer:
            def __init__(self):
                self.side = torch.cuda.Stream()

            def score(self, rows):
                with torch.cuda.stream(self.side):
                    total = rows.cuda().float().sum()
                torch.cuda.current_stream().wait_stream(self.side)
                return total.item()
        """,
    ),
]
GOOD = [
    # Kept, and waited for by the method that uses it.
    """
    import torch

    class Reloader:
        def __init__(self, device):
            self.device = device
            self.side = torch.cuda.Stream()

        def reload(self, layer, weight):
            with torch.cuda.stream(self.side):
                self.weight = weight.to(self.device, non_blocking=True)

        def use(self, rows):
            self.side.synchronize()
            return rows @ self.weight
    """,
    # What is kept is on the host; whoever reads it waits for the event.
    """
    import torch

    class Offloader:
        def __init__(self):
            self.side = torch.cuda.Stream()
            self.saved = []

        def save(self, tensor):
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                self.saved.append(tensor.cpu())
    """,
    # Joined before the use.
    """
    import torch

    def step(model, batch, device):
        copies = torch.cuda.Stream()
        with torch.cuda.stream(copies):
            ready = batch.to(device, non_blocking=True)
        torch.cuda.current_stream().wait_stream(copies)
        return model(ready)
    """,
    # A prefetcher: the wait stands before the hand-over.
    """
    import torch

    class Prefetcher:
        def __init__(self, loader):
            self.loader = iter(loader)
            self.stream = torch.cuda.Stream()
            self.preload()

        def preload(self):
            self.batch = next(self.loader, None)
            if self.batch is None:
                return
            with torch.cuda.stream(self.stream):
                self.batch = self.batch.cuda(non_blocking=True)

        def next(self):
            torch.cuda.current_stream().wait_stream(self.stream)
            batch = self.batch
            if batch is not None:
                batch.record_stream(torch.cuda.current_stream())
            self.preload()
            return batch
    """,
    # Only the shape is used, and the rest runs on the same stream.
    """
    import torch

    def rows(model, batch):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            ready = batch.cuda(non_blocking=True)
        count = ready.shape[0]
        with torch.cuda.stream(side):
            out = model(ready)
        sync_side_stream(side)
        return out.sum(), count
    """,
]

MESSAGE = (
    "{what} {uses} that line {line} {made} on {side}. "
    "The current stream does not wait for a side stream, so it works on half-written memory. "
    "Let it wait before the first use."
)


@rule("GPU302", severity=Severity.ERROR, bad=BAD, good=GOOD)
def side_stream_result_used_without_join(timeline: Timeline) -> Iterator[Finding]:
    for cross in timeline.of(CrossStream):
        if not crossing.of_tensors(cross) or cross.consumer != DEFAULT:
            continue
        fix = crossing.current_waits_first(timeline, cross)
        yield crossing.finding(timeline, cross, MESSAGE, Severity.ERROR, fix)
    yield from crossing.default_stream_waits(timeline, joins=True)
    yield from _kept(timeline)


KEPT = (
    "{what} {keeps} a tensor that line {line} makes on {side}, and nothing in this file waits for "
    "that stream. Whoever uses it on the current stream may read memory that is half written. "
    "Let the current stream wait for the side stream before it is handed on."
)


def _kept(timeline: Timeline) -> Iterator[Finding]:
    """Results that are put where others find them, of streams that nobody waits for."""
    aside = list(timeline.of(KeptAside))
    if not aside or _EVENTS.search(timeline.source.text):
        return
    said: set[tuple[Span, Span]] = set()
    for kept in aside:
        place, key = kept.place, (kept.place.statement, kept.made)
        if key in said or crossing.is_joined(timeline, kept.stream):
            continue
        function = place.function
        if function is not None and function.roles & {"test"}:
            continue
        said.add(key)
        text = KEPT.format(
            what=shown(timeline.text(place.span)),
            keeps="gives away" if kept.returned else "keeps",
            line=kept.made.line,
            side=crossing.named(timeline, kept.stream),
        )
        related = Related(kept.made, "made here, on the side stream")
        yield Finding(
            crossing.made_at(kept), text, Confidence.POSSIBLE, Severity.ERROR, related=(related,)
        )


_EVENTS = re.compile(r"wait_event\(|record_event\(|\bevent\w*\.(?:record|wait|synchronize)\(")
