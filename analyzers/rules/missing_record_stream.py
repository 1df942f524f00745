"""Memory of a side stream is used on another stream, and the allocator is not told.

## What it does
Finds tensors that are allocated while a side stream is current, used on another stream behind a
proper wait, and dropped in a loop without `record_stream`, while the side stream goes on
allocating without waiting for that use.

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

from analyzers.finding import Confidence, Finding, Related, Severity
from analyzers.judging import shown
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
]
GOOD = [
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
