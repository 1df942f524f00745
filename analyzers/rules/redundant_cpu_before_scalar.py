"""A tensor is moved to the host before a call that does so itself.

## What it does
Finds `.cpu().item()` and `.cpu().tolist()`.

## Why it matters
`.item()` and `.tolist()` copy from the device by themselves and ignore the autograd history. The
tensor that `.cpu()` makes in between is allocated, filled and dropped. It costs little, and reads
as if it were needed.

## Example
Call `.item()` or `.tolist()` on the device tensor.

## Fix safety
Safe: the values are the same wherever the tensor is.

## When to ignore
Nothing speaks for the longer form.

## References
- PyTorch source, `_local_scalar_dense_cuda`: `.item()` copies and waits
"""

from collections.abc import Iterator

from analyzers.call_edits import replace_expression
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import torch

        def report(criterion, model, x, y):
            loss = criterion(model.cuda()(x.cuda()), y.cuda())
            return loss.detach().cpu().item()  # <-
        """,
        fixed="""
        import torch

        def report(criterion, model, x, y):
            loss = criterion(model.cuda()(x.cuda()), y.cuda())
            return loss.item()
        """,
    ),
    Bad(
        """
        import torch

        def ranked(scores: torch.Tensor):
            order = scores.argsort()
            return order.cpu().tolist()  # <-
        """,
        fixed="""
        import torch

        def ranked(scores: torch.Tensor):
            order = scores.argsort()
            return order.tolist()
        """,
    ),
]
GOOD = [
    """
    import torch

    def ranked(scores: torch.Tensor):
        return scores.argsort().tolist()
    """,
    # NumPy needs host memory.
    """
    import torch

    def largest(scores: torch.Tensor):
        return scores.max().cpu().numpy().item()
    """,
    # The host tensor is used again.
    """
    import torch

    def report(scores: torch.Tensor):
        host = scores.cpu()
        return host.tolist(), host
    """,
]


@rule("GPU212", severity=Severity.INFO, bad=BAD, good=GOOD)
def redundant_cpu_before_scalar(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    for call in timeline.calls():
        if call.method not in ("item", "tolist") or not call.fact.waits or call.receiver is None:
            continue
        moved = call.receiver.made_by
        if not isinstance(moved, Call) or moved.span != call.receiver_span:
            continue
        if moved.fact.moves != "host" or moved.arguments or moved.fact.gives != "torch.Tensor":
            continue
        function = call.place.function
        if function is not None and "test" in function.roles:
            continue
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} copies to the host twice over. "
            f"`.{call.method}()` does it by itself. Drop what stands before it.",
            Confidence.CERTAIN if call.receiver.type else Confidence.LIKELY,
            Severity.INFO,
            fix=_fix(timeline, moved),
        )


def _fix(timeline: Timeline, moved: Call) -> Fix | None:
    kept = moved.receiver_span
    below = moved.receiver.made_by if moved.receiver is not None else None
    if isinstance(below, Call) and below.method == "detach" and below.span == kept:
        kept = below.receiver_span
    if kept is None or moved.receiver_span is None:
        return None
    edit = replace_expression(timeline.source, moved.span, timeline.text(kept))
    return Fix("Read it directly", (edit,), Safety.SAFE) if edit is not None else None
