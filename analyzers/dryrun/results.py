"""Builds the value that a call of a known API gives."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.dryrun.history import homemade
from analyzers.dryrun.run import Run
from analyzers.dryrun.values import (
    MAPPING,
    NONE,
    NUMBER,
    SEQUENCE,
    TEXT,
    UNKNOWN,
    Device,
    Kind,
    Value,
    element_of,
    place_of,
    weaken,
)
from analyzers.dryrun.work import device_of_inputs, fetched_from
from analyzers.finding import Confidence
from analyzers.knowledge import Fact
from analyzers.records import replace
from analyzers.timeline import Argument

KINDS = {
    "tensor": Kind.TENSOR, "module": Kind.MODULE, "stream": Kind.STREAM, "event": Kind.EVENT,
    "place": Kind.PLACE, "device": Kind.PLACE, "loader": Kind.LOADER,
    "optimizer": Kind.OPTIMIZER, "kernel": Kind.KERNEL, "text": Kind.TEXT,
}  # fmt: skip
_PLAIN = {
    "number": NUMBER, "text": TEXT, "list": SEQUENCE, "tuple": SEQUENCE, "mapping": MAPPING,
    "none": NONE, "function": Value(Kind.FUNCTION),
}  # fmt: skip


def instance_of(run: Run, fact: Fact) -> Value:
    """A value of the class that `fact` describes."""
    kind = KINDS.get(fact.kind, Kind.INSTANCE)
    device = {"host": Device.HOST, "gpu": Device.GPU}.get(fact.device, Device.UNKNOWN)
    ident = run.new_ident() if kind in (Kind.TENSOR, Kind.STREAM, Kind.EVENT) else 0
    if kind in (Kind.STREAM, Kind.EVENT):
        run.streams_met = True
    if kind is Kind.STREAM:
        name = f"stream {ident}"
        if fact.blocking:
            run.blocking_streams.add(name)
        return Value(kind, type=fact.name, ident=ident, ref=name)
    if kind is Kind.PLACE:
        device = Device.GPU if fact.device == "gpu" else Device.UNKNOWN
    return Value(kind, type=fact.name, device=device, scalar=fact.scalar, ident=ident)


def result_of(run: Run, fact: Fact, receiver: Value | None, arguments: Sequence[Argument]) -> Value:
    """What the call gives, before its effects."""
    operands = _operands(receiver, arguments)
    gives = fact.gives or (fact.name if fact.kind else "")
    first = arguments[0].value if arguments else receiver or UNKNOWN
    if gives in ("receiver", "first"):
        return first if gives == "first" else receiver or UNKNOWN
    if gives == "arguments":
        return prepared(fact, [a.value for a in arguments if not a.keyword])
    if gives == "element":
        return _element(run, receiver or first)
    if gives == "pairs":
        inside = _with_elements(run, SEQUENCE, fact, operands) if fact.element else receiver
        pair = Value(Kind.SEQUENCE, items=(TEXT, element_of(inside or UNKNOWN)))
        return Value(Kind.SEQUENCE, element=pair)
    if gives == "same":
        gives = next((o.type for o in operands if o.kind is Kind.TENSOR and o.type), "")
        gives = gives or run.facts.names.get("host_array_class", ("",))[0]
    if gives in _PLAIN:
        return _with_elements(run, _PLAIN[gives], fact, operands)
    known = run.facts.find(gives) if gives else None
    if known is None or not known.kind:
        return UNKNOWN
    result = instance_of(run, known)
    if result.kind is Kind.TENSOR:
        made = _tensor(run, fact, result, receiver, arguments, operands)
        # A method that is not known may as well belong to something else than a tensor.
        return weaken(made, Confidence.LIKELY) if fact.name.endswith(".*") else made
    return _object(fact, known, result, arguments)


def _object(fact: Fact, known: Fact, result: Value, arguments: Sequence[Argument]) -> Value:
    """A stream, a place, a network … that a call gives."""
    if result.kind is Kind.STREAM and fact.kind != "stream":
        return replace(result, ref=None)  # it may be any of those that exist
    if result.kind is Kind.PLACE and arguments:  # torch.device("cuda")
        device, sure = place_of(arguments[0].value)
        return replace(result, device=device, sure=sure) if device is not Device.UNKNOWN else result
    if result.kind in (Kind.MODULE, Kind.PLACE) and fact.name != known.name:
        return replace(result, scalar=fact.scalar or result.scalar)
    return result


def prepared(fact: Fact, values: list[Value]) -> Value:
    """What a call hands back of what it was given: networks and batches are on the device then."""
    if fact.effect == "prepare":
        values = [_on_device(value) for value in values]
    return values[0] if len(values) == 1 else Value(Kind.SEQUENCE, items=tuple(values))


def _on_device(value: Value) -> Value:
    if value.kind is Kind.MODULE:
        return replace(value, device=Device.GPU, sure=Confidence.LIKELY)
    if value.kind is Kind.LOADER and value.element is not None:
        element = replace(value.element, device=Device.GPU, sure=Confidence.LIKELY)
        return replace(value, element=element)
    return value


def _element(run: Run, base: Value) -> Value:
    if base.kind is Kind.LOADER and base.element is None:
        from analyzers.dryrun.parameters import batch

        return batch(run, base.pinned)
    return element_of(base)


def _operands(receiver: Value | None, arguments: Sequence[Argument]) -> list[Value]:
    values = [a.value for a in arguments]
    return [receiver, *values] if receiver is not None else values


def _with_elements(run: Run, plain: Value, fact: Fact, operands: list[Value]) -> Value:
    if fact.element == "element" and operands and operands[0].kind is Kind.LOADER:
        return operands[0]  # iter(loader)
    if plain.kind not in (Kind.SEQUENCE, Kind.MAPPING) or not fact.element:
        return _tensors_inside(plain, fact, operands)
    if fact.element == "element":
        return replace(plain, element=element_of(operands[0])) if operands else plain
    if fact.element in _PLAIN:
        return replace(plain, element=_PLAIN[fact.element])
    known = run.facts.find(fact.element)
    if known is None:
        return plain
    element = instance_of(run, known)
    if element.kind is Kind.TENSOR and operands:
        device, sure = device_by(fact, operands[0], (), operands)
        element = replace(element, device=device, sure=sure)
    return replace(plain, element=element)


def _tensors_inside(plain: Value, fact: Fact, operands: list[Value]) -> Value:
    tensor = next((o for o in operands if o.kind is Kind.TENSOR), None)
    if plain.kind is Kind.SEQUENCE and tensor is not None:
        if fact.waits:
            return replace(plain, element=NUMBER)  # tolist()
        return replace(plain, element=replace(tensor, made_by=None))
    return plain


def _tensor(
    run: Run,
    fact: Fact,
    result: Value,
    receiver: Value | None,
    arguments: Sequence[Argument],
    operands: list[Value],
) -> Value:
    device, sure = device_by(fact, receiver, arguments, operands)
    graph = run.state.grad and fact.graph != "cut" and any(o.graph for o in operands)
    graph = graph and not _dtype(fact, next(iter(operands), None), arguments).startswith(_COUNTS)
    requires = _given(arguments, "requires_grad")
    if requires is not None and requires.value.constant is True:
        graph = True
    base = next((o for o in operands if o.kind is Kind.TENSOR), None)
    shares = (fact.view or fact.inplace) and base is not None and base.kind is Kind.TENSOR
    on_host = device is Device.HOST
    return replace(
        result,
        device=device,
        sure=sure,
        homemade=on_host and homemade(fact, arguments, operands),
        fetched=None if device is Device.GPU or fact.filled else fetched_from(operands),
        ident=base.ident if shares and base is not None else run.new_ident(),
        scalar=_scalar(fact, receiver, arguments, operands),
        flat=_flat(fact, base, arguments),
        pinned=pinned_by(fact, base, arguments),
        fresh=fact.fresh,
        filled=fact.filled,
        graph=graph,
        dtype=_dtype(fact, base, arguments),
        gaps=bool(fact.view and base is not None and base.gaps and fact.strided != "no"),
        strided=fact.strided == "yes"
        or bool(fact.view and base is not None and base.strided and fact.strided != "no"),
    )


_COUNTS = ("int", "uint", "bool", "long", "short")  # numbers without a gradient


def _given(arguments: Sequence[Argument], name: str) -> Argument | None:
    return next((argument for argument in arguments if argument.name == name), None)


def device_by(
    fact: Fact, receiver: Value | None, arguments: Sequence[Argument], operands: list[Value]
) -> tuple[Device, Confidence]:
    """Where the result lives."""
    certain = Confidence.CERTAIN
    if fact.device == "host":
        return Device.HOST, certain
    if fact.device == "gpu":
        return Device.GPU, certain
    if fact.device == "receiver" and receiver is not None:
        return receiver.device, receiver.sure
    if fact.device == "argument":
        return _device_argument(fact, arguments, operands)
    return device_of_inputs(operands)


def _device_argument(
    fact: Fact, arguments: Sequence[Argument], operands: list[Value]
) -> tuple[Device, Confidence]:
    given = _given(arguments, "device")
    if given is not None and given.value.kind is not Kind.NONE:
        return place_of(given.value)
    if any(a.star for a in arguments):
        return Device.UNKNOWN, Confidence.POSSIBLE  # **factory_kwargs may name the device
    if fact.default_device == "receiver" and operands:
        return operands[0].device, operands[0].sure
    if fact.default_device == "inputs":
        return device_of_inputs(operands)
    if fact.default_device == "gpu":
        return Device.GPU, Confidence.CERTAIN
    return Device.HOST, Confidence.CERTAIN


def _scalar(
    fact: Fact, receiver: Value | None, arguments: Sequence[Argument], operands: list[Value]
) -> bool:
    if fact.scalar:
        return True
    tensors = [o for o in operands if o.kind is Kind.TENSOR]
    if fact.reduces:
        extra = arguments if receiver is not None else arguments[1:]
        return not any(a.name in ("dim", "axis", "") or a.star for a in extra)
    if fact.fresh and not fact.view and fact.device == "argument" and not tensors:
        shape = next((a for a in arguments if a.name in ("size", "shape", "data", "")), None)
        return shape is not None and (
            shape.value.items == () or (fact.upload and shape.value.kind is Kind.NUMBER)
        )
    return bool(tensors) and all(t.scalar for t in tensors) and not fact.fresh


def _flat(fact: Fact, base: Value | None, arguments: Sequence[Argument]) -> bool:
    if fact.filled == "range":
        return True
    return base is not None and base.flat and not fact.reduces and not arguments


def pinned_by(fact: Fact, base: Value | None, arguments: Sequence[Argument]) -> bool | None:
    """Whether the memory is page-locked; None when that is not known."""
    if fact.pins == "always":
        return True
    if fact.pins:
        given = _given(arguments, fact.pins)
        if given is None:
            return None if any(a.star for a in arguments) else False
        return given.value.constant if isinstance(given.value.constant, bool) else None
    if fact.view and base is not None:
        return base.pinned
    return False if fact.fresh else None


def _dtype(fact: Fact, base: Value | None, arguments: Sequence[Argument]) -> str:
    given = _given(arguments, "dtype")
    if given is not None:
        return dtype_name(given.value)
    if not fact.dtype and fact.default_dtype:
        return fact.default_dtype
    known = base.dtype if base is not None else ""
    if fact.dtype == "counted":
        return "int64" if known.startswith(_COUNTS) else known
    if fact.view and not fact.dtype:  # the same numbers, unless it names another type
        return next((d for a in arguments if (d := dtype_name(a.value))), known)
    if fact.dtype == "receiver" or (not fact.dtype and fact.device in ("receiver",)):
        return known
    if fact.dtype != "argument":
        return fact.dtype
    if any(a.star for a in arguments):
        return ""
    return fact.default_dtype or known  # zeros_like(x)


def dtype_name(value: Value) -> str:
    """`torch.float32`, `np.float32` and "float32" are all "float32"."""
    if isinstance(value.ref, str) and value.kind is Kind.LIBRARY:
        name = value.ref.rpartition(".")[2]
        built_in = value.ref.startswith("builtins.") and name != "bool"
        return f"{name}64" if built_in else name  # Python's own numbers are wide
    if isinstance(value.constant, str):
        return value.constant
    return ""
