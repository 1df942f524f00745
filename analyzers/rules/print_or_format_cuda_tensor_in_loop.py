"""A GPU tensor is turned into text on every turn of a loop.

## What it does
Finds `print`, f-strings, `%` and `.format`, logging calls and progress bars that are given a
device tensor in a loop.

## Why it matters
Formatting a tensor fetches its content: `__format__` of a scalar calls `.item()`, `__repr__`
copies to the host. Both wait for everything queued, so each line of the log stalls the GPU.

## Example
Log every N steps.

## Fix safety
A guard changes what is logged, so it is not added by itself.

## When to ignore
When each turn takes so long that one wait is noise.

## References
- PyTorch source, torch/_tensor.py: `__format__` calls `.item()`
- PyTorch performance tuning guide: `print(cuda_tensor)` among the calls to avoid
"""

import re
from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Severity
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline
from analyzers.waiting import implicit, remark

BAD = [
    Bad(
        """
        import torch

        def train(model, loader, optimizer):
            model = model.cuda()
            for step, x in enumerate(loader):
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                print(f"{step} {loss:.4f}")  # <-
        """
    ),
    Bad(
        """
        import torch

        def train(model, loader, optimizer):
            model = model.cuda()
            for step, x in enumerate(loader):
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                print("step", step, "loss", loss)  # <-
        """
    ),
]
GOOD = [
    """
    import torch

    def train(model, loader, optimizer):
        model = model.cuda()
        for step, x in enumerate(loader):
            loss = model(x.cuda()).mean()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(f"{step} {loss:.4f}")
    """,
    # What is printed is known to the host.
    """
    import torch

    def train(model, loader):
        model = model.cuda()
        for x in loader:
            out = model(x.cuda())
            print(out.shape, out.device, len(out))
    """,
    # An error is worth a wait.
    """
    import torch

    def train(model, loader):
        model = model.cuda()
        for x in loader:
            out = model(x.cuda())
            if out.ndim != 2:
                raise ValueError(f"unexpected output {out}")
    """,
]


@rule("GPU108", severity=Severity.WARNING, bad=BAD, good=GOOD)
def print_or_format_cuda_tensor_in_loop(timeline: Timeline) -> Iterator[Finding]:
    lines: set[int] = set()
    for wait, sure in implicit(timeline, "GPU108"):
        if wait.place.statement.line in lines:
            continue  # one remark for a line of the log
        lines.add(wait.place.statement.line)
        yield remark(
            timeline,
            wait,
            Confidence.POSSIBLE if _identifies(timeline.text(wait.place.span)) else sure,
            "{what} turns a GPU tensor into text {when}, which fetches its content. "
            "Each line of the log waits for all queued work. "
            "Log every N steps, or collect detached values and format them later.",
        )


_KEY = re.compile(r"""\[\s*["']([^"']*)["']""")
_IDENTITIES = frozenset(
    {"case", "file", "filename", "id", "ids", "idx", "index", "key", "name", "path", "text", "uid"}
)


def _identifies(text: str) -> bool:
    """Whether it is an entry of a batch that says which item it is; those are seldom tensors."""
    return any(not _IDENTITIES.isdisjoint(key.lower().split("_")) for key in _KEY.findall(text))
