"""A GPU tensor is indexed by numbers that live on the host.

## What it does
Finds device tensors indexed by a list, a NumPy array or a host tensor of integers, in loops and in
functions that run once per step.

## Why it matters
Each such index is turned into a tensor and copied to the device, and the host waits for that copy
and for everything queued before it.

## Example
Build the index on the device once.

## Fix safety
Where the index should be built is the author's decision.

## When to ignore
When the indices are new on every turn and made on the host.

## References
- PyTorch source, test_sync_warning: `x[ind_cpu]` is expected to synchronise
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Related, Severity
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline, Wait
from analyzers.waiting import implicit, remark

BAD = [
    Bad(
        """
        import torch

        class Swap(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                x = x.cuda()
                return x[[2, 1, 0]]  # <-
        """
    ),
    Bad(
        """
        import torch

        def epochs(data, steps):
            data = data.cuda()
            for _ in range(steps):
                order = torch.randperm(1024)
                batch = data[order]  # <-
                batch.sum()
        """
    ),
    # One remark for one index.
    Bad(
        """
        import numpy as np
        import torch

        def update(model, observations, returns, turns):
            model, observations, returns = model.cuda(), observations.cuda(), returns.cuda()
            order = np.arange(4096)
            for _ in range(turns):
                np.random.shuffle(order)
                rows = order[:256]
                value = model(observations[rows])  # <-
                loss = (value - returns[rows]).square().mean()
                loss.backward()
        """
    ),
]
GOOD = [
    # Numbers, slices and ellipses make views.
    """
    import torch

    class Parts(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            x = x.cuda()
            return x[0], x[1:3], x[..., -1], x[:, None], x[-1, 2]
    """,
    # The index lives where the data lives.
    """
    import torch

    def epochs(data, steps):
        data = data.cuda()
        for _ in range(steps):
            order = torch.randperm(1024, device=data.device)
            data[order].sum()
    """,
    # A host tensor, indexed on the host.
    """
    import torch

    def pick(rows, steps):
        table = torch.tensor(rows)
        return [table[[0, step]] for step in range(steps)]
    """,
]


@rule("GPU111", severity=Severity.INFO, bad=BAD, good=GOOD)
def host_index_into_cuda_tensor(timeline: Timeline) -> Iterator[Finding]:
    groups: dict[tuple[str, object], list[tuple[Wait, Confidence]]] = {}
    for wait, sure in implicit(timeline, "GPU111"):
        key = (_index(timeline, wait), (wait.place.function, wait.place.loops))
        groups.setdefault(key, []).append((wait, sure))
    for group in groups.values():  # one remark for each index, wherever it is used
        first, sure = group[0]
        yield remark(
            timeline,
            first,
            sure,
            "{what} indexes a GPU tensor by numbers of the host, which are copied over {when}. "
            "The host waits for the copy and for all queued work. "
            "Build the index on the device, once if it stays the same.",
            severity=Severity.INFO,
            related=tuple(Related(wait.place.span, "the same index") for wait, _ in group[1:]),
        )


def _index(timeline: Timeline, wait: Wait) -> str:
    """The text between the last brackets."""
    return timeline.text(wait.place.span).rpartition("[")[2]
