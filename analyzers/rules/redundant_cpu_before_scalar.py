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
from analyzers.finding import Confidence, Edit, Finding, Fix, Related, Safety, Severity
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline
from analyzers.waiting import generates, measures

BAD = [
    Bad(
        """
        import torch

        def train(model, loader, optimizer, history):
            model = model.cuda()
            for step, x in enumerate(loader):
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                history.append(loss.detach().cpu().item())  # <-
        """,
        fixed="""
        import torch

        def train(model, loader, optimizer, history):
            model = model.cuda()
            for step, x in enumerate(loader):
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                history.append(loss.item())
        """,
    ),
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
    for group in _groups(timeline):
        call = group[0]
        more = f" So do {len(group) - 1} more close by." if len(group) > 1 else ""
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} makes a host tensor that is read once and dropped. "
            f"`.{call.method}()` fetches from the device by itself: drop what stands before it."
            + more,
            Confidence.LIKELY if _often(call) else Confidence.POSSIBLE,
            Severity.INFO,
            related=tuple(Related(other.span, "here as well") for other in group[1:]),
            fix=_fix(timeline, group),
        )


def _often(call: Call) -> bool:
    function = call.place.function
    roles = function.roles if function is not None else frozenset[str]()
    per_step = call.place.in_loop or bool(roles & {"per_step", "hot", "hot_name"})
    return call.place.repeated and per_step and not generates(call.place)


_CLOSE = 12  # lines: what one comment speaks of stands together


def _groups(timeline: Timeline) -> Iterator[list[Call]]:
    """The calls that stand close together in one function, each group for one remark."""
    group: list[Call] = []
    for call in timeline.calls():
        if not _redundant(call) or any(call.span == other.span for other in group):
            continue
        first = group[0] if group else call
        near = 0 <= call.span.line - first.span.line <= _CLOSE
        if near and call.place.function == first.place.function:
            group.append(call)
        else:
            yield group
            group = [call]
    if group:
        yield group


def _redundant(call: Call) -> bool:
    if call.method not in ("item", "tolist") or not call.fact.waits or call.receiver is None:
        return False
    moved = call.receiver.made_by
    if not isinstance(moved, Call) or moved.span != call.receiver_span:
        return False
    if moved.fact.moves != "host" or moved.arguments or moved.fact.gives != "torch.Tensor":
        return False
    function = call.place.function
    return function is None or "test" not in function.roles


def _fix(timeline: Timeline, group: list[Call]) -> Fix | None:
    edits = [_edit(timeline, call) for call in group]
    done = tuple(edit for edit in edits if edit is not None)
    if len(done) < len(edits):
        return None
    return Fix("Read it directly", done, Safety.SAFE)


def _edit(timeline: Timeline, call: Call) -> Edit | None:
    moved = call.receiver.made_by if call.receiver is not None else None
    if not isinstance(moved, Call) or moved.receiver_span is None:
        return None
    kept = moved.receiver_span
    below = moved.receiver.made_by if moved.receiver is not None else None
    if isinstance(below, Call) and below.method == "detach" and below.span == kept:
        kept = below.receiver_span
    if kept is None:
        return None
    return replace_expression(timeline.source, moved.span, timeline.text(kept))
