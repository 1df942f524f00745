"""Copies between host and device: which way, waiting or not, from which memory."""

from __future__ import annotations

import ast
from dataclasses import replace

from analyzers.dryrun import waits
from analyzers.dryrun.results import dtype_name
from analyzers.dryrun.run import Run
from analyzers.dryrun.scan import dotted
from analyzers.dryrun.state import Unfinished
from analyzers.dryrun.values import UNKNOWN, Device, Kind, Value, place_of
from analyzers.dryrun.work import enqueue
from analyzers.finding import Confidence
from analyzers.timeline import Call, Copy, Direction, Reason


def moved(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    """The result of a call that moves or uploads its operand."""
    operand = call.receiver if call.receiver is not None else _first(call)
    if call.fact.upload and not call.fact.moves:
        return _uploaded(run, node, call, operand, result)
    target, sure = _target(run, call)
    if target is None:  # .to(dtype), .to(memory_format=…): nothing moves
        dtype = next((d for a in call.arguments if (d := dtype_name(a.value))), "")
        return replace(
            operand, dtype=dtype or operand.dtype, made_by=None, fresh=False, ident=run.new_ident()
        )
    if operand.kind in (Kind.MODULE, Kind.OPTIMIZER, Kind.INSTANCE):
        return _module(run, node, operand, target, sure)
    if operand.kind in (Kind.MAPPING, Kind.SEQUENCE):
        element = operand.element or UNKNOWN
        return replace(operand, items=None, element=replace(element, device=target, sure=sure))
    return _tensor(run, node, call, operand, result, target, sure)


def _first(call: Call) -> Value:
    return call.arguments[0].value if call.arguments else UNKNOWN


def _target(run: Run, call: Call) -> tuple[Device | None, Confidence]:
    fixed = {"gpu": Device.GPU, "host": Device.HOST}.get(call.fact.moves)
    if fixed is not None:
        return fixed, Confidence.CERTAIN
    for argument in call.arguments:
        value = argument.value
        if argument.name not in ("device", "other", "type", "") or value.kind is Kind.NONE:
            continue
        typed = _place_of_type(run, value)
        if typed is not None:
            return typed, Confidence.CERTAIN
        if value.kind is Kind.LIBRARY or (value.kind is Kind.TEXT and not value.known):
            continue  # a dtype
        device, sure = place_of(value)
        if device is not Device.UNKNOWN:
            return device, sure
        if value.kind in (Kind.PLACE, Kind.TENSOR):
            return Device.UNKNOWN, Confidence.POSSIBLE
        if argument.keyword and argument.name == "device":
            return Device.GPU, run.for_gpu.weaker(Confidence.LIKELY)
    return None, Confidence.POSSIBLE


def _place_of_type(run: Run, value: Value) -> Device | None:
    """A class of tensors names the place of its instances, as a value or as text."""
    name = value.ref if value.kind is Kind.LIBRARY else value.constant
    fact = run.facts.find(name) if isinstance(name, str) and "." in name else None
    if fact is None or fact.name != name or not fact.upload or fact.parameters:
        return None
    return {"host": Device.HOST, "gpu": Device.GPU}.get(fact.device)


def _module(run: Run, node: ast.Call, operand: Value, target: Device, sure: Confidence) -> Value:
    """A network moves in place; the name it was called through is moved too."""
    result = replace(operand, device=target, sure=operand.sure.weaker(sure))
    if isinstance(node.func, ast.Attribute):
        name = dotted(node.func.value)
        if name and name in run.state.names:
            run.state.names[name] = result
    return result


def _tensor(
    run: Run,
    node: ast.Call,
    call: Call,
    operand: Value,
    result: Value,
    target: Device,
    sure: Confidence,
) -> Value:
    dtype = next((d for a in call.arguments if (d := dtype_name(a.value))), "") or operand.dtype
    if operand.device is target and target is not Device.UNKNOWN:
        # Already there. A value that was only likely to be there is there now.
        surer = operand.sure if operand.sure.rank < sure.rank else sure
        return replace(operand, dtype=dtype, sure=surer, made_by=None)
    made = Value(
        Kind.TENSOR,
        type=operand.type or result.type or run.tensor_class,
        device=target,
        sure=sure,
        ident=run.new_ident(),
        scalar=operand.scalar,
        flat=operand.flat,
        graph=operand.graph and call.fact.graph != "cut",
        dtype=dtype,
        made_by=call,
    )
    if result.type and result.type != operand.type and result.kind is Kind.TENSOR:
        made = replace(made, type=result.type)
    if target is Device.GPU:
        _to_device(run, node, call, operand, made)
    elif target is Device.HOST and operand.kind in (Kind.TENSOR, Kind.UNKNOWN):
        made = _to_host(run, node, call, operand, made)
    return made


def asynchronous(call: Call) -> bool:
    """Whether the call asks not to wait."""
    word = call.fact.async_by
    if not word:
        return False
    argument = call.argument(word.lstrip("!"))
    if argument is None:
        return False
    given = argument.value.constant
    if word.startswith("!"):
        return given is False
    if argument.value.kind is Kind.STREAM:
        return True
    return given is not False and argument.value.kind is not Kind.NONE and given != 0


def stream_of(run: Run, call: Call) -> str | None:
    """The stream the work is enqueued on; None for the current one."""
    if call.fact.stream == "argument":
        argument = call.argument("stream")
        if argument is not None and isinstance(argument.value.ref, str):
            return argument.value.ref
        if call.receiver is not None and call.receiver.kind is Kind.STREAM:
            ref = call.receiver.ref
            return ref if isinstance(ref, str) else None
        return ""
    return "" if call.fact.stream == "default" else None


def _to_device(run: Run, node: ast.Call, call: Call, source: Value, made: Value) -> None:
    if source.device is Device.GPU:
        return
    blocking = not asynchronous(call)
    copy = Copy(call.place, Direction.TO_DEVICE, source, made, call, blocking)
    run.emit(copy)
    stream = stream_of(run, call)
    name = run.stream_name if stream is None else stream
    enqueue(run, node, (), made, call, stream=name)
    if blocking:
        waits.wait(run, Reason.UPLOAD, made, node, call)
    elif source.pinned is not False and source.ident and run.tracks_streams:
        operation = run.state.order.enqueue(name)
        run.state.to_device[source.ident] = Unfinished(copy, operation)


def _to_host(run: Run, node: ast.Call, call: Call, source: Value, made: Value) -> Value:
    if source.device is Device.HOST:
        return made
    blocking = not asynchronous(call)
    destination = call.argument(call.fact.into) if call.fact.into else None
    copy = Copy(
        call.place,
        Direction.TO_HOST,
        source,
        made,
        call,
        blocking,
        destination.value if destination is not None else None,
    )
    run.emit(copy)
    if destination is not None and destination.value.ident:
        made = replace(made, ident=destination.value.ident, pinned=destination.value.pinned)
    made = replace(made, fetched=copy)
    if blocking:
        waits.wait(run, Reason.COPY, source, node, call)
        return made
    stream = stream_of(run, call)
    name = run.stream_name if stream is None else stream
    enqueue(run, node, (source,), replace(made, ident=0), call, stream=name)
    lands_pinned = destination is None or destination.value.pinned is not False
    if source.on_gpu and run.tracks_streams and lands_pinned:
        operation = run.state.order.enqueue(name)
        run.state.to_host[made.ident] = Unfinished(copy, operation)
    return made


def _uploaded(run: Run, node: ast.Call, call: Call, operand: Value, result: Value) -> Value:
    """torch.tensor(data, device=…), cuda.to_device(array), cp.asarray(array)."""
    if result.device is not Device.GPU or operand.on_gpu:
        return result
    blocking = not asynchronous(call)
    copy = Copy(call.place, Direction.TO_DEVICE, operand, result, call, blocking)
    run.emit(copy)
    stream = stream_of(run, call)
    name = run.stream_name if stream is None else stream
    enqueue(run, node, (), result, call, stream=name)
    if blocking and call.fact.waits:
        waits.wait(run, Reason.UPLOAD, result, node, call)
    elif not blocking and operand.pinned is True and operand.ident and run.tracks_streams:
        run.state.to_device[operand.ident] = Unfinished(copy, run.state.order.enqueue(name))
    return result
