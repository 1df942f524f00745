"""A GPU value is read by the host on every turn of a loop.

## What it does
Finds `.item()`, `float(t)`, `int(t)`, `.tolist()`, `.cpu()`, `range(t)`, slices by a device scalar
and lists repeated by one, where they happen again and again: in loops that feed the GPU and in
functions that run once per step (`forward`, a loss, an optimizer step).

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
from analyzers.rule import Bad, rule
from analyzers.timeline import Reason, Timeline, Wait
from analyzers.waiting import fetched_together, implicit, remark

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
    # A size that only the device knows.
    Bad(
        """
        import torch
        from torch import nn

        class Loss(nn.Module):
            def forward(self, scores: torch.Tensor, mask: torch.Tensor):
                scores, mask = scores.cuda(), mask.cuda()
                wanted = scores.new_zeros(mask.sum())  # <-
                return ((scores[mask] - wanted) ** 2).mean()
        """
    ),
    # A device number as a bound, and as the length of a list.
    Bad(
        """
        import torch
        from torch import nn

        class Pool(nn.Module):
            def forward(self, frames: torch.Tensor, lengths: torch.Tensor):
                frames, lengths = frames.cuda(), lengths.cuda()
                parts = []
                for row, length in enumerate(lengths):
                    parts.append(frames[row, :length].mean(0))  # <-
                    padding = [0] * length.sum()  # <-
                return torch.stack(parts), padding
        """
    ),
    # A size is checked before: that is no interval.
    Bad(
        """
        import torch

        def train(model, loader, optimizer, size):
            if size % 8 != 0:
                raise ValueError("The size must be a multiple of 8.")
            model = model.cuda()
            for x in loader:
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                print({"loss": loss.detach().item()})  # <-
        """
    ),
    # A step asks for one number of a tensor: nothing else says where that lives.
    Bad(
        """
        from torch import nn

        class Attention(nn.Module):
            def forward(self, states, lengths):
                longest = lengths.max().item()  # <-
                return self.attend(states, longest)
        """
    ),
    # The scale of mixed precision is kept on the device.
    Bad(
        """
        import torch

        class Scaled(torch.optim.Optimizer):
            def step(self, closure=None):
                before = self.scaler.get_scale()  # <-
                self.scaler.step(self.optimizer, closure)
                self.scaler.update()
                self.skipped = self.scaler.get_scale() < before  # <-
        """
    ),
    # What the processes of a training exchange is on their devices.
    Bad(
        """
        import torch
        from transformers import Trainer

        class PreferenceTrainer(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False):
                loss, margins = self.preferences(model, inputs)
                self.note(margins)
                return loss

            def note(self, margins):
                self.told.append(self.accelerator.gather_for_metrics(margins).mean().item())  # <-
        """
    ),
]
GOOD = [
    # An object that isn't a tensor, though it has a device; a name that is compared with a text.
    """
    import torch

    def train(config, model, loader):
        model = model.to(config.device)
        for x in loader:
            loss = model(x.to(config.device)).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), float(config.get("norm", 1.0)))
    """,
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
    # Copied to the host before the loop, row by row; an optimizer's counter of steps.
    """
    import torch

    def trimmed(ids: torch.Tensor, mask: torch.Tensor):
        lengths = mask.cuda().cpu().sum(dim=1)
        return [ids[: n.item()] for ids, n in zip(ids.cuda().cpu(), lengths, strict=True)]

    class Plain(torch.optim.Optimizer):
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    p.data.add_(p.grad, alpha=-1.0 / state["step"].item())
    """,
    # Texts that the processes exchange; an end of a training that is no step.
    """
    import torch
    from transformers import Trainer

    class PreferenceTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False):
            return model(**inputs).loss

        def close(self, texts):
            scores = torch.tensor([float(len(text)) for text in texts])
            return self.accelerator.gather(scores).mean().item()
    """,
    # All numbers at once, before the loop.
    """
    import torch

    def spans(starts):
        found = []
        for start in starts.cuda().tolist():
            found.append((start, start + 16))
        return found
    """,
]

SCALAR = (
    "{what} makes the host wait for the GPU {when}. "
    "Nothing is queued meanwhile, so the GPU idles while Python prepares the next work. "
    "Keep the value on the device and read it once after the loop, or every N steps."
)
BOUND = (
    "{what} needs a number that lives on the GPU, so the host waits for it {when}. "
    "Nothing is queued meanwhile. "
    "Fetch all such numbers at once with `.tolist()` beforehand, or use a mask on the device."
)
EACH = (
    "{what} makes the host wait for the GPU {when}: a copy and a wait for each. "
    "Stack the values on the device and fetch them with one `.tolist()`."
)
SIZE = (
    "{what} needs a size or bound that lives on the GPU, so the host waits for it {when}. "
    "Nothing is queued meanwhile. "
    "Take it from a shape, or let the host keep the number it once had."
)
COPY = (
    "{what} copies from the GPU and waits for everything queued before it, {when}. "
    "The GPU runs dry meanwhile. "
    "Keep the data on the device, or copy once for all turns."
)
MESSAGES = {Reason.INDEX: BOUND, Reason.ITERATE: BOUND, Reason.COPY: COPY}


@rule("GPU105", severity=Severity.WARNING, bad=BAD, good=GOOD)
def item_in_hot_loop(timeline: Timeline) -> Iterator[Finding]:
    grouped = {wait.place.span for group in fetched_together(timeline) for wait, _ in group}
    for wait, sure in implicit(timeline, "GPU105"):
        if wait.place.span not in grouped:
            yield remark(timeline, wait, sure, _message(wait))


def _message(wait: Wait) -> str:
    if wait.call is not None and wait.call.fact.fresh:
        return SIZE
    loops = wait.place.loops
    if wait.reason is Reason.SCALAR and loops and loops[-1].comprehension:
        return EACH
    return MESSAGES.get(wait.reason, SCALAR)
