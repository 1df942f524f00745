"""Host memory is read while an asynchronous copy from the device is still filling it.

## What it does
Follows copies to the host that do not wait (`non_blocking=True`, `blocking=False`, a stream
argument) and reports the first read of their data that nothing has waited for.

## Why it matters
The call returns before the bytes have arrived. PyTorch puts the result of
`.to("cpu", non_blocking=True)` into page-locked memory, so the copy engine really does write it
later: the host reads whatever was there before, without an error, and only sometimes.

## Example
Let the copy wait, or wait for its stream before the first read.

## Fix safety
Taking `non_blocking=True` out of a copy to the host only adds the wait that is missing: the
values are the same, and the result is pageable instead of page-locked.

## When to ignore
When something that the analysis cannot see orders the read behind the copy, such as a host
function queued on the same stream.

## References
- PyTorch tutorial on pinned memory and `non_blocking`, "Other copy directions"
- PyTorch source, `TensorConversions.cpp`: the result of such a copy is page-locked
- CUDA runtime, "API synchronization behavior"
"""

import re
from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Fix, Related, Safety, Severity, Span
from analyzers.fixes import remove_keyword
from analyzers.judging import shown
from analyzers.places import Function
from analyzers.rule import Bad, rule
from analyzers.timeline import Copy, HostRead, Timeline

BAD = [
    Bad(
        """
        import torch

        def probabilities(model, tokens):
            logits = model(tokens.cuda()).softmax(dim=-1)
            host = logits.to("cpu", non_blocking=True)
            return host.numpy()  # <-
        """,
        fixed="""
        import torch

        def probabilities(model, tokens):
            logits = model(tokens.cuda()).softmax(dim=-1)
            host = logits.to("cpu")
            return host.numpy()
        """,
    ),
    Bad(
        """
        import torch

        def encode(model, batches):
            parts = []
            for batch in batches:
                parts.append(model(batch.cuda()).to("cpu", non_blocking=True))
            return torch.vstack(parts)  # <-
        """,
        fixed="""
        import torch

        def encode(model, batches):
            parts = []
            for batch in batches:
                parts.append(model(batch.cuda()).to("cpu"))
            return torch.vstack(parts)
        """,
    ),
    # Code that is not seen gets it, and nothing tells that code when the copy ends.
    Bad(
        """
        import torch

        class Planner:
            def plan(self, pages: torch.Tensor):
                host = pages.to("cpu", non_blocking=True)  # <-
                self.native.plan(host, pages.shape[0])
        """,
        fixed="""
        import torch

        class Planner:
            def plan(self, pages: torch.Tensor):
                host = pages.to("cpu")
                self.native.plan(host, pages.shape[0])
        """,
    ),
    Bad(
        """
        import numpy as np
        from numba import cuda

        def fetch(d_out, n):
            stream = cuda.stream()
            out = cuda.pinned_array(n, dtype=np.float32)
            d_out = cuda.to_device(np.ones(n, np.float32), stream=stream)
            d_out.copy_to_host(out, stream=stream)
            return out.sum()  # <-
        """
    ),
    # The state of an optimizer has a place of its own, and goes back to it.
    Bad(
        """
        import torch

        def update(state, rows, grad):
            with torch.no_grad():
                place = state.device
                old = state[rows].to(grad.device, non_blocking=True)
                new = old * 0.9 + grad * 0.1
                state[rows] = new.to(place, non_blocking=True)  # <-
        """,
        fixed="""
        import torch

        def update(state, rows, grad):
            with torch.no_grad():
                place = state.device
                old = state[rows].to(grad.device, non_blocking=True)
                new = old * 0.9 + grad * 0.1
                state[rows] = new.to(place)
        """,
    ),
]
GOOD = [
    # Both on the device: nothing leaves it.
    """
    import torch

    def update(state, rows, grad):
        old = state[rows].to(grad.device, non_blocking=True)
        state[rows] = (old * 0.9).to(grad.device, non_blocking=True)
    """,
    # Only rows that go up do not wait.
    """
    import torch

    def update(state, rows, grad):
        place = state.device
        old = state[rows].to(grad.device, non_blocking=True)
        state[rows] = (old * 0.9 + grad).to(place)
    """,
    # Kept for later, with an event that tells when it is there.
    """
    import torch

    class Sender:
        def push(self, pages: torch.Tensor, jobs):
            host = pages.to("cpu", non_blocking=True)
            done = torch.cuda.Event()
            done.record()
            self.native.enqueue(host, done)

        def keep(self, pages: torch.Tensor, jobs):
            jobs.put(pages.to("cpu", non_blocking=True))
    """,
    # The stream is waited for before the read.
    """
    import torch

    def probabilities(model, tokens):
        logits = model(tokens.cuda()).softmax(dim=-1)
        host = logits.to("cpu", non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return host.numpy()
    """,
    # Only the shape is read.
    """
    import torch

    def rows(model, tokens):
        host = model(tokens.cuda()).to("cpu", non_blocking=True)
        return host, host.shape[0]
    """,
    # A later copy on the same stream waits, and so covers the earlier one.
    """
    import torch

    def both(scores, boxes):
        early = scores.cuda().to("cpu", non_blocking=True)
        late = boxes.cuda().cpu()
        return early.numpy(), late.numpy()
    """,
]


@rule("GPU901", severity=Severity.ERROR, bad=BAD, good=GOOD)
def async_d2h_read_before_sync(timeline: Timeline) -> Iterator[Finding]:
    told: set[Span] = set()  # copies of which it was said that somebody may read too early
    for read in timeline.of(HostRead):
        copy = read.copy
        sure = read.sure
        line = copy.call.span.line
        keyword = _keyword(copy)
        if sure is Confidence.POSSIBLE:
            if copy.call.span not in told:
                told.add(copy.call.span)
                yield _perhaps(timeline, read, keyword)
            continue
        remedy = f"Drop `{keyword}`, or wait" if keyword else "Wait"
        yield Finding(
            read.place.span,
            f"{shown(timeline.text(read.place.span))} reads host memory that the copy in line "
            f"{line} is still filling. The host sees old bytes, without an error. "
            f"{remedy} for the stream before the first read.",
            sure,
            Severity.ERROR,
            related=(Related(copy.call.span, "this copy returns before the bytes are there"),),
            fix=_fix(timeline, copy, keyword),
        )
    for finding in _written_back(timeline):
        if finding.span not in told:
            yield finding


def _written_back(timeline: Timeline) -> Iterator[Finding]:
    """Rows that were brought from a buffer go back into it through a copy that does not wait.

    The buffer and the work have places of their own, so the buffer is meant to lie on the host: an
    indexed store into it reads the copy at once, and no later wait can help.
    """
    copies = [c for c in timeline.of(Copy) if not c.blocking and _keyword(c)]
    brought: dict[tuple[str, Function | None], Copy] = {}
    for copy in copies:
        taken, stored = _TAKEN.match(timeline.text(copy.call.span)), None
        if taken is not None:
            brought.setdefault((taken[1], copy.place.function), copy)
            continue
        head = timeline.text(copy.place.statement).partition("=")
        if head[2].strip() == timeline.text(copy.call.span):
            stored = _STORED.match(head[0].strip())
        source = brought.get((stored[1], copy.place.function)) if stored is not None else None
        if source is None or stored is None or _place(timeline, source) == _place(timeline, copy):
            continue
        text = timeline.text(copy.call.span)
        yield Finding(
            copy.call.span,
            f"{shown(text)} returns before the bytes are there, and the store into `{stored[1]}` "
            f"reads them at once where `{stored[1]}` lies on the host (line "
            f"{source.place.span.line} brings its rows from there). Drop `{_keyword(copy)}`.",
            Confidence.POSSIBLE,
            Severity.ERROR,
            related=(Related(source.call.span, "rows of the same buffer are brought here"),),
            fix=_fix(timeline, copy, _keyword(copy)),
        )


_TAKEN = re.compile(r"([A-Za-z_][\w.]*)\[[^][]*\]\.\w+\(")
_STORED = re.compile(r"([A-Za-z_][\w.]*)\[[^][]*\]\Z")


def _place(timeline: Timeline, copy: Copy) -> str:
    return timeline.text(copy.call.arguments[0].span) if copy.call.arguments else ""


def _perhaps(timeline: Timeline, read: HostRead, keyword: str) -> Finding:
    """Whether the reader waits is not in sight: the copy is what can be told about."""
    remedy = f"Drop `{keyword}`, or wait" if keyword else "Wait"
    return Finding(
        read.copy.call.span,
        f"{shown(timeline.text(read.copy.call.span))} returns before the bytes are there, and "
        f"line {read.place.span.line} may read them at once. It may see old bytes, without an "
        f"error. {remedy} for the stream before the first read.",
        read.sure,
        Severity.ERROR,
        related=(Related(read.place.span, "the data is used here"),),
        fix=_fix(timeline, read.copy, keyword),
    )


def _keyword(copy: Copy) -> str:
    """The argument that makes the copy asynchronous, as it is written."""
    name = copy.call.fact.async_by
    argument = copy.call.argument(name.lstrip("!"))
    if argument is None or not argument.keyword or not isinstance(argument.value.constant, bool):
        return ""
    return f"{argument.name}={argument.value.constant}"


def _fix(timeline: Timeline, copy: Copy, keyword: str) -> Fix | None:
    if not keyword:
        return None
    edit = remove_keyword(timeline.source, copy.call.span, keyword.partition("=")[0])
    if edit is None:
        return None
    return Fix("Let the copy wait", (edit,), Safety.SAFE)
