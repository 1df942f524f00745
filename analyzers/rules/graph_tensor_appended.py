"""A list or table keeps tensors together with their autograd graphs.

## What it does
Finds `losses.append(loss)`, `history[step] = loss` and the like, where the tensor still carries
its history and what was learnt from it has already been sent through `backward()`.

## Why it matters
Each element keeps the whole graph of its step alive. The list grows by one graph a turn, and the
GPU's memory with it.

## Example
Keep `loss.detach()`: the same number without its graph, and without a wait.

## Fix safety
Safe where the list is only averaged, plotted or logged. A list that is stacked and sent through
`backward()` must keep its graphs, and is not reported.

## When to ignore
When the elements are differentiated later, in another function.

## References
- PyTorch FAQ, "Don't accumulate history across your training loop"
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import replace_expression
from analyzers.judging import shown, when
from analyzers.retention import detached, keeps_history
from analyzers.rule import Bad, rule
from analyzers.timeline import Accumulated, Timeline

BAD = [
    Bad(
        """
        import torch

        def train(model, loader, criterion, optimizer):
            losses = []
            for x, y in loader:
                loss = criterion(model(x.cuda()), y.cuda())
                loss.backward()
                optimizer.step()
                losses.append(loss)  # <-
            return losses
        """,
        fixed="""
        import torch

        def train(model, loader, criterion, optimizer):
            losses = []
            for x, y in loader:
                loss = criterion(model(x.cuda()), y.cuda())
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
            return losses
        """,
    ),
    # A copy keeps the graph too.
    Bad(
        """
        import torch

        def train(model, loader, criterion, history):
            for step, (x, y) in enumerate(loader):
                loss = criterion(model(x.cuda()), y.cuda())
                loss.backward()
                history["loss"].append(loss.clone())  # <-
        """,
        fixed="""
        import torch

        def train(model, loader, criterion, history):
            for step, (x, y) in enumerate(loader):
                loss = criterion(model(x.cuda()), y.cuda())
                loss.backward()
                history["loss"].append(loss.clone().detach())
        """,
    ),
    Bad(
        """
        import torch

        def train(model, loader, criterion):
            curve = {}
            for step, (x, y) in enumerate(loader):
                loss = criterion(model(x.cuda()), y.cuda())
                loss.backward()
                curve[step] = loss  # <-
            return curve
        """,
        fixed="""
        import torch

        def train(model, loader, criterion):
            curve = {}
            for step, (x, y) in enumerate(loader):
                loss = criterion(model(x.cuda()), y.cuda())
                loss.backward()
                curve[step] = loss.detach()
            return curve
        """,
    ),
    # Among other things, and for a reader who may come much later.
    Bad(
        """
        import torch

        EVENTS = []

        def put_image(name, image: torch.Tensor, step):
            EVENTS.append({"name": name, "event": image, "step": step})  # <-
        """,
        fixed="""
        import torch

        EVENTS = []

        def put_image(name, image: torch.Tensor, step):
            EVENTS.append({"name": name, "event": image.detach(), "step": step})
        """,
    ),
    # The one that was forgotten, in a table of statistics.
    Bad(
        """
        import torch
        from .core import masked_mean

        def loss(model, batch, old, advantages):
            logprobs = model(batch)
            ratio = torch.exp(logprobs - old)
            policy = masked_mean(-advantages * ratio)
            stats = dict(
                loss=dict(policy=policy.detach()),
                policy=dict(ratio=ratio),  # <-
            )
            return policy, stats
        """
    ),
    # The loss goes back to be differentiated, and once more to be read.
    Bad(
        """
        import torch
        from .core import policy_loss

        def step(actor, batch):
            loss = policy_loss(actor, batch)
            metrics = {"loss": loss, "tokens": len(batch)}  # <-
            return loss, metrics

        def train(actor, batches):
            for batch in batches:
                loss, metrics = step(actor, batch)
                loss.backward()
        """
    ),
    Bad(
        """
        import torch
        from .core import all_reduce_mean

        def train(booster, batches, kl):
            losses, divergences = [], []
            for batch in batches:
                loss = booster.step(batch)
                kl = all_reduce_mean(torch.mean(kl))
                divergences.append(kl)  # <-
                losses.append(loss.data)
        """
    ),
]
GOOD = [
    """
    import torch

    def train(model, loader, criterion):
        losses = []
        for x, y in loader:
            loss = criterion(model(x.cuda()), y.cuda())
            loss.backward()
            losses.append(loss.detach())
        return losses
    """,
    # The list is differentiated.
    """
    import torch

    def train(model, parts, criterion):
        losses = []
        for x, y in parts:
            loss = criterion(model(x.cuda()), y.cuda())
            losses.append(loss)
        total = torch.stack(losses).sum()
        total.backward()
    """,
    # Parts of a network's output.
    """
    import torch
    from torch import nn

    class Heads(nn.Module):
        def forward(self, x):
            outputs = []
            for head in self.heads:
                outputs.append(head(x))
            return torch.cat(outputs)
    """,
    # The callee gives a number.
    """
    import torch

    def step(model, x, y, criterion):
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        return loss.item()

    def train(model, loader, criterion):
        losses = []
        for x, y in loader:
            loss = step(model, x, y, criterion)
            losses.append(loss)
        return losses
    """,
    # One slot, overwritten on each turn: at most one graph.
    """
    import torch

    def train(model, loader, criterion, logs):
        for x, y in loader:
            loss = criterion(model(x.cuda()), y.cuda())
            loss.backward()
            logs["loss"] = loss
    """,
    # All of them without their history, or numbers.
    """
    import torch

    def loss(model, batch, old, lr, step):
        logprobs = model(batch)
        ratio = torch.exp(logprobs - old)
        policy = -ratio.mean()
        stats = dict(policy=policy.detach(), ratio=ratio.mean().item(), lr=lr, step=step)
        return policy, stats
    """,
    # Looked at and forgotten.
    """
    import torch

    def train(model, batches, logger):
        for batch in batches:
            loss = model(batch)
            loss.backward()
            log = {"loss": loss}
            logger.write(log)
    """,
]


@rule("GPU503", severity=Severity.WARNING, bad=BAD, good=GOOD)
def graph_tensor_appended(timeline: Timeline) -> Iterator[Finding]:
    for event in timeline.of(Accumulated):
        if event.how not in ("append", "store", "report"):
            continue
        sure = keeps_history(event)
        if sure is None:
            continue
        may = "may " if sure is Confidence.POSSIBLE else ""
        yield Finding(
            event.place.span,
            f"{shown(event.target)} {may}keep{'' if may else 's'} "
            f"{shown(timeline.text(event.value_span))} with its graph {when(event.place)}. "
            "Each element holds the memory of its whole step. "
            "Keep `.detach()` of it: the same numbers without their history.",
            sure,
            Severity.WARNING,
            fix=_fix(timeline, event),
        )


def _fix(timeline: Timeline, event: Accumulated) -> Fix | None:
    text = detached(timeline.text(event.value_span))
    edit = replace_expression(timeline.source, event.value_span, text) if text else None
    if edit is None:
        return None
    safe = event.backward and event.target.isidentifier() and event.value.scalar
    safety = Safety.SAFE if safe else Safety.UNSAFE
    condition = "" if safe else "Right where the list is never differentiated later."
    return Fix("Keep the numbers without their history", (edit,), safety, condition)
