"""The moments at which the host waits for the device, and the clock around them."""

from __future__ import annotations

import ast

from analyzers.dryrun.run import Run
from analyzers.dryrun.state import Work
from analyzers.dryrun.values import NUMBER, Device, Kind, Value
from analyzers.finding import Confidence
from analyzers.places import Place
from analyzers.records import record, replace
from analyzers.timeline import Call, Elapsed, Reason, Wait

_READS_DATA = frozenset({Reason.SCALAR, Reason.CONDITION, Reason.FORMAT, Reason.COPY})


@record
class Reading:
    """A reading of a clock: what the device had been given, and what the host had waited for."""

    place: Place
    work: Work | None
    waited: int
    read_back: int


def wait(
    run: Run,
    reason: Reason,
    value: Value,
    node: ast.AST,
    call: Call | None = None,
    *,
    stream: str | None = None,
) -> None:
    """The host waits until `value` is there; nothing happens for values known to be on the host."""
    from analyzers.dryrun.hazards import reads
    from analyzers.dryrun.work import host_reads, library_of

    if reason in _READS_DATA:
        host_reads(run, value, node)
    if value.device is Device.HOST or value.kind in (Kind.TEXT, Kind.NUMBER, Kind.NONE):
        return
    place = call.place if call is not None else run.place(node)
    run.emit(Wait(place, reason, value, call))
    if reason is not Reason.UPLOAD or value.device is Device.GPU:
        run.state.waited = run.tick()
        if reason is not Reason.UPLOAD:
            run.state.read_back = run.state.waited
        library = library_of(run, call, value)
        name = run.stream_for(library) if stream is None else stream
        if run.tracks_streams and reason is not Reason.UPLOAD:
            reads(run, node, (value,), run.state.order.enqueue(name), library)
        if reason is not Reason.UPLOAD or not library:
            # Of libraries with streams of their own a copy that waits counts as work on the default
            # stream: whoever mixes it with another stream loses the overlap.
            run.state.order.host_waits(name)


def explicit(run: Run, reason: Reason, target: Value, node: ast.AST, call: Call | None) -> None:
    """The code asks to wait for a stream, an event or the whole device."""
    state = run.state
    place = call.place if call is not None else run.place(node)
    pending = state.side_work or any(
        not state.order.done(copy.operation)
        for copies in (state.to_host, state.to_device)
        for copy in copies.values()
    )
    run.emit(Wait(place, reason, target, call, pending))
    state.waited = state.read_back = run.tick()
    operation = state.recorded.get(target.ident) if reason is Reason.EVENT else None
    if operation is not None:
        state.order.host_waits(operation.stream, operation.tick)
    elif reason is Reason.STREAM and isinstance(target.ref, str):
        state.order.host_waits(target.ref)
    else:  # the device, or something that is not known well enough to say less
        state.order.host_waits()
    if not state.order.ticks or reason is Reason.DEVICE:
        state.side_work = False


def formatted(run: Run, value: Value, node: ast.AST) -> None:
    """`value` is turned into text."""
    if value.kind is Kind.TENSOR:
        wait(run, Reason.FORMAT, value, node)


def reading(run: Run, node: ast.AST) -> Value:
    """The value of a clock that is read here."""
    state = run.state
    taken = Reading(run.place(node), state.work, state.waited, state.read_back)
    return Value(Kind.CLOCK, device=Device.HOST, ref=taken)


def elapsed(run: Run, left: Value, right: Value, node: ast.AST) -> Value:
    """A duration: the later reading (`left`, or now) minus the earlier one (`right`)."""
    start: Reading = right.ref
    stop: Reading = left.ref if left.kind is Kind.CLOCK else reading(run, node).ref
    work = stop.work
    if _around_a_caller(run, start, stop):
        work = Work(start.place.order + 1, None, Confidence.POSSIBLE)
    if work is None or work.order <= start.place.order or not _one_timer(start, stop):
        return NUMBER
    before = start.work
    event = Elapsed(
        run.place(node),
        start=start.place.statement,
        start_place=start.place,
        stop_place=stop.place,
        work=work.call,
        sure=work.sure,
        waited=stop.waited > work.order,
        waited_between=stop.read_back > start.place.order,
        drained=before is None or start.waited > before.order,
        loops=work.loops[len(start.place.loops) :],
        uploaded=stop.waited > start.place.order,
    )
    site = run.site
    if run.recording:
        run.events.append(event)
    elif site is not None and start.place.order < site.order and work.order < site.order:
        run.events.append(replace(event, place=site, stop_place=site))
    return NUMBER


def forget_limits(run: Run, known: int, node: ast.Compare) -> None:
    """A duration that is only compared is a time limit, and measures nothing."""
    spans = {run.span(part) for part in (node.left, *node.comparators)}
    run.events[known:] = [
        event
        for event in run.events[known:]
        if not (isinstance(event, Elapsed) and event.place.span in spans)
    ]


def _around_a_caller(run: Run, start: Reading, stop: Reading) -> bool:
    """Whether a timer's two methods read the clock, and neither waits for what is timed."""
    one, other = start.place.function, stop.place.function
    if one is None or other is None or run.for_gpu is Confidence.POSSIBLE or not run.tensor_class:
        return False
    starts = run.facts.names.get("clock_starts", ())
    apart = one.class_name == other.class_name and one.name in starts and other.name not in starts
    return apart and not (start.waited or stop.waited or start.work or stop.work)


def _one_timer(start: Reading, stop: Reading) -> bool:
    """Whether the two readings stand in one function, or in two methods of one class."""
    one, other = start.place.function, stop.place.function
    if one is None or other is None:
        return one is other
    if one.qualname == other.qualname:
        return True
    return bool(one.class_name) and one.class_name == other.class_name
