"""A running total keeps the autograd graph of every step alive.

## What it does
Finds `total += loss`, `total = total + loss` and `total.add_(loss)` where the loss still carries
its history: it was sent through `backward()`, and the total is not.

## Why it matters
Adding a tensor with history gives a tensor with history. The total refers to the graph of every
step so far, so memory grows with each turn until the GPU runs out of it.

## Example
Add `loss.detach()`: the same number without its graph, and without a wait.

## Fix safety
Safe where the total is never sent through `backward()` itself. `float(loss)` would cut the graph
too, but makes the host wait on every step (GPU105).

## When to ignore
When the sum is differentiated later; then it is no total but a loss.

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

        def train(model, loader, optimizer):
            total = 0
            for x, y in loader:
                loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
                loss.backward()
                optimizer.step()
                total += loss  # <-
            return total / len(loader)
        """,
        fixed="""
        import torch

        def train(model, loader, optimizer):
            total = 0
            for x, y in loader:
                loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
                loss.backward()
                optimizer.step()
                total += loss.detach()
            return total / len(loader)
        """,
    ),
    Bad(
        """
        import torch

        def train(model, loader, optimizer, criterion):
            mean, count = 0, 0
            for x, y in loader:
                loss = criterion(model(x.cuda()), y.cuda())
                (loss / 4).backward()
                mean = mean + loss * x.size(0)  # <-
                count += x.size(0)
            return mean / count
        """,
        fixed="""
        import torch

        def train(model, loader, optimizer, criterion):
            mean, count = 0, 0
            for x, y in loader:
                loss = criterion(model(x.cuda()), y.cuda())
                (loss / 4).backward()
                mean = mean + (loss * x.size(0)).detach()
                count += x.size(0)
            return mean / count
        """,
    ),
    # A statistic somewhere else.
    Bad(
        """
        import torch

        def step(model, batch, scaler, stats):
            loss = model(batch["input"].cuda(), batch["labels"].cuda())
            stats.running("loss").add_(loss)  # <-
            scaler.scale(loss).backward()
        """,
        fixed="""
        import torch

        def step(model, batch, scaler, stats):
            loss = model(batch["input"].cuda(), batch["labels"].cuda())
            stats.running("loss").add_(loss.detach())
            scaler.scale(loss).backward()
        """,
    ),
    # What is kept under a name.
    Bad(
        """
        import torch

        def train(model, loader, criterion):
            sums = {"loss": 0.0}
            for x, y in loader:
                loss = criterion(model(x.cuda()), y.cuda())
                loss.backward()
                sums["loss"] += loss  # <-
            return sums
        """,
        fixed="""
        import torch

        def train(model, loader, criterion):
            sums = {"loss": 0.0}
            for x, y in loader:
                loss = criterion(model(x.cuda()), y.cuda())
                loss.backward()
                sums["loss"] += loss.detach()
            return sums
        """,
    ),
    # Whoever hands the output in may still be recording.
    Bad(
        """
        import torch
        from .metric import Metric

        class MeanSquaredError(Metric):
            def update(self, output):
                predicted, wanted = output
                squared = torch.pow(predicted - wanted, 2)
                self._sum_of_squared_errors += torch.sum(squared)  # <-
        """,
        fixed="""
        import torch
        from .metric import Metric

        class MeanSquaredError(Metric):
            def update(self, output):
                predicted, wanted = output
                squared = torch.pow(predicted - wanted, 2)
                self._sum_of_squared_errors += torch.sum(squared).detach()
        """,
    ),
]
GOOD = [
    # Counts have no history.
    """
    import torch
    from .metric import Metric

    class Accuracy(Metric):
        def update(self, output):
            predicted, wanted = output
            self._num_correct += torch.sum(torch.eq(predicted, wanted))
            self._num_total += len(wanted)
    """,
    """
    import torch
    from .metric import Metric

    class SumOfErrors(Metric):
        def update(self, output):
            predicted, wanted = output[0].detach(), output[1].detach()
            self._sum_of_errors += torch.sum(torch.abs(predicted - wanted))
    """,
    # The library records nothing meanwhile.
    """
    import torch
    from torchmetrics import Metric

    class SumOfErrors(Metric):
        def update(self, predicted, wanted):
            self.sum_of_errors += torch.sum(torch.abs(predicted - wanted))
    """,
    """
    import torch

    def train(model, loader, criterion):
        total = 0
        for x, y in loader:
            loss = criterion(model(x.cuda()), y.cuda())
            loss.backward()
            total += loss.detach()
        return total
    """,
    # Terms of one loss.
    """
    import torch

    def train(model, loader, criterion, optimizer):
        for x, y in loader:
            loss = 0
            for head in model(x.cuda()):
                term = criterion(head, y.cuda())
                loss += term
            loss.backward()
            optimizer.step()
    """,
    # The sum itself is differentiated, after the loop.
    """
    import torch

    def train(model, parts, criterion):
        total = 0
        for x, y in parts:
            loss = criterion(model(x.cuda()), y.cuda())
            total = total + loss
        mean = total / len(parts)
        mean.backward()
    """,
    # No graph is recorded.
    """
    import torch

    @torch.no_grad()
    def evaluate(model, loader, criterion):
        total = 0
        for x, y in loader:
            loss = criterion(model(x.cuda()), y.cuda())
            total += loss
        return total
    """,
    # A count of hits has no history.
    """
    import torch

    def train(model, loader, criterion):
        hits = 0
        for x, y in loader:
            y = y.cuda()
            out = model(x.cuda())
            loss = criterion(out, y)
            loss.backward()
            hits += (out.argmax(1) == y).sum()
        return hits
    """,
]


@rule("GPU502", severity=Severity.ERROR, bad=BAD, good=GOOD)
def loss_history_accumulated(timeline: Timeline) -> Iterator[Finding]:
    if "mxnet" in timeline.imports:
        return  # its gradients are recorded in a scope of their own
    for event in timeline.of(Accumulated):
        if event.how not in ("add", "fold"):
            continue
        sure = keeps_history(event)
        if sure is None or (not event.value.graph and "torchmetrics" in timeline.imports):
            continue  # its metrics are updated while nothing is recorded
        surely = sure is not Confidence.POSSIBLE
        yield Finding(
            event.place.span,
            f"{shown(event.target)} keeps {'' if surely else 'what may be '}the autograd graph of "
            f"{shown(timeline.text(event.value_span))} {when(event.place)}. "
            "Memory grows with every step until it runs out. "
            "Add `.detach()`: the same number without its history, and without a wait.",
            sure,
            Severity.ERROR if surely else Severity.WARNING,
            fix=_fix(timeline, event),
        )


def _fix(timeline: Timeline, event: Accumulated) -> Fix | None:
    if event.value_span == event.place.span:
        return None  # the value's own text is not known
    text = detached(timeline.text(event.value_span))
    edit = replace_expression(timeline.source, event.value_span, text) if text else None
    if edit is None:
        return None
    safe = event.backward and not event.target_backward and "." not in event.target
    return Fix(
        "Add the number without its history",
        (edit,),
        Safety.SAFE if safe else Safety.UNSAFE,
        "" if safe else "Right where the total itself is never sent through `backward()`.",
    )
