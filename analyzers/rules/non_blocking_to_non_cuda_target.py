"""An asynchronous copy is asked for to a device that is none of CUDA's.

## What it does
Finds `non_blocking=True` with "mps" or "xpu" as the target.

## Why it matters
Only copies between page-locked memory and a CUDA device are followed by the host allocator. To
other devices the source may be freed or changed while it is still being read: the result is
corrupted in silence.

## Example
Ask for it only where the target is a CUDA device.

## Fix safety
Safe: the copy waits, and gives the same values.

## When to ignore
When the source is kept alive and unchanged until a synchronisation.

## References
- PyTorch tutorial on pinned memory and `non_blocking`, "Other copy directions"
- PyTorch issue 189690
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import remove_keyword
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline

BAD = [
    Bad(
        """
        import torch

        def load(path):
            return torch.load(path, map_location="cpu").to("mps", non_blocking=True)  # <-
        """,
        fixed="""
        import torch

        def load(path):
            return torch.load(path, map_location="cpu").to("mps")
        """,
    ),
    Bad(
        """
        import torch

        def place(rows):
            x = torch.tensor(rows)
            return x.to(device="xpu:0", non_blocking=True)  # <-
        """,
        fixed="""
        import torch

        def place(rows):
            x = torch.tensor(rows)
            return x.to(device="xpu:0")
        """,
    ),
]
GOOD = [
    """
    import torch

    def place(batch):
        return batch.pin_memory().to("cuda", non_blocking=True)
    """,
    """
    import torch

    def place(batch, device):
        return batch.to(device, non_blocking=(device.type == "cuda"))
    """,
]


@rule("GPU909", severity=Severity.WARNING, bad=BAD, good=GOOD)
def non_blocking_to_non_cuda_target(timeline: Timeline) -> Iterator[Finding]:
    for call in timeline.calls():
        asked = call.argument("non_blocking")
        if not call.fact.moves or asked is None or asked.value.constant is not True:
            continue
        target = next((a.value.constant for a in call.arguments if a.name == "device"), None)
        if not isinstance(target, str) or target.partition(":")[0] not in ("mps", "xpu"):
            continue
        edit = remove_keyword(timeline.source, call.span, "non_blocking")
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} does not wait for a copy to a device that is none "
            "of CUDA's. Nothing keeps the source alive and unchanged until it has been read. "
            "Ask for `non_blocking` only where the target is a CUDA device.",
            Confidence.LIKELY,
            Severity.WARNING,
            fix=Fix("Let the copy wait", (edit,), Safety.SAFE) if edit is not None else None,
        )
