"""A side stream works on what is around it, in a file that never lets it wait.

## What it does
Finds streams that are entered for work on data from outside, by methods, hooks or collectives whose
inside is not in sight, where nothing in the file lets the stream wait for another.

## Why it matters
A side stream waits for no other, not even for the default one. What it reads may not be finished,
and what it overwrites may still be read. Nothing fails; the numbers are wrong now and then.

## Example
Let the side stream wait for the current one before it is entered.

## Fix safety
No edit is proposed: which stream has to be waited for is not in sight.

## When to ignore
When what the stream works on comes from the host, or another file orders the streams.

## References
- PyTorch, "CUDA semantics", CUDA streams: the example that is marked as incorrect
- PyTorch source, `CUDAStream.cpp`: streams of the pool are made with `cudaStreamNonBlocking`
"""

import ast
import re
from collections.abc import Iterator
from textwrap import dedent

from analyzers import crossing
from analyzers.aside import EnteredAside
from analyzers.finding import Confidence, Finding, Severity, Span
from analyzers.off_paths import is_tried_out
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline

BAD = [
    # What has to be gathered may still be written by the optimizer.
    Bad(
        """
        import torch

        class Hook:
            def __init__(self, chunks):
                self.chunks = chunks
                self.prefetch_stream = torch.cuda.Stream()

            def before(self, wanted):
                with torch.cuda.stream(self.prefetch_stream):  # <-
                    for chunk in wanted:
                        self.chunks.access(chunk)
        """
    ),
    Bad(
        """
        import torch

        class Pipeline:
            def __init__(self, model):
                self.model = model
                self.backward_stream = torch.cuda.Stream()

            def progress(self, batch):
                losses = self.model(batch)
                with torch.cuda.stream(self.backward_stream):  # <-
                    torch.sum(losses, dim=0).backward()
        """
    ),
]
GOOD = [
    # The batch comes from the host.
    """
    import torch

    class Prefetcher:
        def __init__(self, loader):
            self.loader = iter(loader)
            self.side = torch.cuda.Stream()

        def preload(self):
            batch = next(self.loader)
            with torch.cuda.stream(self.side):
                self.batch = batch.cuda(non_blocking=True).float().sub_(0.5)
    """,
    """
    import torch

    class Hook:
        def __init__(self, chunks):
            self.chunks = chunks
            self.prefetch_stream = torch.cuda.Stream()

        def before(self, wanted):
            self.prefetch_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.prefetch_stream):
                for chunk in wanted:
                    self.chunks.access(chunk)
    """,
    # The host waits before.
    """
    import torch

    class Hook:
        def __init__(self, chunks):
            self.chunks = chunks
            self.prefetch_stream = torch.cuda.Stream()

        def before(self, wanted):
            torch.cuda.synchronize()
            with torch.cuda.stream(self.prefetch_stream):
                self.chunks.access(wanted)
    """,
    # The caller's stream, which the caller has ordered.
    """
    import torch

    def access(chunks, stream):
        with torch.cuda.stream(stream):
            chunks.access()
    """,
]

# Calls that bring host data over, change what was brought, look at something or belong to streams
# themselves: nothing that another stream has to finish first.
_HARMLESS = re.compile(
    r"^(to|cuda|empty\w*|zeros\w*|pin_memory|record\w*|synchronize|wait\w*|len|range|zip|enumerate"
    r"|items|values|keys|isinstance|getattr|hasattr|append|get|put|pop|print|nvtx\w*|range_p\w+"
    r"|device|stream|nullcontext|tuple|list|dict|type|str|int|is_\w+|size|numel|dim|view|detach"
    r"|super|reversed|max|min|state_dict|current_\w+|float|half|bfloat16|(div|sub|mul|add)_?|permute|contiguous|expand|clear"
    r"|normalize|clone|isend|irecv|info|debug|warning|tolist|item|_?(get|set|create|make)_\w+)$"
    r"|to_?(device|gpu|cuda)|fetch|load|transfer|h2d|d2h|memcpy|move|acquire|warm|input|next|copy",
    re.IGNORECASE,
)
_ORDERED = re.compile(r"\.wait_(stream|event)\(|\bsynchronize\(|\.sync\(|\.wait\(")
_SAME = re.compile(r"default|main|current|capture|graph|comp", re.IGNORECASE)


@rule("GPU313", severity=Severity.ERROR, bad=BAD, good=GOOD)
def side_stream_never_waits(timeline: Timeline) -> Iterator[Finding]:
    said: dict[str, set[int]] = {}
    lines = timeline.source.lines
    for entry in timeline.of(EnteredAside):
        name, line = timeline.text(entry.stream), entry.context.line
        if is_tried_out(timeline.source.path) or not _alone(timeline, entry, lines):
            continue
        work = _work(timeline.text(entry.context))
        told = said.setdefault(name, set())
        if not work or line in told or len(told) > 1:
            continue
        told.add(line)
        yield Finding(
            Span(line, entry.context.column, line, len(lines[line - 1])),
            f"`{work}` runs on {crossing.named(timeline, entry.stream)}, and nothing in this file "
            "lets that wait for the current stream. It may read what is not finished, or "
            "overwrite what is still read. Let it `wait_stream` before it is entered.",
            Confidence.LIKELY if work == "backward" else Confidence.POSSIBLE,
            Severity.ERROR,
        )


def _alone(timeline: Timeline, entry: EnteredAside, lines: tuple[str, ...]) -> bool:
    """A stream of this object or function that nothing orders, as far as the file goes."""
    function, name = entry.place.function, timeline.text(entry.stream)
    if function is None or "capture" in entry.place.contexts or "test" in function.roles:
        return False
    given = name in function.parameters and not function.name.startswith("_")
    if given or _SAME.search(name) or crossing.has_waited(timeline, entry.stream):
        return False
    # The body may begin with the wait.
    before = lines[function.span.line - 1 : entry.context.line + 2]
    return _ORDERED.search("\n".join(before)) is None


def _work(text: str) -> str:
    """The first call of the body that may use what others have made; empty when there is none."""
    try:
        statement = ast.parse(dedent(text)).body[0]
    except (SyntaxError, IndexError):
        return ""
    body = statement.body if isinstance(statement, ast.With | ast.AsyncWith) else []
    for node in (node for part in body for node in ast.walk(part)):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else ""
            name = called.id if isinstance(called, ast.Name) else name
            if name and not name[0].isupper() and not _HARMLESS.search(name):
                return name
    return ""
