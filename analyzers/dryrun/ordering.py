"""What calls do to the order of device work: streams, events, and who waits for whom."""

from __future__ import annotations

import ast

from analyzers.dryrun import sidework
from analyzers.dryrun.hazards import MADE, parts
from analyzers.dryrun.run import Run
from analyzers.dryrun.streams import ANY, Operation
from analyzers.dryrun.values import NONE, UNKNOWN, Kind, Value
from analyzers.dryrun.work import library_of
from analyzers.finding import Confidence
from analyzers.records import replace
from analyzers.timeline import Call, EarlyElapsed


def _first(call: Call) -> Value:
    return call.arguments[0].value if call.arguments else UNKNOWN


def new_stream(run: Run, call: Call, result: Value) -> Value:
    """A stream that is made here; one wrapped around a handle may be any other stream."""
    asks = call.argument(call.fact.async_by) if call.fact.async_by else None
    if asks is not None and asks.value.constant is True:
        run.blocking_streams.discard(name_of(result))
    if run.depth and not run.blocking_streams & {name_of(result)}:
        result = replace(result, ref=f"{MADE}{result.ident}")
    return replace(result, ref=ANY) if call.fact.effect == "handoff" else result


def name_of(stream: Value) -> str:
    """The name of a stream, ANY when it is not known which it is."""
    return stream.ref if stream.kind is Kind.STREAM and isinstance(stream.ref, str) else ANY


def _stream_of_call(run: Run, call: Call) -> str:
    """The stream that an argument names, else the current one."""
    argument = call.argument("stream") or (call.arguments[0] if call.arguments else None)
    if argument is None or argument.value.kind is Kind.NONE or argument.value.constant == 0:
        return run.stream_for(library_of(run, call, UNKNOWN))
    return name_of(argument.value)


def _waiter(run: Run, call: Call) -> str:
    """The stream that a method is called on; without one the current stream."""
    if call.receiver is not None:
        return name_of(call.receiver)
    return run.stream_for(library_of(run, call, UNKNOWN))


def wait_stream(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    """One stream waits for what another has now."""
    run.state.order.stream_waits(_waiter(run, call), name_of(_first(call)))


def record(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """An event marks what its stream has now."""
    event = call.receiver
    if event is not None and event.ident:
        operation = run.state.order.enqueue(_stream_of_call(run, call))
        run.state.recorded[event.ident] = operation
    return None


def stream_record(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    """A stream records an event, new or given."""
    event = _first(call)
    if event.kind is not Kind.EVENT:
        event = result if result.kind is Kind.EVENT else Value(Kind.EVENT, ident=run.new_ident())
    run.state.recorded[event.ident] = run.state.order.enqueue(_waiter(run, call))
    return event


def wait_event(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    """A stream waits for what an event marks."""
    receiver_waits = call.fact.effect == "wait_event"
    event = _first(call) if receiver_waits else call.receiver or UNKNOWN
    waiter = _waiter(run, call) if receiver_waits else _stream_of_call(run, call)
    order = run.state.order
    operation = run.state.recorded.get(event.ident)
    if not receiver_waits and operation is not None:
        _meant_for_host(run, operation)
    if event.kind is Kind.STREAM:
        order.stream_waits(waiter, name_of(event))
    elif operation is not None:
        order.stream_waits(waiter, operation.stream, operation.tick)
    else:
        order.stream_waits(waiter, ANY)


def _meant_for_host(run: Run, operation: Operation) -> None:
    """`event.wait()` holds a stream, not the host; who writes it has thought of the order."""
    for ident, unfinished in run.state.to_host.items():
        copied = unfinished.operation
        if copied.stream == operation.stream and copied.tick <= operation.tick:
            run.state.to_host[ident] = replace(unfinished, sure=Confidence.POSSIBLE)


def current_stream(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    """The current stream of a library, or its default one."""
    current = run.current_stream(library_of(run, call, result))
    if call.fact.effect == "current_stream" and current is not None:
        return current
    return replace(result, kind=Kind.STREAM, ref="", ident=0)


def bind_stream(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    """From here on the array uses that stream by itself: its order is no longer followed."""
    for part in parts(call.receiver or UNKNOWN):
        run.state.written.pop(part.ident, None)
        run.state.readers.pop(part.ident, None)


def told_allocator(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    """The allocator is told of a second stream that uses this memory."""
    for part in parts(call.receiver or UNKNOWN) if run.made_aside else ():
        sidework.told(run, node, call, part, name_of(_first(call)))
    idents = {p.ident for p in parts(call.receiver or UNKNOWN)}
    run.state.told |= idents
    for ident in idents:
        run.state.lent.pop(ident, None)
    return NONE


def elapsed(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    """The time between two events: both must have happened."""
    given = [(a.value, a.span) for a in call.arguments]
    if call.receiver is not None:
        given.append((call.receiver, call.receiver_span or call.span))
    state = run.state
    queued = [
        (operation.tick, span)
        for value, span in given
        if value.kind is Kind.EVENT
        and (operation := state.recorded.get(value.ident)) is not None
        and operation.stream != ANY
        # Behind nothing but finished work an event happens at once.
        and state.order.host.get(operation.stream, 0) < operation.tick - 1
    ]
    if queued and not call.fact.waits:
        run.emit(EarlyElapsed(call.place, call, max(queued)[1]))
