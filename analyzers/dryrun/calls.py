"""Calls: whom they reach, with which arguments, and what comes of it."""

from __future__ import annotations

import ast

from analyzers.dryrun import apply, classes, functions, guesses, launches, parameters
from analyzers.dryrun.binding import assign, loader_used, used
from analyzers.dryrun.run import Run
from analyzers.dryrun.scan import ClassInfo, FunctionInfo
from analyzers.dryrun.state import Work
from analyzers.dryrun.syntax import dotted
from analyzers.dryrun.values import NUMBER, UNKNOWN, Device, Kind, Value, element_of, library
from analyzers.finding import Confidence
from analyzers.knowledge import Fact
from analyzers.records import record, replace
from analyzers.timeline import Argument


@record
class Bound:
    """A method of a library's object, or of something unknown (`fact` is None)."""

    fact: Fact | None
    receiver: Value
    name: str

    @property
    def likeness(self) -> tuple[object, ...]:
        """Equal for the same method of receivers that are alike."""
        return (self.name, self.receiver.likeness)


@record
class BoundLocal:
    """A method of a class of this file."""

    info: FunctionInfo
    receiver: Value


def attribute(run: Run, base: Value, node: ast.Attribute) -> Value:
    """The value of `base.name`, read."""
    name = node.attr
    if base is UNKNOWN and name in run.methods:
        return run.methods[name]
    if base.kind is Kind.LIBRARY:
        return _in_library(run, f"{base.ref}.{name}")
    if isinstance(base.ref, ClassInfo):
        own = _of_own_class(run, base, base.ref, name)
        if own is not None:
            return own
    if name in run.facts.names.get("gradients", ()) and base.kind in (Kind.UNKNOWN, Kind.TENSOR):
        return parameters.gradient(run, base)
    cls = base.type if base.type not in ("", "slice", "range") else run.class_of(base.kind)
    if cls:
        fact = run.facts.method(cls, name)
        if fact is not None and name in run.facts.names.get("foreign_methods", ()):
            fact = None if fact.name.endswith(".*") else fact
        if fact is not None and fact.property:
            return apply.read_property(run, fact, base, node)
        if fact is not None:
            return Value(Kind.METHOD, ref=Bound(fact, base, name))
    return _unknown_attribute(run, base, name)


def _in_library(run: Run, name: str) -> Value:
    fact = run.facts.find(name)
    if fact is not None and fact.property and fact.name == name and fact.kind:
        from analyzers.dryrun.results import instance_of

        return instance_of(run, fact)
    last = name.rpartition(".")[2]
    if fact is None and last in run.facts.names.get("device", ()):
        return parameters.from_name(run, last)  # a setting of the project
    return library(name)


def _of_own_class(run: Run, base: Value, info: ClassInfo, name: str) -> Value | None:
    method = info.method(name)
    if method is not None:
        if "property" in {d.ref for d in method.decorators} | {_last(d) for d in method.decorators}:
            return functions.call_local(run, method, _NO_CALL, [], base)
        return Value(Kind.METHOD, ref=BoundLocal(method, base))
    known = info.attribute(name)
    if known is not None:
        return known
    return None


_NO_CALL = ast.Call(func=ast.Name("property"), args=[], keywords=[])


def _last(decorator: Value) -> str:
    return str(decorator.ref).rpartition(".")[2]


def _unknown_attribute(run: Run, base: Value, name: str) -> Value:
    if base.kind is Kind.TENSOR and run.facts.method(base.type, name) is None and base.type:
        return UNKNOWN
    if base.kind in (Kind.UNKNOWN, Kind.INSTANCE, Kind.MODULE, Kind.CLASS):
        named = parameters.from_name(run, name)
        if named.kind in _NAMED:
            return named
    if name in run.facts.names.get("byte_counts", ()):
        return replace(NUMBER, bytes=True)
    if name in run.facts.names.get("element_widths", ()):
        return replace(NUMBER, unit="width")
    method = Value(Kind.METHOD, ref=Bound(None, base, name))
    if base is UNKNOWN:
        run.methods[name] = method
    return method


_NAMED = frozenset(
    {Kind.INSTANCE, Kind.LIBRARY, Kind.LOADER, Kind.MODULE, Kind.OPTIMIZER, Kind.PLACE}
)


def call(run: Run, node: ast.Call) -> Value:
    """The value of a call; its effects are recorded."""
    callee = run.evaluate(node.func)
    arguments = [_argument(run, a) for a in node.args]
    arguments += [_keyword(run, k) for k in node.keywords]
    given = tuple(arguments)
    _hand_over(run, node, callee, given)
    if callee.kind is Kind.LIBRARY:
        return _library(run, node, str(callee.ref), given)
    if callee.kind is Kind.METHOD:
        return _method(run, node, callee.ref, given)
    if callee.kind is Kind.FUNCTION:
        return _function(run, node, callee, given)
    if callee.kind is Kind.CLASS and isinstance(callee.ref, ClassInfo):
        return _construct(run, node, callee.ref, given)
    if callee.kind in (Kind.KERNEL, Kind.LAUNCHER):
        return launches.launch(run, node, callee, given)
    instance = run.facts.find(f"{callee.type}.__call__") if callee.type else None
    if instance is not None and instance.name.endswith(".__call__"):
        return apply.known_call(run, node, instance, instance.name, callee, given)
    if callee.kind is Kind.MODULE or callee.on_gpu:
        return _forward(run, node, callee, given)
    _handed_in(run, node)
    return guesses.unknown_call(run, node, None, dotted(node.func).rpartition(".")[2], given)


def _handed_in(run: Run, node: ast.Call) -> None:
    """A function that was handed in is called: whoever times it may be timing the device."""
    info, state = run.frame.info, run.state
    if info is None or not isinstance(node.func, ast.Name) or not run.tensor_class:
        return
    name = node.func.id
    idle = state.work is None or state.work.order <= state.waited
    if idle and any(parameter.arg == name for parameter in info.parameters):
        state.work = Work(run.tick(), None, Confidence.POSSIBLE, run.loops)


def _hand_over(run: Run, node: ast.Call, callee: Value, given: tuple[Argument, ...]) -> None:
    """Code that is not known may fill the tensors it is given; what is known fills its `out`."""
    receiver = callee.ref.receiver if isinstance(callee.ref, Bound) else UNKNOWN
    for argument in given:
        if argument.value.kind in _FILLED:
            break
    else:
        if receiver.kind is not Kind.TENSOR:
            return
    nodes = [*node.args, *(k.value for k in node.keywords)]
    for part, argument in zip(nodes, given, strict=False):
        loader_used(run, part, argument.value)
    fact = callee.ref.fact if isinstance(callee.ref, Bound) else None
    if callee.kind is Kind.LIBRARY:
        fact = run.facts.find(str(callee.ref))
    if fact is not None and not (fact.view or fact.inplace):
        outputs = ("out", fact.into)
        for number, (part, argument) in enumerate(zip(nodes, given, strict=False)):
            names = (argument.name, *fact.parameters[number : number + 1])
            if any(name and name in outputs for name in names):
                used(run, part, argument.value)
        return
    for part, argument in zip(nodes, given, strict=False):
        used(run, part, argument.value)
    if isinstance(node.func, ast.Attribute) and isinstance(callee.ref, Bound):
        used(run, node.func.value, receiver)


_FILLED = frozenset({Kind.TENSOR, Kind.LOADER})


def _argument(run: Run, node: ast.expr) -> Argument:
    if isinstance(node, ast.Starred):
        return Argument("", run.span(node), run.evaluate(node.value), star=True)
    return Argument("", run.span(node), run.evaluate(node))


def _keyword(run: Run, node: ast.keyword) -> Argument:
    value = run.evaluate(node.value)
    if node.arg is None:
        return Argument("", run.span(node.value), value, keyword=True, star=True)
    return Argument(node.arg, run.span(node), value, keyword=True)


def _library(run: Run, node: ast.Call, name: str, given: tuple[Argument, ...]) -> Value:
    fact = run.facts.find(name)
    if fact is None:
        return _unknown_library(run, node, name, given)
    return apply.known_call(run, node, fact, name, None, given)


def _unknown_library(run: Run, node: ast.Call, name: str, given: tuple[Argument, ...]) -> Value:
    """A function of a library without facts, or of another file of the project."""
    last = name.rpartition(".")[2]
    if last in run.hints.device_helpers:
        first = given[0].value if given else UNKNOWN
        return replace(first, device=Device.GPU, sure=Confidence.LIKELY)
    return guesses.unknown_call(run, node, None, last, given)


def _method(
    run: Run, node: ast.Call, bound: Bound | BoundLocal, given: tuple[Argument, ...]
) -> Value:
    if isinstance(bound, BoundLocal):
        pairs = [("*" if a.star and not a.keyword else a.name, a.value) for a in given]
        result = functions.call_local(run, bound.info, node, pairs, bound.receiver)
        guesses.helper_called(run, bound.info.name)
        return result
    if bound.fact is not None:
        name = f"{bound.receiver.type or run.class_of(bound.receiver.kind)}.{bound.name}"
        return apply.known_call(run, node, bound.fact, name, bound.receiver, given, bound.name)
    return guesses.unknown_call(run, node, bound.receiver, bound.name, given)


def _function(run: Run, node: ast.Call, callee: Value, given: tuple[Argument, ...]) -> Value:
    if isinstance(callee.ref, FunctionInfo):
        pairs = [("*" if a.star and not a.keyword else a.name, a.value) for a in given]
        result = functions.call_local(run, callee.ref, node, pairs)
        guesses.helper_called(run, callee.ref.name)
        return result
    if isinstance(callee.ref, ast.Lambda):
        return _lambda(run, callee.ref, given)
    return UNKNOWN


def _lambda(run: Run, node: ast.Lambda, given: tuple[Argument, ...]) -> Value:
    if run.depth >= 2:
        return UNKNOWN
    saved = dict(run.state.names)
    run.depth += 1
    for parameter, argument in zip(node.args.args, given, strict=False):
        assign(run, ast.Name(parameter.arg), argument.value)
    with run.silently():
        result = run.evaluate(node.body)
    run.depth -= 1
    run.state.names = saved
    return result


def _construct(run: Run, node: ast.Call, info: ClassInfo, given: tuple[Argument, ...]) -> Value:
    made = classes.instance(run, info)
    init = info.method("__init__")
    if init is not None:
        pairs = [("*" if a.star and not a.keyword else a.name, a.value) for a in given]
        functions.call_local(run, init, node, pairs, made)
    return made


def _forward(run: Run, node: ast.Call, callee: Value, given: tuple[Argument, ...]) -> Value:
    """A network is called."""
    result = apply.forward(run, node, callee, given)
    info = callee.ref
    if isinstance(info, ClassInfo):
        forward = info.method("forward") or info.method("__call__")
        if forward is not None:
            pairs = [("*" if a.star and not a.keyword else a.name, a.value) for a in given]
            own = functions.call_local(run, forward, node, pairs, callee)
            if own.kind in (Kind.TENSOR, Kind.SEQUENCE, Kind.MAPPING):
                return _place(own, result)
            if own.kind in (Kind.NUMBER, Kind.TEXT):
                return own
    return result


def _place(own: Value, forward: Value) -> Value:
    """The shape of what forward() returns, on the device the call puts it."""
    if own.kind is Kind.TENSOR:
        if own.device is Device.UNKNOWN or own.sure.rank > forward.sure.rank:
            return replace(own, device=forward.device, sure=forward.sure, graph=forward.graph)
        return replace(own, graph=own.graph or forward.graph)
    if own.items is not None:
        return replace(own, items=tuple(_place(i, forward) for i in own.items))
    element = element_of(own)
    return replace(
        own, element=_place(element, forward) if element.kind is Kind.TENSOR else element
    )
