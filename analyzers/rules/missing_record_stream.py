"""Memory of a side stream is used on another stream, and the allocator is not told.

## What it does
Finds tensors that are allocated while a side stream is current, used on another stream behind a
proper wait, and dropped in a loop without `record_stream`, while the side stream goes on
allocating without waiting for that use. A prefetcher that keeps them in a field counts too, and
so does a `record_stream` with the stream that owns the memory, which tells the allocator nothing.

## Why it matters
The caching allocator knows only the stream that a block was allocated on. When the last reference
goes, the block is free for new work of that stream at once, although the other stream is still
reading it. The next batch is copied over the one that trains: wrong numbers, no error.

## Example
Call `record_stream` with the stream that uses the tensor, after the wait.

## Fix safety
A sketch. `record_stream` is right but delays the reuse of the memory; letting the side stream wait
for the current one before it allocates again, or allocating on the stream that uses the tensor, is
often cheaper.

## When to ignore
When the tensors live as long as the program, or under the private pool of a CUDA graph.

## References
- PyTorch, `torch.Tensor.record_stream`
- PyTorch source, `CUDACachingAllocator.cpp`
"""

from collections.abc import Iterator

from analyzers import crossing
from analyzers.aside import KeptAside, ToldOwner
from analyzers.finding import Confidence, Finding, Related, Severity, Span
from analyzers.judging import shown
from analyzers.places import Heat
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline, Unrecorded

BAD = [
    Bad(
        """
        import torch

        def train(model, batches, device):
            copies = torch.cuda.Stream()
            for batch in batches:
                with torch.cuda.stream(copies):
                    x = batch.to(device, non_blocking=True)
                torch.cuda.current_stream().wait_stream(copies)
                model(x)  # <-
        """
    ),
    Bad(
        """
        import torch

        def sums(rows, fill):
            side = torch.cuda.Stream()
            main = torch.cuda.current_stream()
            found = []
            for _ in range(rows):
                with torch.cuda.stream(side):
                    noise = torch.randn(1024, device="cuda")
                main.wait_stream(side)
                found.append(noise.sum())  # <-
                del noise
            return torch.stack(found)
        """
    ),
    # A prefetcher: the batch is dropped while the model still reads it.
    Bad(
        """
        import torch

        class Prefetcher:
            def __init__(self, loader):
                self.loader = iter(loader)
                self.side = torch.cuda.Stream()

            def fetch(self):
                rows = next(self.loader)
                with torch.cuda.stream(self.side):
                    self.rows = rows.cuda(non_blocking=True)  # <-

            def next(self):
                torch.cuda.current_stream().wait_stream(self.side)
                rows = self.rows
                self.fetch()
                return rows
        """
    ),
    # A generator: the caller works on what the next turn may write over.
    Bad(
        """
        import torch

        def batches(loader, device):
            side = torch.cuda.Stream()
            for rows in loader:
                with torch.cuda.stream(side):
                    rows = rows.to(device, non_blocking=True)  # <-
                torch.cuda.current_stream().wait_stream(side)
                yield rows
        """
    ),
    # The owner is told, and not of the tensor that it does not own.
    Bad(
        """
        import torch

        class Reducer:
            def __init__(self):
                self.side = torch.cuda.Stream()

            def reduce(self, grad):
                self.side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(self.side):
                    total = grad.clone()
                    torch.distributed.all_reduce(total)
                    total.record_stream(self.side)  # <-
                return total
        """
    ),
]
GOOD = [
    # A prefetcher that tells the allocator.
    """
    import torch

    class Prefetcher:
        def __init__(self, loader):
            self.loader = iter(loader)
            self.side = torch.cuda.Stream()

        def fetch(self):
            rows = next(self.loader)
            with torch.cuda.stream(self.side):
                self.rows = rows.cuda(non_blocking=True)

        def next(self):
            torch.cuda.current_stream().wait_stream(self.side)
            rows = self.rows
            rows.record_stream(torch.cuda.current_stream())
            self.fetch()
            return rows
    """,
    # One whose stream waits before it allocates again.
    """
    import torch

    class Prefetcher:
        def __init__(self, loader):
            self.loader = iter(loader)
            self.side = torch.cuda.Stream()

        def fetch(self):
            rows = next(self.loader)
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                self.rows = rows.cuda(non_blocking=True)

        def next(self):
            torch.cuda.current_stream().wait_stream(self.side)
            rows = self.rows
            self.fetch()
            return rows
    """,
    # A generator that tells the allocator before it hands on.
    """
    import torch

    def batches(loader, device):
        side = torch.cuda.Stream()
        for rows in loader:
            with torch.cuda.stream(side):
                rows = rows.to(device, non_blocking=True)
            torch.cuda.current_stream().wait_stream(side)
            rows.record_stream(torch.cuda.current_stream())
            yield rows
    """,
    # The other stream is told, not the owner.
    """
    import torch

    def reduce(grad, side):
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            total = grad.clone()
            torch.distributed.all_reduce(total)
            total.record_stream(main)
        grad.record_stream(side)
        main.wait_stream(side)
        return total
    """,
    # The allocator is told.
    """
    import torch

    def train(model, batches, device):
        copies = torch.cuda.Stream()
        for batch in batches:
            with torch.cuda.stream(copies):
                x = batch.to(device, non_blocking=True)
            torch.cuda.current_stream().wait_stream(copies)
            x.record_stream(torch.cuda.current_stream())
            model(x)
    """,
    # The side stream waits before it allocates again.
    """
    import torch

    def train(model, batches, device):
        copies = torch.cuda.Stream()
        for batch in batches:
            copies.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(copies):
                x = batch.to(device, non_blocking=True)
            torch.cuda.current_stream().wait_stream(copies)
            model(x)
    """,
    # Allocated on the stream that uses it; the side stream only fills it.
    """
    import torch

    def train(model, batches, device):
        copies = torch.cuda.Stream()
        for batch in batches:
            x = torch.empty_like(batch, device=device)
            copies.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(copies):
                x.copy_(batch, non_blocking=True)
            torch.cuda.current_stream().wait_stream(copies)
            model(x)
    """,
]


@rule("GPU303", severity=Severity.ERROR, bad=BAD, good=GOOD)
def missing_record_stream(timeline: Timeline) -> Iterator[Finding]:
    told = "record_stream" in timeline.source.text
    for use in timeline.of(Unrecorded):
        sure = use.sure.weaker(Confidence.POSSIBLE if told else Confidence.LIKELY)
        verb = "may give" if sure is Confidence.POSSIBLE else "gives"
        yield Finding(
            use.place.span,
            f"{shown(timeline.text(use.place.span))} uses memory that line "
            f"{use.producer_span.line} allocated on another stream. Once the tensor is dropped, "
            f"the allocator {verb} its block to the next tensor of that stream while this work "
            "still reads it. Call `record_stream` on it after the wait.",
            sure,
            Severity.ERROR if use.place.in_loop else Severity.WARNING,
            related=(Related(use.producer_span, "allocated here, on the side stream"),),
        )
    yield from _owners(timeline)
    if not told:
        yield from _kept(timeline)


def _owners(timeline: Timeline) -> Iterator[Finding]:
    """`record_stream` with the stream that the tensor was allocated on."""
    for owner in {event.place.span: event for event in timeline.of(ToldOwner)}.values():
        yield Finding(
            owner.place.span,
            f"{shown(timeline.text(owner.place.span))} names the stream that line "
            f"{owner.made.line} allocated the tensor on, which the allocator knows: the call does "
            "nothing. Name the other stream that uses it, or the tensor that comes from another "
            "stream.",
            Confidence.LIKELY,
            Severity.WARNING,
            related=(Related(owner.made, "allocated here, on that stream"),),
        )


def _kept(timeline: Timeline) -> Iterator[Finding]:
    """Tensors of a side stream in fields, or yielded: others use them once they have waited."""
    said: set[tuple[str, Span]] = set()
    for kept in timeline.of(KeptAside):
        at = crossing.made_at(kept)
        joins = list(crossing.joins_in(timeline, kept.stream))
        field = (timeline.text(kept.place.span), kept.context)
        if kept.waited or kept.returned or field in said or not joins:
            continue
        said.add(field)
        again = any(crossing.makes_the_next(kept, call) for call in joins)
        cold = kept.place.heat is Heat.COLD or crossing.has_waited(timeline, kept.stream)
        sure = Confidence.LIKELY if again and not cold else Confidence.POSSIBLE
        sure = sure.weaker(kept.sure)
        verb = "may give" if sure is Confidence.POSSIBLE else "gives"
        side = crossing.named(timeline, kept.stream)
        yield Finding(
            at,
            f"{shown(timeline.text(at))} allocates on {side} what another stream uses once it has "
            f"waited (line {joins[0].place.span.line}). When the tensor is dropped, the allocator "
            f"{verb} its block to the next tensor of the side stream while that work still reads "
            "it. Call `record_stream` on it after the wait.",
            sure,
            Severity.ERROR if sure is not Confidence.POSSIBLE else Severity.WARNING,
        )
