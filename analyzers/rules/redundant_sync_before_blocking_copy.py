"""A wait right before a copy that waits anyway.

## What it does
Finds an explicit synchronisation whose next statement copies from the device and waits:
`.cpu()`, `.item()`, `.tolist()`, `cp.asnumpy`, `copy_to_host()`.

## Why it matters
The copy enqueues itself behind the work and waits for it. The wait before it adds a call to the
driver and waits for other streams too, which the copy would not.

## Example
Delete the synchronisation.

## Fix safety
Safe when everything in the function runs on the library's current stream: no other stream, no
kernel of another library, no call that isn't known, no clock. Else the first wait may be what
orders another stream's work before the copy.

## When to ignore
When the call is there to bring errors to light at a known line.

## References
- PyTorch source, Copy.cu: a blocking copy is a copy and a wait for its stream
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Fix, Related, Safety, Severity
from analyzers.fixes import delete_statement
from analyzers.judging import measured, shown
from analyzers.places import Guard, Place
from analyzers.rule import Bad, rule
from analyzers.synchronizing import foreign_work, next_event
from analyzers.timeline import Reason, Timeline, Wait
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import torch

        def product(a, b):
            z = torch.matmul(a.cuda(), b.cuda())
            torch.cuda.synchronize()  # <-
            return z.cpu()
        """,
        fixed="""
        import torch

        def product(a, b):
            z = torch.matmul(a.cuda(), b.cuda())
            return z.cpu()
        """,
    ),
    Bad(
        """
        import cupy as cp

        def spectrum(signal):
            found = cp.fft.fft(cp.asarray(signal))
            cp.cuda.Stream.null.synchronize()  # <-
            return cp.asnumpy(found)
        """,
        fixed="""
        import cupy as cp

        def spectrum(signal):
            found = cp.fft.fft(cp.asarray(signal))
            return cp.asnumpy(found)
        """,
    ),
]
GOOD = [
    # A clock stands between the two.
    """
    import time

    import torch

    def timed(a, b):
        start = time.perf_counter()
        z = a.cuda() @ b.cuda()
        torch.cuda.synchronize()
        out = z.cpu()
        return out, time.perf_counter() - start
    """,
    # The copy does not wait: it needs the wait behind it.
    """
    import torch

    def fetch(a, b):
        z = (a.cuda() @ b.cuda()).to("cpu", non_blocking=True)
        torch.cuda.synchronize()
        return z.numpy()
    """,
    # Work on another stream: the copy would wait for the current one only.
    """
    import torch

    def fetch(a, side):
        a = a.cuda()
        with torch.cuda.stream(side):
            z = a * 2
        torch.cuda.synchronize()
        return z.cpu()
    """,
]


@rule("GPU102", severity=Severity.INFO, bad=BAD, good=GOOD)
def redundant_sync_before_blocking_copy(timeline: Timeline) -> Iterator[Finding]:
    for number, wait in enumerate(() if measures(timeline) else timeline.events):
        if not isinstance(wait, Wait) or wait.reason not in (Reason.DEVICE, Reason.STREAM):
            continue
        reading = next_event(timeline.events, number)
        if reading is None or wait.call is None or _has_a_reason(timeline, wait):
            continue
        assert isinstance(reading, Wait)
        if not reading.value.on_gpu or reading.reason not in (Reason.COPY, Reason.SCALAR):
            continue
        safe = _all_known(timeline, wait.place) and reading.value.sure is Confidence.CERTAIN
        sure = reading.value.sure if safe else Confidence.LIKELY.weaker(reading.value.sure)
        yield Finding(
            wait.place.span,
            f"{shown(timeline.text(wait.place.span))} waits for the GPU, and so does "
            f"{shown(timeline.text(reading.place.span))} right after it. "
            "The copy is enqueued behind the work and waits for it anyway. Delete the first wait.",
            sure,
            Severity.INFO,
            related=(Related(reading.place.span, "waits as well"),),
            fix=_fix(timeline, wait, safe),
        )


def _has_a_reason(timeline: Timeline, wait: Wait) -> bool:
    place = wait.place
    function = place.function
    if wait.pending or place.stream or measured(place):
        return True
    if function is None:  # a script's own statements: is a clock read among them?
        return any(call.place.function is None for call in timeline.calls("clock"))
    if function.ordering:
        return True
    flags = (Guard.FLAG, Guard.ERROR)
    test = bool(function.roles & {"test"})
    return test or any(g in flags for g in place.guards) or foreign_work(timeline, function)


def _all_known(timeline: Timeline, place: Place) -> bool:
    """Whether every call of the function is one whose stream is known."""
    function = place.function
    known = {call.method for call in timeline.calls() if call.place.function == function}
    return function is not None and function.calls <= known


def _fix(timeline: Timeline, wait: Wait, safe: bool) -> Fix | None:
    if wait.place.statement != wait.place.span:
        return None
    edit = delete_statement(timeline.source, wait.place.statement)
    if edit is None:
        return None
    condition = "Right when everything before it runs on the current stream."
    safety = Safety.SAFE if safe else Safety.UNSAFE
    return Fix("Delete the first wait", (edit,), safety, "" if safe else condition)
