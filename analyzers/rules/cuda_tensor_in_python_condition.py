"""Python decides on the content of a GPU tensor.

## What it does
Finds device tensors as the condition of `if`, `while`, `assert`, `and`, `or`, `not` or a ternary,
in `bool()`, `any()`, `max()`, `torch.equal()`, `torch.allclose()` and `x in t`, where that happens
again and again.

## Why it matters
The branch needs the value on the host, so the host waits for everything queued before it. Behind
the branch the queue is empty, and the GPU idles until Python has prepared the next work.

## Example
Combine the answers on the device and ask once, or select with `torch.where`.

## Fix safety
Control flow changes, so nothing is rewritten by itself.

## When to ignore
When the answer is needed at once and a turn of the loop is long, or in checks that only run while
debugging.

## References
- PyTorch source, test_sync_warning: a condition on a device tensor is expected to synchronise
- PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization"
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

        def clean(model, loader, optimizer):
            model = model.cuda()
            for x in loader:
                loss = model(x.cuda()).mean()
                loss.backward()
                if torch.isnan(loss).any():  # <-
                    continue
                optimizer.step()
        """
    ),
    Bad(
        """
        import torch

        class Router(torch.nn.Module):
            def forward(self, x: torch.Tensor, mask: torch.Tensor):
                x, mask = x.cuda(), mask.cuda()
                return x * 2 if mask.sum() > 0 else x  # <-
        """
    ),
    Bad(
        """
        import torch

        def largest(model, batches):
            model = model.cuda()
            best = torch.zeros((), device="cuda")
            for batch in batches:
                best = max(best, model(batch.cuda()).sum())  # <-
            return best
        """
    ),
    # A loss of another file's training; nothing here names a device.
    Bad(
        """
        import torch

        def smoothness(image: torch.Tensor, mask: torch.Tensor):
            if not ((mask == 0) | (mask == 1)).all():  # <-
                raise ValueError("The mask must hold zeros and ones.")
            return (image.diff(dim=-1).abs() * mask[..., 1:]).sum()
        """
    ),
    # A helper of a step; the base of the network stands in another file.
    Bad(
        """
        import torch
        from project.nets import BaseDetector

        class Detector(BaseDetector):
            def forward(self, maps: list[torch.Tensor]):
                return self.joined([m.cuda() for m in maps])

            def joined(self, maps: list[torch.Tensor]):
                whole = torch.cat(maps)
                if torch.isnan(whole).any():  # <-
                    raise ValueError("NaN")
                return whole
        """
    ),
]
GOOD = [
    # A name compared with a text is no tensor.
    """
    import torch
    from nets import Encoder

    def restore(weights, device):
        net = Encoder(3).to(device)
        for name in net.state_dict():
            if name != "mean" and "proj" not in name:
                net.state_dict()[name].copy_(weights[name])
    """,
    # The host knows the answer without asking: shapes, types, places.
    """
    import torch

    class Router(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            x = x.cuda()
            if x.numel() > 0 and x.is_cuda and x.dtype is torch.float16 and x.shape[0] > 1:
                return x.float()
            return x if x is not None else None
    """,
    # Only the constructor calls the helper, or a step once in a while.
    """
    import torch
    from project.nets import BaseDetector

    class Detector(BaseDetector):
        def __init__(self, anchors):
            super().__init__()
            self.anchors = self.checked(anchors.cuda())

        def forward(self, x: torch.Tensor):
            if self.step % 100 == 0:
                self.checked(x.cuda())
            return x.cuda() * self.anchors

        def checked(self, boxes):
            if (boxes < 0).any():
                raise ValueError("negative")
            return boxes
    """,
    # Names among texts, whatever the loop goes over.
    """
    import torch
    from torch.utils.data import DataLoader

    def columns(accelerator, data):
        loader = accelerator.prepare(DataLoader(data, collate_fn=list))
        for batch in loader:
            yield [key for key in batch[0] if key not in ["prompt", "completion"]]
    """,
    # Asked once for all, behind the loop.
    """
    import torch

    def check(model, loader):
        model = model.cuda()
        bad = torch.zeros((), dtype=torch.bool, device="cuda")
        for x in loader:
            bad |= torch.isnan(model(x.cuda())).any()
        if bad:
            raise ValueError("NaN")
    """,
    # Host data.
    """
    import torch

    def valid(rows):
        kept = []
        for row in rows:
            t = torch.tensor(row)
            if torch.isfinite(t).all():
                kept.append(t)
        return kept
    """,
]


@rule("GPU107", severity=Severity.WARNING, bad=BAD, good=GOOD, instead_of=("GPU105",))
def cuda_tensor_in_python_condition(timeline: Timeline) -> Iterator[Finding]:
    for wait, sure in implicit(timeline, "GPU107"):
        statement = timeline.text(wait.place.statement)
        yield remark(timeline, wait, sure, _ASSERTED if statement.startswith("assert") else _TESTED)


_TESTED = (
    "Python needs the value of {what}, so the host waits for the GPU {when}. "
    "The queue is empty afterwards, and the GPU idles until the next work arrives. "
    "Combine such checks on the device and ask once, or select with `torch.where`."
)
_ASSERTED = (
    "The check of {what} makes the host wait for the GPU {when}. "
    "The queue is empty afterwards, and the GPU idles until the next work arrives. "
    "Check it in a debug mode only, or on the device with `torch._assert_async`."
)
