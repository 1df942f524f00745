"""Applies a fact to a call: the result, the copies, the waits, the device work."""

from __future__ import annotations

import ast

from analyzers.dryrun import effects, moves, sidework, waits
from analyzers.dryrun.parameters import batch, from_name, tensor
from analyzers.dryrun.results import pinned_by, result_of
from analyzers.dryrun.run import Run
from analyzers.dryrun.values import UNKNOWN, Device, Kind, Value
from analyzers.dryrun.work import (
    device_of_inputs,
    enqueue,
    host_reads,
    host_writes,
    parts,
)
from analyzers.finding import Confidence, Span
from analyzers.knowledge import Fact
from analyzers.records import replace
from analyzers.timeline import Argument, Call, Called, MetadataRead, Reason

_REASONS = {
    "condition": Reason.CONDITION,
    "scalar": Reason.SCALAR,
    "copy": Reason.COPY,
    "shape": Reason.SHAPE,
    "format": Reason.FORMAT,
    "upload": Reason.UPLOAD,
}
_EXPLICIT = {"device": Reason.DEVICE, "stream": Reason.STREAM, "event": Reason.EVENT}


def read_property(run: Run, fact: Fact, base: Value, node: ast.Attribute) -> Value:
    """An attribute of a library's object: metadata, a view, a place."""
    if fact.kind == "place" or (fact.gives and _is_place(run, fact.gives)):
        if base.device is Device.UNKNOWN and base.kind is Kind.MODULE:
            return from_name(run, node.attr)  # the base class sets it
        return Value(Kind.PLACE, type=fact.gives, device=base.device, sure=base.sure)
    if not fact.metadata and not fact.view and base.device is Device.HOST:
        host_reads(run, base, node)
    if fact.metadata and base.fetched is not None:
        run.emit(MetadataRead(run.place(node), base, run.span(node.value), node.attr))
    return counted(run, fact, node.attr, base, result_of(run, fact, base, ()))


def counted(run: Run, fact: Fact, name: str, base: Value, number: Value) -> Value:
    """A number, with what it counts where its fact or its name tells."""
    if number.kind is not Kind.NUMBER:
        return number
    if fact.bytes:
        return replace(number, bytes=True)
    names = run.facts.names
    if name in names.get("element_widths", ()):
        return replace(number, unit="width")
    narrow = base.dtype.endswith("int8") or base.dtype.startswith(("bool", "float8", "byte"))
    if name in names.get("element_counts", ()) and not narrow:
        return replace(number, unit="elements")
    return number


def _is_place(run: Run, name: str) -> bool:
    fact = run.facts.find(name)
    return fact is not None and fact.kind in ("place", "device")


def known_call(
    run: Run,
    node: ast.Call,
    fact: Fact,
    name: str,
    receiver: Value | None,
    given: tuple[Argument, ...],
    method: str = "",
) -> Value:
    """A call of an API that has a fact."""
    arguments = _named(fact, given)
    result = result_of(run, fact, receiver, arguments)
    call = _call_event(run, node, fact, name, receiver, arguments, result, method)
    operands = _operands(receiver, arguments)
    if fact.moves or fact.upload:
        result = moves.moved(run, node, call, result)
    if fact.waits:
        _wait(run, node, call, operands, result)
        result = moves.listed(call, result)
    if fact.fresh and fact.filled and fact.device == "argument":
        _numbers(run, node, call)
    if not fact.metadata and run.tracks_streams:
        _touch_host(run, node, fact, call, operands)
    if fact.work and not fact.moves:
        _work(run, node, call, operands, result)
    if result.kind is Kind.LOADER and fact.kind == "loader":
        result = _loader(run, call, result)
    if not arguments or fact.bytes:
        result = counted(run, fact, call.method, receiver or UNKNOWN, result)
    changed = effects.effect(run, node, call, result)
    result = changed if changed is not None else result
    if result.kind in (Kind.TENSOR, Kind.LOADER, Kind.MODULE, Kind.EVENT, Kind.KERNEL) or (
        fact.effect in ("ceil_division", "dataset", "raw_module")
    ):
        result = replace(result, made_by=call)
    if run.streams:
        sidework.noted(run, node, call, result)
    if _worth_recording(fact, operands, result):
        run.emit(Called(call.place, call))
    return result


def _loader(run: Run, call: Call, result: Value) -> Value:
    """A loader, and the host batches it hands out: pinned when it was told so."""
    pinned = pinned_by(call.fact, None, call.arguments)
    handed = replace(batch(run, pinned), made_by=call)
    return replace(result, pinned=pinned, element=handed)


def _worth_recording(fact: Fact, operands: list[Value], result: Value) -> bool:
    if fact.name.endswith(".*") and not fact.effect:
        return result.on_gpu or any(o.on_gpu for o in operands)
    return True


def _named(fact: Fact, given: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """Positional arguments get their parameters' names."""
    if not fact.parameters:
        return given
    names = iter(fact.parameters)
    named: list[Argument] = []
    for argument in given:
        if argument.keyword:
            named.append(argument)
        elif argument.star:
            names = iter(())
            named.append(argument)
        else:
            name = next(names, "")
            named.append(Argument(name, argument.span, argument.value) if name else argument)
    return tuple(named)


def _call_event(
    run: Run,
    node: ast.Call,
    fact: Fact,
    name: str,
    receiver: Value | None,
    arguments: tuple[Argument, ...],
    result: Value,
    method: str = "",
) -> Call:
    receiver_span: Span | None = None
    if receiver is not None and isinstance(node.func, ast.Attribute):
        receiver_span = run.span(node.func.value)
    place = run.place(node)
    return Call(
        place=place,
        name=name,
        fact=fact,
        span=place.span,
        callee=run.span(node.func),
        receiver=receiver,
        receiver_span=receiver_span,
        arguments=arguments,
        result=result,
        method=method or name.rpartition(".")[2],
        evaluating=run.state.evaluating,
    )


def _operands(receiver: Value | None, arguments: tuple[Argument, ...]) -> list[Value]:
    values = [a.value for a in arguments]
    return [receiver, *values] if receiver is not None else values


def _wait(run: Run, node: ast.Call, call: Call, operands: list[Value], result: Value) -> None:
    fact = call.fact
    if any(call.has(name) for name in fact.waits_unless):
        return
    if fact.waits_if and not any(_asks(call.argument(name)) for name in fact.waits_if):
        return
    explicit = _EXPLICIT.get(fact.waits)
    if explicit is not None:
        target = call.receiver or (call.arguments[0].value if call.arguments else UNKNOWN)
        waits.explicit(run, explicit, target, node, call)
        return
    if fact.moves or fact.upload:
        return  # moves.py knows whether anything moves
    reason = _REASONS.get(fact.waits)
    for value in operands if reason is not None else ():
        for part in parts(value):
            if _is_address(run, reason, part):
                return
            if part.kind is Kind.TENSOR and reason is not None and _depends(fact, part, operands):
                waits.wait(run, reason, part, node, call)
                if reason is not Reason.FORMAT:
                    return  # one wait covers all operands
    if reason is Reason.SCALAR and fact.device == "gpu" and call.receiver is not None:
        kept = replace(tensor(run, call.receiver.sure), device=Device.GPU, scalar=True)
        waits.wait(run, reason, kept, node, call)  # a number that the object keeps there


def _is_address(run: Run, reason: Reason | None, value: Value) -> bool:
    """int() of bare device memory gives its address, which the host knows."""
    if reason is not Reason.SCALAR or not value.type:
        return False
    own = run.facts.table.find(f"{value.type}.__int__")
    return own is not None and own.metadata


def _numbers(run: Run, node: ast.Call, call: Call) -> None:
    """A factory needs its sizes and bounds as numbers of the host."""
    if call.fact.default_device == "inputs":
        return  # made like another tensor
    for argument in call.arguments:
        if argument.value.on_gpu and argument.name not in ("out", "generator", "device"):
            waits.wait(run, Reason.SCALAR, argument.value, node, call)
            return


def _asks(argument: Argument | None) -> bool:
    """Whether the argument is True or a tensor, as far as is known."""
    if argument is None:
        return False
    value = argument.value
    return value.constant is True or value.kind is Kind.TENSOR


def _depends(fact: Fact, part: Value, operands: list[Value]) -> bool:
    """A host operand does not make the call wait while another is on the device."""
    return part.device is not Device.HOST or not any(o.on_gpu for o in operands)


def _touch_host(run: Run, node: ast.Call, fact: Fact, call: Call, operands: list[Value]) -> None:
    """The call reads or writes host memory that a copy may still be using."""
    state = run.state
    if fact.inplace and call.receiver is not None and state.to_device:
        host_writes(run, call.receiver, node)
    output = call.argument("out") if state.to_device else None
    if output is not None:
        host_writes(run, output.value, node)
    if not state.to_host or fact.effect in effects.KEEPS_ALIVE or fact.moves:
        return
    given = call.argument(fact.into) if fact.into else None
    written = given.value.ident if given is not None else 0
    for value in operands:
        for part in parts(value):
            if part.device is Device.HOST and not fact.view and part.ident != written:
                host_reads(run, part, node)


def _work(run: Run, node: ast.Call, call: Call, operands: list[Value], result: Value) -> None:
    target = call.receiver if call.fact.inplace and call.receiver is not None else result
    tensors = [p for o in operands for p in parts(o) if p.kind is Kind.TENSOR]
    if target.device is Device.GPU and (
        target.kind is Kind.TENSOR or any(t.on_gpu for t in tensors)
    ):
        enqueue(run, node, tensors, target, call, stream=moves.stream_of(run, call))
    elif any(t.on_gpu for t in tensors):
        enqueue(run, node, tensors, replace(target, sure=Confidence.LIKELY), call)


def forward(run: Run, node: ast.Call, module: Value, given: tuple[Argument, ...]) -> Value:
    """A network, criterion or moved object of unknown class is called."""
    device, sure = device_of_inputs(a.value for a in given)
    if module.device is Device.GPU:
        device, sure = Device.GPU, module.sure
    elif device is not Device.GPU:
        device, sure = Device.GPU, run.for_gpu
        if module.device is Device.HOST:
            device = Device.HOST
    result = Value(
        Kind.TENSOR,
        type=run.tensor_class,
        device=device,
        sure=sure.weaker(module.sure),
        ident=run.new_ident(),
        scalar=module.scalar,
        graph=run.state.grad,
    )
    fact = run.facts.find(module.type) if module.type else None
    call = _call_event(
        run, node, fact or Fact(name="call"), f"{module.type}.__call__", module, given, result
    )
    if device is Device.GPU:
        enqueue(run, node, [p for a in given for p in parts(a.value)], result, call)
    run.emit(Called(call.place, call))
    return replace(result, made_by=call)
