"""The time between two events is asked for before the second one has happened.

## What it does
Finds `elapsed_time`, `time_till` and `get_elapsed_time` with nothing that waits between recording
an event and asking for it.

## Why it matters
Recording only queues the event. Asked too early, PyTorch raises a RuntimeError, and the raw
libraries answer that the event is not ready; whether it happens depends on how fast the device is.

## Example
Wait for the second event first.

## Fix safety
Safe: the answer needs that wait anyway.

## When to ignore
When something that the analysis cannot see has waited.

## References
- PyTorch source, `CUDAEvent.h`: both events must be completed
- CUDA runtime, `cudaEventElapsedTime`: `cudaErrorNotReady`
"""

import re
from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import insert_before
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import EarlyElapsed, Timeline

BAD = [
    Bad(
        """
        import torch

        def measure(model, images):
            start = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            start.record()
            model(images)
            end.record()
            return start.elapsed_time(end)  # <-
        """,
        fixed="""
        import torch

        def measure(model, images):
            start = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            start.record()
            model(images)
            end.record()
            end.synchronize()
            return start.elapsed_time(end)
        """,
    ),
    Bad(
        """
        import cupy as cp

        def measure(x):
            start, end = cp.cuda.Event(), cp.cuda.Event()
            start.record()
            cp.sort(x)
            end.record()
            ms = cp.cuda.get_elapsed_time(start, end)  # <-
            return ms
        """,
        fixed="""
        import cupy as cp

        def measure(x):
            start, end = cp.cuda.Event(), cp.cuda.Event()
            start.record()
            cp.sort(x)
            end.record()
            end.synchronize()
            ms = cp.cuda.get_elapsed_time(start, end)
            return ms
        """,
    ),
]
GOOD = [
    """
    import torch

    def measure(model, images):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        model(images)
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)
    """,
    # A read of the result on the same stream waits for the event too.
    """
    import torch

    def measure(model, images):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        best = model(images.cuda()).argmax()
        end.record()
        print(best.item())
        return start.elapsed_time(end)
    """,
]

_PATH = re.compile(r"[A-Za-z_][\w.]*\Z")


@rule("GPU404", severity=Severity.ERROR, bad=BAD, good=GOOD)
def elapsed_time_before_completion(timeline: Timeline) -> Iterator[Finding]:
    for early in timeline.of(EarlyElapsed):
        yield Finding(
            early.place.span,
            f"{shown(timeline.text(early.place.span))} asks for a time before its event has "
            "happened. Recording only queues it, so the call fails as long as the device is busy. "
            "Synchronise the event first.",
            Confidence.LIKELY,
            Severity.ERROR,
            fix=_fix(timeline, early),
        )


def _fix(timeline: Timeline, early: EarlyElapsed) -> Fix | None:
    name = timeline.text(early.event) if early.event is not None else ""
    if not _PATH.match(name):
        return None
    line = f"{name}.synchronize()"
    edit = insert_before(timeline.source, early.place.statement, line)
    return Fix(f"Insert `{line}`", (edit,), Safety.SAFE) if edit is not None else None
