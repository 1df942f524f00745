"""Python's own ways round a collection: range, enumerate, zip, map, sum, max."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from analyzers.dryrun import waits
from analyzers.dryrun.run import Run
from analyzers.dryrun.values import NUMBER, UNKNOWN, Kind, Value, element_of, join, turn_of
from analyzers.dryrun.work import elementwise
from analyzers.records import replace
from analyzers.timeline import Call, Reason


def _values(call: Call) -> list[Value]:
    return [a.value for a in call.arguments if not a.keyword]


def counted(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    """range(…): a bound on the device is fetched; the number of turns may be known."""
    values = _values(call)
    for value in values:
        if value.kind is Kind.TENSOR:
            waits.wait(run, Reason.ITERATE, value, node, call)
    stop = values[0].constant if len(values) == 1 else None
    turns = stop if isinstance(stop, int) else UNKNOWN.constant
    return Value(Kind.SEQUENCE, type="range", element=NUMBER, constant=turns)


def enumerated(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    """enumerate(…): the kind of loop stays that of the collection."""
    over = _values(call)[0] if call.arguments else UNKNOWN
    pair = Value(Kind.SEQUENCE, items=(NUMBER, turn_of(over)))
    return _like(over, pair)


def zipped(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    """zip(…): a loader among the collections makes it a loop over data."""
    values = _values(call)
    pair = Value(Kind.SEQUENCE, items=tuple(element_of(v) for v in values))
    loader = next((v for v in values if v.kind is Kind.LOADER), None)
    return _like(loader if loader is not None else UNKNOWN, pair)


def _like(over: Value, element: Value) -> Value:
    if over.kind is Kind.LOADER:
        return replace(over, element=element)
    length = over.constant if over.type == "range" else UNKNOWN.constant
    return Value(Kind.SEQUENCE, type=over.type, element=element, constant=length)


def totalled(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """sum(…) over tensors is a chain of additions on the device."""
    values = _values(call)
    element = element_of(values[0]) if values else UNKNOWN
    if element.kind is Kind.TENSOR:
        return elementwise(run, node, (element, element))
    return element if element.kind is Kind.NUMBER else UNKNOWN


def extremum(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """max(…), min(…), sorted(…): every comparison of two tensors needs an answer on the host."""
    values = [v for v in _values(call) if v.kind is not Kind.FUNCTION]
    compared = [element_of(values[0])] if len(values) == 1 else values
    tensors = [v for v in compared if v.kind is Kind.TENSOR]
    if len(values) > 1 or (values and values[0].kind is not Kind.TENSOR):
        for tensor in tensors[:1]:
            waits.wait(run, Reason.CONDITION, tensor, node, call)
    elif tensors and values[0].on_gpu:
        waits.wait(run, Reason.CONDITION, values[0], node, call)
    return _joined(compared)


def _joined(values: Sequence[Value]) -> Value:
    result = values[0] if values else UNKNOWN
    for value in values[1:]:
        result = join(result, value)
    return replace(result, constant=UNKNOWN.constant) if result.known else result


def progress(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """A progress bar around a collection hands out the collection."""
    return _values(call)[0] if call.arguments and not call.arguments[0].keyword else None


def mapped(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """map(f, items): what f gives for one of them."""
    values = _values(call)
    if len(values) < 2 or values[0].kind is not Kind.LIBRARY:
        return Value(Kind.SEQUENCE)
    fact = run.facts.find(str(values[0].ref))
    element = element_of(values[1])
    if fact is not None and fact.waits == "scalar" and element.kind is Kind.TENSOR:
        waits.wait(run, Reason.SCALAR, element, node, call)
        return Value(Kind.SEQUENCE, element=NUMBER)
    return Value(Kind.SEQUENCE)


def dimension(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """x.size() is a list of numbers, x.size(0) one of them."""
    return NUMBER if call.arguments else None
