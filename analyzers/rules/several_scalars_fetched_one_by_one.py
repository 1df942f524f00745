"""Several GPU scalars are fetched one after the other.

## What it does
Finds two or more `.item()`, `float(t)` or `int(t)` on different device tensors in one statement,
or in statements that follow each other.

## Why it matters
Each of them is a copy of its own and waits for everything queued on the stream. The first wait
drains the queue; each further one pays the round trip again, while the GPU has nothing to do.

## Example
Stack the scalars on the device and fetch them with one copy.

## Fix safety
Right when all are tensors without dimensions, of one floating type, on one device: `torch.stack`
promotes silently, and a large integer next to a float loses its last digits.

## When to ignore
At the end of an epoch, or where there is nothing for the GPU to do anyway.

## References
- NVIDIA TensorRT-LLM, sync-free PyTorch: coalesce the copies that are left
- PyTorch source, `_local_scalar_dense_cuda`
"""

import ast
from collections.abc import Iterator, Sequence

from analyzers.finding import Confidence, Edit, Finding, Fix, Related, Safety, Severity
from analyzers.fixes import insert_before, replace_expression
from analyzers.judging import when
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline, Wait
from analyzers.waiting import fetched_together

BAD = [
    Bad(
        """
        import torch

        def train(model, loader, criterion, log):
            model = model.cuda()
            for x, y in loader:
                out = model(x.cuda())
                loss = criterion(out, y.cuda())
                norm = out.norm()
                log(loss=loss.item(), norm=norm.item())  # <-
        """,
        fixed="""
        import torch

        def train(model, loader, criterion, log):
            model = model.cuda()
            for x, y in loader:
                out = model(x.cuda())
                loss = criterion(out, y.cuda())
                norm = out.norm()
                loss_value, norm_value = torch.stack((loss, norm)).tolist()
                log(loss=loss_value, norm=norm_value)
        """,
    ),
    Bad(
        """
        import torch

        class Gate(torch.nn.Module):
            def forward(self, x: torch.Tensor, seen: torch.Tensor):
                x, seen = x.cuda(), seen.cuda()
                low = float(x.min())  # <-
                high = float(x.max())
                return (x - low) / (high - low), seen
        """
    ),
    # However each is fetched.
    Bad(
        """
        import torch

        def train(model, loader, criterion, log):
            model = model.cuda()
            for x, y in loader:
                out = model(x.cuda())
                loss = criterion(out, y.cuda())
                norm = out.norm()
                log(loss.detach().cpu().item(), float(norm.cpu()))  # <-
        """
    ),
]
GOOD = [
    # One copy for all of them.
    """
    import torch

    def train(model, loader, criterion, log):
        model = model.cuda()
        for step, (x, y) in enumerate(loader):
            out = model(x.cuda())
            loss = criterion(out, y.cuda())
            if step % 50 == 0:
                loss_value, norm = torch.stack((loss, out.norm())).tolist()
                log(loss=loss_value, norm=norm)
    """,
    # Scalars that were never on the device.
    """
    import torch

    def bounds(rows):
        found = []
        for row in rows:
            t = torch.tensor(row)
            found.append((t.min().item(), t.max().item()))
        return found
    """,
    # The same scalar twice: the second time it is there.
    """
    import torch

    def log(writer, losses):
        total = losses.cuda().sum()
        writer.add(total.item(), total.item())
    """,
]


@rule("GPU106", severity=Severity.INFO, bad=BAD, good=GOOD)
def several_scalars_fetched_one_by_one(timeline: Timeline) -> Iterator[Finding]:
    for group in fetched_together(timeline):
        first = group[0][0]
        sure = sorted((sure for _, sure in group), key=lambda s: s.rank)[1]  # of two at least
        if not first.place.records_graph:
            sure = Confidence.POSSIBLE  # an evaluation: its results are wanted at once
        yield Finding(
            first.place.span,
            f"The host fetches {len(group)} scalars from the GPU one by one, {when(first.place)}. "
            "Each is a copy and a wait of its own. "
            "Stack them on the device and fetch them with one `.tolist()`, or keep them there.",
            sure,
            Severity.WARNING if first.place.in_loop else Severity.INFO,
            related=tuple(Related(w.place.span, "fetched here as well") for w, _ in group[1:]),
            fix=_fix(timeline, [wait for wait, _ in group]),
        )


def _fix(timeline: Timeline, waits: Sequence[Wait]) -> Fix | None:
    """Fetch them all in a statement of its own, where they are all named in one statement."""
    if len({wait.place.statement for wait in waits}) > 1 or "torch" not in timeline.imports:
        return None
    names: dict[str, str] = {}
    edits: list[Edit | None] = []
    for wait in waits:
        call = wait.call
        if call is None or call.receiver_span is None or call.method != "item":
            return None
        text = timeline.text(call.receiver_span)
        if not all(part.isidentifier() for part in text.split(".")):
            return None
        names[text] = text.rpartition(".")[2] + "_value"
        edits.append(replace_expression(timeline.source, call.span, names[text]))
    taken = {n.id for n in ast.walk(timeline.source.tree) if isinstance(n, ast.Name)}
    if len(set(names.values())) < len(names) or taken & set(names.values()):
        return None
    line = f"{', '.join(names.values())} = torch.stack(({', '.join(names)})).tolist()"
    edits.append(insert_before(timeline.source, waits[0].place.statement, line))
    done = tuple(edit for edit in edits if edit is not None)
    if len(done) < len(edits):
        return None
    return Fix(
        "Fetch them with one copy",
        done,
        Safety.UNSAFE,
        "Right when all are scalars of one floating type on one device, and none is changed "
        "within the statement.",
    )
