"""Copies between host and device: which way, waiting or not, from which memory."""

from __future__ import annotations

import ast

from analyzers.dryrun import ordering, waits
from analyzers.dryrun.results import dtype_name
from analyzers.dryrun.run import Run
from analyzers.dryrun.state import Unfinished
from analyzers.dryrun.syntax import dotted
from analyzers.dryrun.targets import perhaps_sent, target_of
from analyzers.dryrun.values import HOST_MEMORY, UNKNOWN, Device, Kind, Value, constant, place_of
from analyzers.dryrun.work import enqueue, host_reads, host_writes, library_of
from analyzers.finding import Confidence
from analyzers.records import replace
from analyzers.timeline import Call, Copy, Direction, Reason

_KNOWN = (Device.HOST, Device.GPU)


def moved(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    """The result of a call that moves or uploads its operand."""
    operand = call.receiver if call.receiver is not None else _first(call)
    if call.fact.upload and not call.fact.moves:
        return _uploaded(run, node, call, operand, result)
    target, sure = target_of(run, call)
    sent = None if target in _KNOWN else perhaps_sent(run, node, call, operand)
    if sent is not None:
        return sent
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


def _module(run: Run, node: ast.Call, operand: Value, target: Device, sure: Confidence) -> Value:
    """A network moves in place; the name it was called through is moved too."""
    result = replace(operand, device=target, sure=operand.sure.weaker(sure))
    if operand.kind is Kind.INSTANCE and operand.ref is None and not operand.type:
        result = replace(result, kind=Kind.MODULE, type=run.class_of(Kind.MODULE))
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
    guessed = operand.sure is not Confidence.CERTAIN and operand.made_by is None
    if guessed and asynchronous(call):
        # Only guessed to be there already; who asks for a copy that does not wait knows better.
        operand = replace(operand, device=Device.UNKNOWN)
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
    if not word or word == "always":
        return bool(word)
    argument = call.argument(word.lstrip("!"))
    if argument is None:
        return False
    given = argument.value.constant
    if word.startswith("!"):
        return given is False
    if argument.value.kind is Kind.STREAM:
        return True
    return given is not False and argument.value.kind is not Kind.NONE and given != 0


def _plainly(call: Call) -> Confidence | None:
    """How sure it is that the call does not wait; None where a variable decides it."""
    word = call.fact.async_by
    argument = call.argument(word.lstrip("!"))
    if not asynchronous(call):
        return None
    if word == "always" or argument is None or argument.value.known:
        return Confidence.CERTAIN
    if argument.value.kind is Kind.STREAM:
        return Confidence.CERTAIN if argument.value.ref else None
    return Confidence.POSSIBLE if call.fact.stream and word == "stream" else None


def stream_of(run: Run, call: Call) -> str | None:
    """The stream the work is enqueued on; None for the current one."""
    if call.fact.stream != "argument":
        return "" if call.fact.stream == "default" else None
    argument = call.argument("stream")
    if argument is not None and argument.value.kind is not Kind.NONE:
        return ordering.name_of(argument.value) if argument.value.constant != 0 else ""
    if call.receiver is not None and call.receiver.kind is Kind.STREAM:
        return ordering.name_of(call.receiver)
    return None


def _stream_name(run: Run, call: Call, value: Value) -> str:
    stream = stream_of(run, call)
    return run.stream_for(library_of(run, call, value)) if stream is None else stream


def _to_device(run: Run, node: ast.Call, call: Call, source: Value, made: Value) -> None:
    if source.device is Device.GPU:
        return
    blocking = not asynchronous(call)
    copy = Copy(call.place, Direction.TO_DEVICE, source, made, call, blocking)
    run.emit(copy)
    stream = _stream_name(run, call, made)
    enqueue(run, node, (), made, call, stream=stream)
    if blocking:
        waits.wait(run, Reason.UPLOAD, made, node, call, stream=stream)
    else:
        _reads_host(run, copy, stream)


def _reads_host(run: Run, copy: Copy, stream: str) -> None:
    """The copy engine reads host memory that is page-locked, for a while after the call."""
    source, plainly = copy.source, _plainly(copy.call)
    if plainly is None or source.pinned is False or not source.ident or not run.follows_order():
        return
    sure = plainly if source.pinned else Confidence.POSSIBLE
    operation = run.state.order.enqueue(stream)
    run.state.to_device[source.ident] = Unfinished(copy, operation, sure)


def _writes_host(run: Run, copy: Copy, ident: int, stream: str) -> None:
    """The copy engine writes host memory for a while after the call."""
    plainly, source, destination = _plainly(copy.call), copy.source, copy.destination
    if plainly is None or not ident or not run.follows_order():
        return
    named = [a.value.constant for a in copy.call.arguments if isinstance(a.value.constant, str)]
    if named and place_of(constant(named[0]))[0] is Device.HOST and named[0] not in HOST_MEMORY:
        return  # another kind of device than CUDA's
    if destination is None and copy.call.fact.async_by == "stream":
        return  # it makes pageable memory, which the driver fills before it returns
    if destination is not None and destination.pinned is not True:
        return
    if not (source.on_gpu and source.sure is Confidence.CERTAIN):
        plainly = plainly.weaker(Confidence.LIKELY)  # who asks for it expects a device value
    operation = run.state.order.enqueue(stream)
    run.state.to_host[ident] = Unfinished(copy, operation, plainly)


def _to_host(run: Run, node: ast.Call, call: Call, source: Value, made: Value) -> Value:
    if source.device is Device.HOST:
        return made
    blocking = not asynchronous(call)
    destination = call.argument(call.fact.into) if call.fact.into else None
    if destination is not None and destination.value.kind is Kind.NONE:
        destination = None
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
    stream = _stream_name(run, call, source)
    if blocking:
        waits.wait(run, Reason.COPY, source, node, call, stream=stream)
        return made
    enqueue(run, node, (source,), replace(made, ident=0), call, stream=stream)
    _writes_host(run, copy, made.ident, stream)
    return made


def listed(call: Call, result: Value) -> Value:
    """A list of the numbers of a device array remembers where they come from."""
    source = call.receiver
    if result.kind is not Kind.SEQUENCE or call.fact.waits != "copy" or source is None:
        return result
    if source.kind is not Kind.TENSOR or source.device is Device.HOST or source.scalar:
        return result
    copy = Copy(call.place, Direction.TO_HOST, source, result, call, blocking=True)
    return replace(result, fetched=copy)


def ends(call: Call) -> tuple[Value, Value]:
    """Destination and source of a copy between two existing arrays."""
    word = call.fact.into
    if word in ("", "receiver"):
        return call.receiver or UNKNOWN, _first(call)
    given = call.argument(word)
    others = [a.value for a in call.arguments if a.name != word]
    source = call.receiver or (others[0] if others else UNKNOWN)
    return (given.value if given is not None else UNKNOWN), source


def copied_into(run: Run, node: ast.Call, call: Call, destination: Value, source: Value) -> None:
    """`source` is copied over what `destination` holds."""
    blocking = not asynchronous(call)
    to_gpu, from_gpu = destination.device is Device.GPU, source.device is Device.GPU
    # Who asks not to wait for page-locked memory has it copied to the device.
    to_gpu |= destination.device is Device.UNKNOWN and source.pinned is True and not blocking
    if to_gpu and source.on_host and source.kind is Kind.TENSOR:
        copy = Copy(
            call.place, Direction.TO_DEVICE, source, destination, call, blocking, destination
        )
        run.emit(copy)
        stream = _stream_name(run, call, destination)
        enqueue(run, node, (), destination, call, stream=stream)
        if blocking:
            waits.wait(run, Reason.UPLOAD, destination, node, call, stream=stream)
        else:
            _reads_host(run, copy, stream)
    elif destination.device is Device.HOST and from_gpu:
        copy = Copy(call.place, Direction.TO_HOST, source, destination, call, blocking, destination)
        run.emit(copy)
        stream = _stream_name(run, call, source)
        if blocking:
            waits.wait(run, Reason.COPY, source, node, call, stream=stream)
        else:
            enqueue(run, node, (source,), replace(destination, ident=0), call, stream=stream)
            _writes_host(run, copy, destination.ident, stream)
    elif to_gpu:
        enqueue(run, node, (source,), destination, call, stream=stream_of(run, call))
    else:
        host_reads(run, source, node)
        host_writes(run, destination, node)


def _uploaded(run: Run, node: ast.Call, call: Call, operand: Value, result: Value) -> Value:
    """torch.tensor(data, device=…), cuda.to_device(array), cp.asarray(array)."""
    if result.device is not Device.GPU or operand.on_gpu:
        return result
    blocking = not asynchronous(call)
    copy = Copy(call.place, Direction.TO_DEVICE, operand, result, call, blocking)
    run.emit(copy)
    stream = _stream_name(run, call, result)
    enqueue(run, node, (), result, call, stream=stream)
    if blocking and call.fact.waits:
        waits.wait(run, Reason.UPLOAD, result, node, call, stream=stream)
    elif not blocking and operand.pinned is True:
        _reads_host(run, copy, stream)
    return result
