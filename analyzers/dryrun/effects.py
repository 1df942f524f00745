"""What calls do beside giving a value: streams, events, autograd, clocks, containers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from analyzers.dryrun import accumulate, iteration, moves, waits
from analyzers.dryrun.contexts import context
from analyzers.dryrun.run import Run
from analyzers.dryrun.scan import dotted
from analyzers.dryrun.state import Unfinished
from analyzers.dryrun.values import NONE, UNKNOWN, Device, Kind, Value, element_of, join
from analyzers.dryrun.work import enqueue, host_reads, host_writes, parts
from analyzers.timeline import Call, Copy, Direction, Reason

# Effects whose call does not read the data of its operands.
KEEPS_ALIVE = frozenset(
    {"append", "record_stream", "event_record", "stream_record", "wait_event", "clock", "copy_into"}
)

Effect = Callable[[Run, ast.Call, Call, Value], Value | None]


def effect(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """Carry out the effect of a call; a value when it changes what the call gives."""
    if call.fact.kind == "stream":
        return None  # its effect is that of a with-statement over the instance
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
        return context("grad_on" if recording else "no_grad")
    return context(call.fact.effect, first)


def _clock(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    return waits.reading(run, node)


def _append(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    name = _receiver_name(node)
    value = call.arguments[-1].value if call.arguments else UNKNOWN
    if call.method == "extend":
        value = element_of(value)
    if name and node.args:
        accumulate.appended(run, name, value, node.args[-1], node)
        before = (
            run.lookup(name)
            if "." not in name
            else run.state.names.get(name, call.receiver or UNKNOWN)
        )
        element = before.element if before.items in (None, ()) else element_of(before)
        joined = value if element is None else join(element, value)
        run.bind(name, Value(Kind.SEQUENCE, type=before.type, element=replace(joined, fresh=False)))
    return NONE


def _stream_of_call(run: Run, call: Call) -> str:
    """The stream that an argument names, else the current one."""
    argument = call.argument("stream") or (call.arguments[0] if call.arguments else None)
    if argument is not None and isinstance(argument.value.ref, str):
        return argument.value.ref
    return run.stream_name


def _name_of(value: Value | None, fallback: str) -> str:
    return value.ref if value is not None and isinstance(value.ref, str) else fallback


def _wait_stream(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    waiter = _name_of(call.receiver, run.stream_name)
    other = _first(call)
    order = run.state.order
    if isinstance(other.ref, str):
        order.stream_waits(waiter, other.ref)
    else:  # an unknown stream: believe that it is the right one
        for name in list(order.ticks):
            order.stream_waits(waiter, name)
    if not isinstance(getattr(call.receiver, "ref", None), str):
        for name in [*order.ticks, ""]:
            order.stream_waits(name, _name_of(other, ""))


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
    operation = run.state.order.enqueue(_name_of(call.receiver, run.stream_name))
    run.state.recorded[event.ident] = operation
    return event


def _wait_event(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    receiver_waits = call.fact.effect == "wait_event"
    event = _first(call) if receiver_waits else call.receiver or UNKNOWN
    waiter = _name_of(call.receiver, "") if receiver_waits else _stream_of_call(run, call)
    order = run.state.order
    operation = run.state.recorded.get(event.ident)
    if operation is not None:
        order.stream_waits(waiter, operation.stream, operation.tick)
    else:
        for name in list(order.ticks):
            order.stream_waits(waiter, name)


def _current_stream(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    if call.fact.effect == "current_stream" and run.streams:
        return run.streams[-1]
    return replace(result, kind=Kind.STREAM, ref="", ident=0)


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
    """`destination.copy_(source, non_blocking=…)`."""
    destination, source = call.receiver or UNKNOWN, _first(call)
    blocking = not moves.asynchronous(call)
    if destination.on_gpu and source.device is Device.HOST:
        _upload_into(run, node, call, destination, source, blocking)
    elif destination.device is Device.HOST and source.on_gpu:
        _download_into(run, node, call, destination, source, blocking)
    elif destination.on_gpu:
        enqueue(run, node, (source,), destination, call)
    else:
        host_reads(run, source, node)
        host_writes(run, destination, node)
    name = _receiver_name(node)
    if destination.fresh and name:
        run.bind(name, replace(destination, fresh=False))
    return replace(destination, fresh=False)


def _upload_into(
    run: Run, node: ast.Call, call: Call, destination: Value, source: Value, blocking: bool
) -> None:
    copy = Copy(call.place, Direction.TO_DEVICE, source, destination, call, blocking, destination)
    run.emit(copy)
    enqueue(run, node, (), destination, call)
    if blocking:
        waits.wait(run, Reason.UPLOAD, destination, node, call)
    elif source.pinned is True and source.ident and run.tracks_streams:
        operation = run.state.order.enqueue(run.stream_name)
        run.state.to_device[source.ident] = Unfinished(copy, operation)


def _download_into(
    run: Run, node: ast.Call, call: Call, destination: Value, source: Value, blocking: bool
) -> None:
    copy = Copy(call.place, Direction.TO_HOST, source, destination, call, blocking, destination)
    run.emit(copy)
    if blocking:
        waits.wait(run, Reason.COPY, source, node, call)
        return
    enqueue(run, node, (source,), replace(destination, ident=0), call)
    if destination.ident and destination.pinned is True and run.tracks_streams:
        operation = run.state.order.enqueue(run.stream_name)
        run.state.to_host[destination.ident] = Unfinished(copy, operation)


def _handoff(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    """Another library takes over: what it does to the order is not known, so believe it."""
    for argument in call.arguments:
        for part in parts(argument.value):
            run.state.to_host.pop(part.ident, None)
            run.state.to_device.pop(part.ident, None)


def _kernel_decorator(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    return Value(Kind.KERNEL, ref=call.name)


def _set_stream(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    stream = _first(call)
    if stream.kind is Kind.STREAM:
        run.streams = (*run.streams, stream)


def _set_device(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    run.guarded_device = True


_EFFECTS: dict[str, Effect] = {
    "append": _append,
    "autocast": _context,
    "backward": _backward,
    "capture": _context,
    "clock": _clock,
    "copy_into": _copy_into,
    "current_stream": _current_stream,
    "default_stream": _current_stream,
    "device_guard": _context,
    "enumerate": iteration.enumerated,
    "eval_mode": _mode,
    "event_record": _record,
    "event_wait": _wait_event,
    "extremum": iteration.extremum,
    "grad_on": _context,
    "handoff": _handoff,
    "kernel_decorator": _kernel_decorator,
    "map": iteration.mapped,
    "no_grad": _context,
    "optimizer_step": _optimizer_step,
    "profiler": _context,
    "progress": iteration.progress,
    "range": iteration.counted,
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
