"""A GPU value is read by the host on every turn of a loop.

## What it does
Finds `.item()`, `float(t)`, `int(t)` and `.tolist()` on device values in loops that feed the GPU,
and in functions that run once per step (`forward`, a loss, an optimizer step).

## Why it matters
Reading one value copies it to the host and waits for everything queued on its stream. The host
cannot run ahead any more: the launch queue drains, and the GPU idles while Python prepares the
next step.

## Example
Accumulate on the device and read once, after the loop.

## Fix safety
The rewrite is never applied by itself: Python floats add up in double precision, a device total
adds up in the loss's own precision, and the last digits differ. `.detach()` is part of the fix,
else the total keeps every step's graph alive (GPU502).

## When to ignore
When the value decides what happens next (early stop, line search), or when a turn of the loop is
so long that one wait is noise.

## References
- PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization"
- PyTorch source, `_local_scalar_dense_cuda`: a copy of four bytes and a wait for the stream
"""

from collections.abc import Iterator

from analyzers.finding import Finding, Severity
from analyzers.judging import wait_findings
from analyzers.rule import Bad, rule
from analyzers.timeline import Reason, Timeline, Wait

BAD = [
    Bad(
        """
        import torch

        def train(model, loader, optimizer, device):
            model = model.to(device)
            running = 0.0
            for x, y in loader:
                loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
                loss.backward()
                optimizer.step()
                running += loss.item()  # <-
            return running / len(loader)
        """
    ),
    Bad(
        """
        import torch

        def clip(parameters):
            total = 0.0
            for p in parameters:
                norm = p.grad.cuda().norm(2)
                total += float(norm) ** 2  # <-
            return total ** 0.5
        """
    ),
]
GOOD = [
    # Read once in a while, and once after the loop.
    """
    import torch

    def train(model, loader, optimizer, device):
        model = model.to(device)
        total = torch.zeros((), device=device)
        for step, (x, y) in enumerate(loader):
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            total += loss.detach()
            if step % 100 == 0:
                print(step, loss.item())
        return total.item() / len(loader)
    """,
    # A host value: nothing to wait for.
    """
    import numpy as np
    import torch

    def lengths(paths):
        return [np.load(path).max().item() for path in paths]
    """,
]


MESSAGE = (
    "{what} makes the host wait for the GPU {when}. "
    "Nothing is queued meanwhile, so the GPU idles while Python prepares the next work. "
    "Keep the value on the device and read it once after the loop, or every N steps."
)


@rule("GPU105", severity=Severity.WARNING, bad=BAD, good=GOOD)
def item_in_hot_loop(timeline: Timeline) -> Iterator[Finding]:
    for wait in timeline.of(Wait):
        if wait.reason is Reason.SCALAR and wait.call is not None:
            yield from wait_findings(timeline, wait, MESSAGE)
