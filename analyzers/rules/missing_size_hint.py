"""A size that the host knows is fetched from the GPU.

## What it does
Finds `repeat_interleave` with a device tensor of repeats and no `output_size`, and `one_hot`
without `num_classes`, on device tensors.

## Why it matters
Without the hint PyTorch computes the total or the maximum on the device and reads it back: a copy
and a wait for everything queued before.

## Example
Hand in the size that is already known.

## Fix safety
Only the author knows the size, so nothing is rewritten by itself.

## When to ignore
When the host doesn't know the size either.

## References
- PyTorch source, test_sync_warning: both forms, with and without the hint
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

        class Expand(torch.nn.Module):
            def forward(self, x: torch.Tensor, counts: torch.Tensor):
                x, counts = x.cuda(), counts.cuda()
                return torch.repeat_interleave(x, counts)  # <-
        """
    ),
    Bad(
        """
        import torch
        import torch.nn.functional as F

        class Classes(torch.nn.Module):
            def forward(self, labels: torch.Tensor):
                labels = labels.cuda()
                return F.one_hot(labels).float()  # <-
        """
    ),
]
GOOD = [
    # A number the host has.
    """
    import torch

    class Expand(torch.nn.Module):
        def __init__(self, heads):
            super().__init__()
            self.heads = heads

        def forward(self, x: torch.Tensor):
            x = x.cuda()
            return torch.repeat_interleave(x, 3), x.repeat_interleave(self.heads, dim=1)
    """,
    # The hint is given.
    """
    import torch
    import torch.nn.functional as F

    class Expand(torch.nn.Module):
        def forward(self, x: torch.Tensor, counts: torch.Tensor, total: int):
            x, counts = x.cuda(), counts.cuda()
            rows = torch.repeat_interleave(x, counts, output_size=total)
            return rows, F.one_hot(x, num_classes=10)
    """,
]


@rule("GPU110", severity=Severity.INFO, bad=BAD, good=GOOD)
def missing_size_hint(timeline: Timeline) -> Iterator[Finding]:
    for wait, sure in implicit(timeline, "GPU110"):
        hint = next(iter(wait.call.fact.waits_unless), "") if wait.call else ""
        yield remark(
            timeline,
            wait,
            sure,
            f"{{what}} has no `{hint}`, so PyTorch reads the size back from the GPU {{when}}. "
            f"The host waits for all queued work. Hand in `{hint}` if the host knows it.",
            severity=Severity.INFO,
        )
