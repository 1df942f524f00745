"""A process is forked that gets values on the GPU.

## What it does
Finds processes and pools of `multiprocessing` that are given a network or tensor on the device,
where no start method but the default one is chosen.

## Why it matters
On Linux the default start method was `fork` until Python 3.14. A CUDA context does not survive a
fork: the child raises "Cannot re-initialize CUDA in forked subprocess", or hangs.

## Example
Take the context of the start method "spawn".

## Fix safety
A sketch: with "spawn" the child imports the module anew and its arguments are pickled.

## When to ignore
When the start method is set elsewhere.

## References
- PyTorch, "Multiprocessing best practices", and the error in `torch/cuda/__init__.py`
"""

import re
from collections.abc import Iterator

from analyzers.dryrun.values import Device, Kind, Value, element_of
from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline

BAD = [
    Bad(
        """
        import multiprocessing
        import torch

        def evaluate(model, worker):
            model = model.cuda()
            process = multiprocessing.Process(target=worker, args=(model,))  # <-
            process.start()
        """
    ),
    Bad(
        """
        from multiprocessing import Process
        import torch

        def start(worker, n):
            table = torch.zeros(n, device="cuda")
            return [Process(target=worker, args=(rank, table)) for rank in range(2)]  # <-
        """
    ),
]
GOOD = [
    """
    import multiprocessing
    import torch

    def evaluate(model, worker):
        model = model.cuda()
        process = multiprocessing.get_context("spawn").Process(target=worker, args=(model,))
        process.start()
    """,
    # The child gets host values only.
    """
    import multiprocessing
    import torch

    def evaluate(model, worker):
        total = model.cuda()(torch.ones(3, device="cuda")).sum().item()
        process = multiprocessing.Process(target=worker, args=(total,))
        process.start()
    """,
]

_STARTS = re.compile(r"\b(spawn|forkserver|set_start_method)\b")


@rule("GPU911", severity=Severity.ERROR, bad=BAD, good=GOOD)
def fork_after_cuda_init(timeline: Timeline) -> Iterator[Finding]:
    calls = list(timeline.calls("process"))
    if not calls or _STARTS.search(timeline.source.text):
        return
    for call in calls:
        values = [a.value for a in call.arguments if a.name in ("args", "kwargs", "initargs")]
        if not any(_on_gpu(value) for value in values):
            continue
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} hands values on the GPU to a process that is "
            "forked by default. A CUDA context does not survive a fork: the child fails or hangs. "
            'Use `get_context("spawn")`.',
            Confidence.LIKELY,
            Severity.ERROR,
        )


def _on_gpu(value: Value) -> bool:
    if value.kind in (Kind.SEQUENCE, Kind.MAPPING):
        return any(_on_gpu(item) for item in value.items or (element_of(value),))
    sure = value.sure is not Confidence.POSSIBLE
    return value.kind in (Kind.TENSOR, Kind.MODULE) and value.device is Device.GPU and sure
