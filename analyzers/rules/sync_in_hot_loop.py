"""The host waits for the whole GPU again and again.

## What it does
Finds `torch.cuda.synchronize()` and its like in loops that feed the device and in functions that
run once per step, where nothing in sight needs the wait: no clock, no copy under way, no other
stream, no other library that takes over.

## Why it matters
The wait drains the launch queue. The GPU then idles for as long as Python needs to enqueue the
next work, and each turn begins with an empty queue.

## Example
Delete the call; later work on the same stream is in order anyway.

## Fix safety
What other code does with the data cannot all be seen: another library, another process or a
mapped buffer may rely on the wait. So the deletion states its condition.

## When to ignore
When the wait bounds how far the host runs ahead, or brings an error to light where it happens.

## References
- Nsight Systems, rule cuda_api_sync
- PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization"
"""

import re
from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import delete_statement
from analyzers.judging import applies, shown, when
from analyzers.places import Heat, LoopKind
from analyzers.rule import Bad, rule
from analyzers.synchronizing import next_event, on_purpose
from analyzers.timeline import Copy, Direction, Reason, Timeline, Wait
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import torch

        def train(model, loader, optimizer):
            model = model.cuda()
            for x in loader:
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
                torch.cuda.synchronize()  # <-
        """,
        fixed="""
        import torch

        def train(model, loader, optimizer):
            model = model.cuda()
            for x in loader:
                loss = model(x.cuda()).mean()
                loss.backward()
                optimizer.step()
        """,
    ),
    Bad(
        """
        import cupy as cp

        def diffuse(field, steps):
            field = cp.asarray(field)
            for _ in range(steps):
                field = field + cp.roll(field, 1)
                cp.cuda.Stream.null.synchronize()  # <-
            return field
        """,
        fixed="""
        import cupy as cp

        def diffuse(field, steps):
            field = cp.asarray(field)
            for _ in range(steps):
                field = field + cp.roll(field, 1)
            return field
        """,
    ),
    # Every step of a training waits for the sake of a clock.
    Bad(
        """
        import torch

        def train(model, loader, optimizer, times):
            model = model.cuda()
            for x in loader:
                started = torch.cuda.Event(enable_timing=True)
                ended = torch.cuda.Event(enable_timing=True)
                started.record()
                model(x.cuda()).mean().backward()
                optimizer.step()
                ended.record()
                torch.cuda.synchronize()  # <-
                times.append(started.elapsed_time(ended))
        """
    ),
    # Each copy is waited for before the next one starts.
    Bad(
        """
        import numpy as np
        from numba import cuda

        def fetch(parts):
            results = []
            streams = [cuda.stream() for _ in parts]
            for part, stream in zip(parts, streams):
                result = np.empty(part.size, np.float32)
                cuda.to_device(part, stream=stream).copy_to_host(result, stream=stream)
                stream.synchronize()  # <-
                results.append(result)
            return results
        """
    ),
]
GOOD = [
    # A clock is read: the wait is what is measured.
    """
    import time

    import torch

    def train(model, loader):
        model = model.cuda()
        for x in loader:
            start = time.perf_counter()
            model(x.cuda())
            torch.cuda.synchronize()
            print(time.perf_counter() - start)
    """,
    # Data is on its way to the host.
    """
    import torch

    def fetch(model, loader, host):
        model = model.cuda()
        for x in loader:
            host.copy_(model(x.cuda()), non_blocking=True)
            torch.cuda.synchronize()
            print(host.tolist())
    """,
    # Another library reads the device's memory.
    """
    import torch
    from mpi4py import MPI

    def exchange(model, loader):
        model = model.cuda()
        for x in loader:
            y = model(x.cuda())
            torch.cuda.synchronize()
            MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, y)
    """,
    # Behind a flag, and every so often.
    """
    import torch

    def train(model, loader, debug):
        model = model.cuda()
        for step, x in enumerate(loader):
            model(x.cuda())
            if debug or step % 100 == 0:
                torch.cuda.synchronize()
    """,
    # A helper whose purpose it is.
    """
    import torch

    def sync_all(devices):
        for device in devices:
            torch.cuda.synchronize(device)
    """,
]


@rule("GPU101", severity=Severity.WARNING, bad=BAD, good=GOOD)
def sync_in_hot_loop(timeline: Timeline) -> Iterator[Finding]:
    for number, wait in enumerate(() if measures(timeline) else timeline.events):
        if not isinstance(wait, Wait) or not wait.explicit or wait.call is None:
            continue
        if not applies(wait.place):
            continue
        if _behind_its_own_copy(timeline, wait):
            yield _one_by_one(timeline, wait)
            continue
        if on_purpose(timeline, wait):
            if _times_every_step(wait):
                yield _for_the_clock(timeline, wait)
            elif _before_side_work(timeline, wait):
                yield _for_a_stream(timeline, wait)
            continue
        if next_event(timeline.events, number) is not None:
            continue  # GPU102 speaks of it
        sure = _confidence(wait)
        yield Finding(
            wait.place.span,
            f"{shown(timeline.text(wait.place.span))} makes the host wait for all queued work, "
            f"{when(wait.place)}. The queue runs empty, and the GPU idles until the next launch. "
            "Later work is in order without it: wait only where the host reads a result.",
            sure,
            Severity.WARNING,
            fix=_fix(timeline, wait),
        )


def _times_every_step(wait: Wait) -> bool:
    """A loop that trains, and not a benchmark, drains the queue on each step to read a clock."""
    function, busy = wait.place.function, _busy(wait)
    if function is None or not function.reads_clock or not busy:
        return False
    return wait.reason is Reason.DEVICE and {"backward", "step"} <= function.calls


def _before_side_work(timeline: Timeline, wait: Wait) -> bool:
    """The device is waited for on each call, and then a side stream is given work."""
    place, function = wait.place, wait.place.function
    if wait.reason is not Reason.DEVICE or wait.pending or place.stream or not place.repeated:
        return False
    if function is None or function.reads_clock or _HOST_WAITS.search(function.name):
        return False
    return any(
        event.place.stream and event.place.function == function and event.place.order > place.order
        for event in timeline.events
    )


_HOST_WAITS = re.compile(r"sync|wait|capture|graph|save|close|exit|free|release|bench", re.I)


def _for_a_stream(timeline: Timeline, wait: Wait) -> Finding:
    return Finding(
        wait.place.span,
        f"{shown(timeline.text(wait.place.span))} makes the host wait for the whole device "
        f"{when(wait.place)}, and a side stream gets its work afterwards. If that order is all it "
        "is for, let the stream wait for the other one: the host runs on.",
        Confidence.POSSIBLE,
        Severity.WARNING,
    )


def _for_the_clock(timeline: Timeline, wait: Wait) -> Finding:
    return Finding(
        wait.place.span,
        f"{shown(timeline.text(wait.place.span))} makes the host wait for all queued work "
        f"{when(wait.place)}, which may be for the clock alone. The GPU idles until the next "
        "launch. Record events and read their times some steps later, or time every N steps.",
        Confidence.POSSIBLE,
        Severity.WARNING,
    )


def _behind_its_own_copy(timeline: Timeline, wait: Wait) -> bool:
    """Each turn starts a copy to the host and waits for it before the next turn starts its own."""
    place = wait.place
    if wait.reason is not Reason.STREAM or not place.in_loop:
        return False
    return any(
        copy.direction is Direction.TO_HOST
        and not copy.blocking
        and copy.place.block == place.block
        and copy.place.function == place.function
        and copy.place.index == place.index - 1
        for copy in timeline.of(Copy)
    )


def _one_by_one(timeline: Timeline, wait: Wait) -> Finding:
    return Finding(
        wait.place.span,
        f"{shown(timeline.text(wait.place.span))} waits for this turn's copy before the next turn "
        f"starts its own, {when(wait.place)}. The copies run one by one, whatever streams they "
        "are on. Start them all, then wait.",
        Confidence.LIKELY,
        Severity.WARNING,
    )


def _confidence(wait: Wait) -> Confidence:
    if wait.reason is Reason.EVENT or not _busy(wait) or wait.place.heat is Heat.UNKNOWN:
        return Confidence.POSSIBLE
    return Confidence.LIKELY


def _busy(wait: Wait) -> bool:
    loops = [loop for loop in wait.place.loops if loop.kind is not LoopKind.FEW]
    return bool(loops) and loops[-1].runs_work and loops[-1].kind is not LoopKind.EPOCHS


def _fix(timeline: Timeline, wait: Wait) -> Fix | None:
    if wait.place.statement != wait.place.span:
        return None
    edit = delete_statement(timeline.source, wait.place.statement)
    if edit is None:
        return None
    condition = "Right when no other stream, library or process reads device or mapped memory here."
    return Fix("Delete the wait", (edit,), Safety.UNSAFE, condition)
