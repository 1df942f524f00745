"""What calls do beside giving a value: streams, events, autograd, clocks, containers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from analyzers.dryrun import accumulate, iteration, launches, moves, waits
from analyzers.dryrun.contexts import context
from analyzers.dryrun.hazards import MADE
from analyzers.dryrun.run import Run
from analyzers.dryrun.scan import dotted
from analyzers.dryrun.streams import ANY, Operation
from analyzers.dryrun.values import NONE, UNKNOWN, Device, Kind, Value, element_of, join
from analyzers.dryrun.work import enqueue, library_of, parts
from analyzers.finding import Confidence
from analyzers.timeline import Call, EarlyElapsed

# Effects whose call does not read the data of its operands.
KEEPS_ALIVE = frozenset(
    {"append", "record_stream", "event_record", "stream_record", "wait_event", "clock", "copy_into"}
)


def _new_stream(run: Run, call: Call, result: Value) -> Value:
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


Effect = Callable[[Run, ast.Call, Call, Value], Value | None]


def effect(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """Carry out the effect of a call; a value when it changes what the call gives."""
    if call.fact.kind == "stream":  # its effect is that of a with-statement over the instance
        return _new_stream(run, call, result)
    handler = _EFFECTS.get(call.fact.effect)
    return handler(run, node, call, result) if handler is not None else None


def _first(call: Call) -> Value:
    return call.arguments[0].value if call.arguments else UNKNOWN


def _receiver_name(node: ast.Call) -> str:
    return dotted(node.func.value) if isinstance(node.func, ast.Attribute) else ""


def _context(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    # One call may be a context and a decorator; as a decorator roles.py reads its type.
    first = _first(call)
    if call.fact.effect == "no_grad" and first.kind is Kind.FUNCTION:
        return first
    if (
        call.fact.effect in ("no_grad", "grad_on")
        and first.constant in (True, False)
        and call.arguments
    ):
        recording = first.constant if call.fact.effect == "grad_on" else not first.constant
        return context("grad_on" if recording else "no_grad", first)
    return context(call.fact.effect, first)


def _clock(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    return waits.reading(run, node)


def _append(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    name = _receiver_name(node)
    value = call.arguments[-1].value if call.arguments else UNKNOWN
    if call.method == "extend":
        value = element_of(value)
    if not name:
        accumulate.kept(run, node, value)  # history["loss"].append(…)
    if name and node.args:
        accumulate.appended(run, name, value, node.args[-1], node)
        before = (
            run.lookup(name)
            if "." not in name
            else run.state.names.get(name, call.receiver or UNKNOWN)
        )
        element = before.element if before.items in (None, ()) else element_of(before)
        joined = value if element is None else join(element, value)
        joined = run.state.collected(joined, value, element)
        run.bind(name, Value(Kind.SEQUENCE, type=before.type, element=replace(joined, fresh=False)))
    return NONE


def _added_into(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    accumulate.added_into(run, _first(call), node)


def _round_down(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """`int(n / b)` is `n // b`."""
    derived = _first(call).ref
    if getattr(derived, "operator", "") == "/":
        return replace(result, ref=replace(derived, operator="//"))
    return None


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


def _wait_stream(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    run.state.order.stream_waits(_waiter(run, call), name_of(_first(call)))


def _record(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    event = call.receiver
    if event is not None and event.ident:
        operation = run.state.order.enqueue(_stream_of_call(run, call))
        run.state.recorded[event.ident] = operation
    return None


def _stream_record(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    event = _first(call)
    if event.kind is not Kind.EVENT:
        event = result if result.kind is Kind.EVENT else Value(Kind.EVENT, ident=run.new_ident())
    run.state.recorded[event.ident] = run.state.order.enqueue(_waiter(run, call))
    return event


def _wait_event(run: Run, node: ast.Call, call: Call, result: Value) -> None:
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


def _current_stream(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    current = run.current_stream(library_of(run, call, result))
    if call.fact.effect == "current_stream" and current is not None:
        return current
    return replace(result, kind=Kind.STREAM, ref="", ident=0)


def _bind_stream(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    """From here on the array uses that stream by itself: its order is no longer followed."""
    for part in parts(call.receiver or UNKNOWN):
        run.state.written.pop(part.ident, None)
        run.state.readers.pop(part.ident, None)


def _record_stream(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    """The allocator is told of a second stream that uses this memory."""
    idents = {p.ident for p in parts(call.receiver or UNKNOWN)}
    run.state.told |= idents
    for ident in idents:
        run.state.lent.pop(ident, None)
    return NONE


def _elapsed(run: Run, node: ast.Call, call: Call, result: Value) -> None:
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


def _backward(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    loss = call.receiver if call.receiver is not None else _first(call)
    target = loss if loss.device is Device.GPU else run.loss_value()
    enqueue(run, node, (), replace(target, ident=0), call)
    return NONE


def _optimizer_step(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    enqueue(run, node, (), replace(run.loss_value(), ident=0), call)
    return None


def _mode(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    first = _first(call)
    off = call.fact.effect == "eval_mode" or first.constant is False
    run.state.evaluating = off
    return call.receiver


def _copy_into(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """`destination.copy_(source, non_blocking=…)`, and functions that are given both."""
    destination, source = moves.ends(call)
    moves.copied_into(run, node, call, destination, source)
    name = _receiver_name(node)
    if destination is call.receiver and destination.fresh and name:
        run.bind(name, replace(destination, fresh=False))
    return replace(destination, fresh=False)


def _handoff(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    """Another library takes over: what it does to the order is not known, so believe it."""
    for argument in call.arguments:
        for part in parts(argument.value):
            run.state.to_host.pop(part.ident, None)
            run.state.to_device.pop(part.ident, None)
    run.state.order.host_waits()


def _kernel_decorator(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    return Value(Kind.KERNEL, ref=call.name)


def _set_stream(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    stream = _first(call)
    if stream.kind is Kind.STREAM:
        run.streams = (*run.streams, stream)


def _set_device(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    run.guarded_device = True


_EFFECTS: dict[str, Effect] = {
    "round_down": _round_down,
    "add_into": _added_into,
    "append": _append,
    "autocast": _context,
    "backward": _backward,
    "bind_stream": _bind_stream,
    "capture": _context,
    "clock": _clock,
    "copy_into": _copy_into,
    "current_stream": _current_stream,
    "default_stream": _current_stream,
    "device_guard": _context,
    "dimension": iteration.dimension,
    "elapsed": _elapsed,
    "enumerate": iteration.enumerated,
    "eval_mode": _mode,
    "event_record": _record,
    "event_wait": _wait_event,
    "extremum": iteration.extremum,
    "forall": launches.over_elements,
    "grad_on": _context,
    "handoff": _handoff,
    "kernel_decorator": _kernel_decorator,
    "map": iteration.mapped,
    "no_grad": _context,
    "optimizer_step": _optimizer_step,
    "profiler": _context,
    "progress": iteration.progress,
    "range": iteration.counted,
    "record_stream": _record_stream,
    "set_device": _set_device,
    "set_stream": _set_stream,
    "stream_context": _context,
    "stream_record": _stream_record,
    "total": iteration.totalled,
    "train_mode": _mode,
    "wait_event": _wait_event,
    "wait_stream": _wait_stream,
    "zip": iteration.zipped,
}
