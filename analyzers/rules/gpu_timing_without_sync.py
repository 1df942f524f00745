"""A clock is read while device work is still under way, so the launch is timed and not the work.

## What it does
Finds durations (two readings of a host clock, or a meter that keeps one of them) around device work
with nothing between that work and the second reading that waits for it.

## Why it matters
Launches return at once. The clock then measures how long Python needed to queue the work: often
ten to a hundred times less than the work takes, and the rest is billed to whatever waits next.

## Example
Wait for the device before both readings, or use events of the device.

## Fix safety
The inserted waits never change a result. In a benchmark they are what is missing; in a hot path
they cost the overlap of host and device on every call, so there events are the better way.

## When to ignore
When many steps are timed together and one step more or less does not matter.

## References
- PyTorch, "CUDA semantics", asynchronous execution: timing without synchronising is not accurate
- CuPy documentation, "Performance best practices"; JAX documentation, "Asynchronous dispatch"
"""

import re
from collections.abc import Iterator

from analyzers.finding import Confidence, Edit, Finding, Fix, Related, Safety, Severity
from analyzers.fixes import insert_before
from analyzers.judging import shown
from analyzers.places import Guard, LoopKind
from analyzers.rule import Bad, rule
from analyzers.timeline import Called, Elapsed, Timeline

BAD = [
    Bad(
        """
        import time
        import torch

        def latency(model, images):
            model = model.cuda()
            started = time.perf_counter()
            model(images.cuda(non_blocking=True))
            return time.perf_counter() - started  # <-
        """,
        fixed="""
        import time
        import torch

        def latency(model, images):
            model = model.cuda()
            started = time.perf_counter()
            model(images.cuda(non_blocking=True))
            torch.cuda.synchronize()
            return time.perf_counter() - started
        """,
    ),
    Bad(
        """
        import time
        import cupy as cp

        def time_sort(n, repeats):
            values = cp.random.rand(n)
            started = time.time()
            for _ in range(repeats):
                cp.sort(values)
            return (time.time() - started) / repeats  # <-
        """
    ),
    # The second reading is what comes too early, wherever the duration is computed.
    Bad(
        """
        import time
        import torch

        def validate(model, criterion, loader):
            model = model.cuda().eval()
            losses = []
            started = time.time()
            for x, y in loader:
                with torch.no_grad():
                    losses.append(criterion(model(x.cuda()), y.cuda()))
            ended = time.time()  # <-
            total = torch.stack(losses).mean().item()
            return total, len(losses) / (ended - started)
        """
    ),
    Bad(
        """
        import time
        import jax
        import jax.numpy as jnp

        def time_product(a, b):
            started = time.perf_counter()
            c = jnp.dot(a, b)
            seconds = time.perf_counter() - started  # <-
            return c, seconds
        """
    ),
]
GOOD = [
    # A helper whose name says that it fetches.
    """
    import time
    import torch
    from project.arrays import to_cpu_numpy

    def latency(model, images):
        model = model.cuda()
        started = time.perf_counter()
        to_cpu_numpy(model(images.cuda()))
        return time.perf_counter() - started
    """,
    """
    import time
    import torch

    def latency(model, images):
        model = model.cuda()
        torch.cuda.synchronize()
        started = time.perf_counter()
        model(images.cuda())
        torch.cuda.synchronize()
        return time.perf_counter() - started
    """,
    # Reading the result waits for it.
    """
    import time
    import torch

    def latency(model, images):
        model = model.cuda()
        started = time.perf_counter()
        best = model(images.cuda()).argmax().item()
        return best, time.perf_counter() - started
    """,
    # A helper whose name says that it waits.
    """
    import time
    import torch

    def latency(model, images, device):
        model = model.to(device)
        sync_device(device)
        started = time.perf_counter()
        model(images.to(device))
        sync_device(device)
        return time.perf_counter() - started
    """,
    # A limit, not a measurement.
    """
    import time
    import torch

    def sample(model, x, seconds):
        model = model.cuda()
        started = time.monotonic()
        x = x.cuda()
        while time.monotonic() - started < seconds:
            x = model(x)
        return x
    """,
    # Every step waits somewhere, so the sum over many steps is right.
    """
    import time
    import torch

    def train(model, loader, criterion, optimizer):
        model = model.cuda()
        started = time.time()
        for images, labels in loader:
            loss = criterion(model(images.cuda()), labels.cuda())
            print(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(time.time() - started)
    """,
]


@rule("GPU401", severity=Severity.WARNING, bad=BAD, good=GOOD)
def gpu_timing_without_sync(timeline: Timeline) -> Iterator[Finding]:
    for elapsed in timeline.of(Elapsed):
        sure, named = _confidence(elapsed), timeline.text(elapsed.place.statement)[:400]
        if sure is None or _HOST_ONLY.search(named):
            continue
        if _ELSE.search(named) or _over_many_steps(timeline, elapsed):
            sure = Confidence.POSSIBLE
        if "torch_xla" in timeline.imports:
            sure = Confidence.POSSIBLE
        work = elapsed.work
        what = shown(timeline.text(work.span)) if work is not None else "device work"
        verb = "may only have" if sure is Confidence.POSSIBLE else "has only"
        related = Related(elapsed.start, "the clock is read first here")
        apart = elapsed.stop_place.statement != elapsed.place.statement
        yield Finding(
            elapsed.stop_place.span if apart else elapsed.place.span,
            f"The clock is read while {what} {verb} been queued. "
            "That times the launch, and the work itself is billed to whatever waits next. "
            "Wait for the device before both readings, or use events.",
            sure,
            Severity.WARNING,
            related=(related,),
            fix=_fix(timeline, elapsed),
        )


def _confidence(elapsed: Elapsed) -> Confidence | None:
    kinds = {loop.kind for loop in elapsed.loops}
    if elapsed.waited or LoopKind.EPOCHS in kinds or Guard.INTERVAL in elapsed.place.guards:
        return None
    if "profiler" in elapsed.place.contexts or "capture" in elapsed.place.contexts:
        return None
    carried = _carried(elapsed)
    if elapsed.waited_between:
        return None if kinds or (carried and not elapsed.drained) else Confidence.POSSIBLE
    if LoopKind.DATA in kinds or (carried and not elapsed.drained):
        return Confidence.POSSIBLE  # the sum over many steps is nearly right
    if elapsed.stop_place.in_loop and elapsed.uploaded and not elapsed.drained:
        return Confidence.POSSIBLE  # each upload waits for the step before: right on average
    work = elapsed.work.fact if elapsed.work is not None else None
    if work is not None and work.moves and not kinds:
        return Confidence.POSSIBLE  # perhaps it is the loading that is timed
    if work is not None and work.effect == "reads_back":
        return Confidence.POSSIBLE  # it reads its own results to know when to stop
    return elapsed.sure.weaker(Confidence.LIKELY)


def _over_many_steps(timeline: Timeline, elapsed: Elapsed) -> bool:
    """Whether a whole pass over data lies between the readings: only its tail is missing."""
    stop = elapsed.stop_place
    return any(
        loop.kind is LoopKind.DATA and elapsed.start.line < loop.span.line < stop.span.line
        for event in timeline.of(Called)
        if event.place.function == stop.function
        for loop in event.place.loops
    )


# What a name says that times something else than the device, or so much that a step is nothing.
_ELSE = re.compile(
    r"data|load|compil|warm|host|launch|enqueue|dispatch|cpu|import|build|export|total|overall"
    r"|train_?(ing_?)?time|epoch|sav(e|ing)\b|wall",
    re.IGNORECASE,
)
_HOST_ONLY = re.compile(r"host|launch|enqueue|dispatch|cpu|overhead", re.IGNORECASE)


def _carried(elapsed: Elapsed) -> bool:
    """Whether the first reading was taken on the turn before."""
    start, stop = elapsed.start_place, elapsed.stop_place
    return bool(stop.loops) and start.block == stop.block and start.index > stop.index


def _fix(timeline: Timeline, elapsed: Elapsed) -> Fix | None:
    work = elapsed.work
    name = work.name if work is not None else ""
    if not name.startswith("torch.") or not _IMPORTS.search(timeline.source.text):
        return None
    stop = elapsed.stop_place.statement
    statements = [stop] if elapsed.drained else [elapsed.start, stop]
    edits: list[Edit] = []
    for statement in statements:
        edit = insert_before(timeline.source, statement, _WAIT)
        if edit is None:
            return None
        edits.append(edit)
    if "bench" in timeline.source.path.lower():
        return Fix(f"Insert `{_WAIT}`", tuple(edits), Safety.SAFE)
    condition = "Right for a measurement; on a hot path the wait costs its overlap on every call."
    return Fix(f"Insert `{_WAIT}`", tuple(edits), Safety.UNSAFE, condition)


_WAIT = "torch.cuda.synchronize()"
_IMPORTS = re.compile(r"^[ \t]*import torch[ \t]*$", re.MULTILINE)
