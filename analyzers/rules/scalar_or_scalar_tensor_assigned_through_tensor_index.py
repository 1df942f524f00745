"""Storing one value through a tensor of indices makes the host wait.

## What it does
Finds `x[index] = 0` with a device tensor of integers as index, and `x[mask] = y` with a device
scalar `y` behind a boolean mask.

## Why it matters
In the first form the number becomes a host tensor that is copied to the device; in the second the
scalar is fetched by the host to fill with it. Both wait for everything queued before.

## Example
Use `index_fill_`, or `torch.where` on the device.

## Fix safety
`index_fill_` takes the place of the store only for a one-dimensional index of the first dimension,
so nothing is rewritten by itself. `masked_fill_` with a tensor as value is no way out: it fetches
the value too.

## When to ignore
In code that runs once.

## References
- PyTorch source, python_variable_indexing.cpp and test_sync_warning
"""

from collections.abc import Iterator

from analyzers.finding import Finding, Severity
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline
from analyzers.waiting import implicit, remark

BAD = [
    Bad(
        """
        import torch

        class Drop(torch.nn.Module):
            def forward(self, x: torch.Tensor, scores: torch.Tensor):
                x, scores = x.cuda(), scores.cuda()
                worst = scores.argmin(dim=0)
                x[worst] = 0  # <-
                return x
        """
    ),
    Bad(
        """
        import torch

        class Fill(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                x = x.cuda()
                mask = x < 0
                x[mask] = x.mean()  # <-
                return x
        """
    ),
]
GOOD = [
    # Neither a number behind a mask nor a number behind numbers makes the host wait.
    """
    import torch

    class Fill(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            x = x.cuda()
            x[x < 0] = 1.0
            x[0] = 0
            x[2:5] = 0
            return x
    """,
    """
    import torch

    class Drop(torch.nn.Module):
        def forward(self, x: torch.Tensor, scores: torch.Tensor):
            x, scores = x.cuda(), scores.cuda()
            x.index_fill_(0, scores.topk(4).indices, 0)
            x.copy_(torch.where(x < 0, x.mean(), x))
            return x
    """,
]


@rule("GPU112", severity=Severity.INFO, bad=BAD, good=GOOD)
def scalar_or_scalar_tensor_assigned_through_tensor_index(timeline: Timeline) -> Iterator[Finding]:
    for wait, sure in implicit(timeline, "GPU112"):
        way_out = (
            "Select with `torch.where` and copy the result back."
            if wait.value.scalar
            else "Use `index_fill_`, or make the value a device tensor once."
        )
        yield remark(
            timeline,
            wait,
            sure,
            "Storing one value through the index of {what} copies that value between host and "
            f"device {{when}}. The host waits for all queued work. {way_out}",
            severity=Severity.INFO,
        )
