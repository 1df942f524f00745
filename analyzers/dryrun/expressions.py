"""Evaluates expressions: what each gives, and what it makes the host or the device do."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from analyzers.dryrun import calls, loops, waits
from analyzers.dryrun.arithmetic import Arithmetic, combine, operator_text
from analyzers.dryrun.binding import assign
from analyzers.dryrun.guards import classify
from analyzers.dryrun.literals import mapping, sequence
from analyzers.dryrun.run import Run
from analyzers.dryrun.sidework import kept
from analyzers.dryrun.subscripts import subscript
from analyzers.dryrun.syntax import dotted
from analyzers.dryrun.values import (
    NONE,
    NUMBER,
    TEXT,
    UNKNOWN,
    Device,
    Kind,
    Value,
    constant,
    element_of,
    join,
    turn_of,
)
from analyzers.dryrun.work import elementwise
from analyzers.finding import Confidence
from analyzers.places import Loop, LoopKind
from analyzers.records import replace
from analyzers.timeline import Reason


def truth(run: Run, value: Value, node: ast.expr) -> None:
    """`value` is tested for truth."""
    if value.kind is Kind.TENSOR:
        waits.wait(run, Reason.CONDITION, value, node)


def _constant(_: Run, node: ast.Constant) -> Value:
    return constant(node.value)


def _name(run: Run, node: ast.Name) -> Value:
    value = run.state.names.get(node.id)
    return run.lookup(node.id) if value is None else value


def _attribute(run: Run, node: ast.Attribute) -> Value:
    base = node.value
    if base.__class__ is ast.Name:  # most of them
        value = _name(run, base)  # type: ignore[arg-type]
        bound = run.state.names.get(f"{base.id}.{node.attr}")  # type: ignore[attr-defined]
        return calls.attribute(run, value, node) if bound is None else bound
    chain = [node]
    while isinstance(base, ast.Attribute):
        chain.append(base)
        base = base.value
    value = run.evaluate(base)
    if not isinstance(base, ast.Name):
        for part in reversed(chain):
            value = calls.attribute(run, value, part)
        return value
    path = base.id
    for part in reversed(chain):
        path = f"{path}.{part.attr}"
        bound = run.state.names.get(path)  # what was assigned to that very path
        value = calls.attribute(run, value, part) if bound is None else bound
    return value


def _call(run: Run, node: ast.Call) -> Value:
    return calls.call(run, node)


def _binary(run: Run, node: ast.BinOp) -> Value:
    left, right = run.evaluate(node.left), run.evaluate(node.right)
    operator = operator_text(node.op)
    if left.kind is Kind.TEXT and operator == "%":
        for value in right.items or (right,):
            waits.formatted(run, value, node)
        return TEXT
    if operator == "-" and right.kind is Kind.CLOCK:
        return waits.elapsed(run, left, right, node)
    if operator == "*" and Kind.SEQUENCE in (left.kind, right.kind):
        count = right if left.kind is Kind.SEQUENCE else left
        if count.kind is Kind.TENSOR and (count.scalar or count.type == run.tensor_class):
            waits.wait(run, Reason.ITERATE, count, node)
        return replace(left if left.kind is Kind.SEQUENCE else right, items=None)
    return combine(run, node, operator, left, right)


def _boolean(run: Run, node: ast.BoolOp) -> Value:
    result: Value | None = None
    outer = run.guards
    for position, part in enumerate(node.values):
        value = run.evaluate(part)
        if position < len(node.values) - 1:
            truth(run, value, part)
            if isinstance(node.op, ast.And):  # `step % n == 0 and …` guards what follows
                run.guards = (*run.guards, classify(run, part))
        result = value if result is None else join(result, value)
    run.guards = outer
    return result or UNKNOWN


def _unary(run: Run, node: ast.UnaryOp) -> Value:
    value = run.evaluate(node.operand)
    if isinstance(node.op, ast.Not):
        truth(run, value, node.operand)
        return NUMBER
    if value.kind is Kind.TENSOR:
        return elementwise(run, node, (value,))
    if isinstance(node.op, ast.USub) and isinstance(value.constant, int | float):
        # -(-n // b) is the usual ceiling division: keep how it was computed.
        return Value(Kind.NUMBER, device=Device.HOST, constant=-value.constant)
    if isinstance(node.op, ast.USub):
        return Value(
            value.kind, device=value.device, ref=Arithmetic("neg", value, value, run.span(node))
        )
    return value if value.kind is Kind.NUMBER else UNKNOWN


def _compare(run: Run, node: ast.Compare) -> Value:
    known = len(run.events)
    operands = [run.evaluate(node.left), *(run.evaluate(c) for c in node.comparators)]
    if len(run.events) > known:
        waits.forget_limits(run, known, node)
    operators = {op.__class__ for op in node.ops}
    if not operators.isdisjoint(_IDENTITY) or any(o is NONE for o in operands):
        return NUMBER  # a tensor is never equal to None, and that needs no look at it
    if Kind.TEXT in [(element_of(o) if o.kind is Kind.SEQUENCE else o).kind for o in operands]:
        return NUMBER  # what is compared with a text, or may hold one, is no tensor
    if not operators.isdisjoint(_MEMBERSHIP):
        container = operands[-1]
        if container.kind is Kind.TENSOR:
            truth(run, container, node)
        elif container.kind in (Kind.SEQUENCE, Kind.MAPPING) and operands[0].on_gpu:
            truth(run, operands[0], node)
        return NUMBER
    tensors = tuple(o for o in operands if o.kind is Kind.TENSOR)
    if tensors:
        result = elementwise(run, node, tensors)
        return replace(result, dtype="bool", graph=False)
    return NUMBER


_IDENTITY = frozenset({ast.Is, ast.IsNot})
_MEMBERSHIP = frozenset({ast.In, ast.NotIn})


def _if_expression(run: Run, node: ast.IfExp) -> Value:
    truth(run, run.evaluate(node.test), node.test)
    with run.inside(guard=classify(run, node.test)):
        return join(run.evaluate(node.body), run.evaluate(node.orelse))


def _comprehension(
    run: Run, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> Value:
    saved = dict(run.state.names)
    saved_loops = run.loops
    for generator in node.generators:
        over = run.evaluate(generator.iter)
        kind = loops.kind_of(run, over, generator.iter, generator.target)
        if kind is LoopKind.FEW or len(over.items or ()) > 4:
            kind = LoopKind.ITEMS if over.items is None else kind
        loop = Loop(kind, run.span(node), over, comprehension=True, working=run.working)
        run.loops = (*run.loops, loop)
        assign(run, generator.target, turn_of(over))
        for condition in generator.ifs:
            truth(run, run.evaluate(condition), condition)
    if isinstance(node, ast.DictComp):
        run.evaluate(node.key)
        result = Value(Kind.MAPPING, element=run.evaluate(node.value))
    else:
        made = run.class_of(Kind.SEQUENCE) if isinstance(node, ast.ListComp) else ""
        result = Value(Kind.SEQUENCE, type=made, element=run.evaluate(node.elt))
    run.loops = saved_loops
    run.state.names = saved
    return result


def _formatted_text(run: Run, node: ast.JoinedStr) -> Value:
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            waits.formatted(run, run.evaluate(part.value), part.value)
    return TEXT


def _lambda(run: Run, node: ast.Lambda) -> Value:
    return Value(Kind.FUNCTION, ref=node)


def _walrus(run: Run, node: ast.NamedExpr) -> Value:
    value = run.evaluate(node.value)
    run.bind(node.target.id, value)
    return value


def _inner(run: Run, node: ast.Await | ast.Starred | ast.YieldFrom) -> Value:
    value = run.evaluate(node.value)
    if isinstance(node, ast.Await):  # whatever it is that is awaited, it may be the device
        run.state.order.host_waits()
    return element_of(value) if isinstance(node, ast.Starred) else UNKNOWN


def _yield(run: Run, node: ast.Yield) -> Value:
    if node.value is not None:
        given, value = run.frame.returned, run.evaluate(node.value)
        kept(run, value, node.value)
        item = Value(Kind.SEQUENCE, element=value)
        run.frame.returned = item if given is None else join(given, item)
    return NONE


def _subscript(run: Run, node: ast.Subscript) -> Value:
    path = dotted(node.value)
    bound = run.state.names.get(f"{path}[]") if path else None
    result = subscript(run, node, run.evaluate(node.value))
    return join(result, bound) if bound is not None else result


def _slice(run: Run, node: ast.Slice) -> Value:
    bounds = tuple(
        run.evaluate(part) if part is not None else NONE
        for part in (node.lower, node.upper, node.step)
    )
    return Value(Kind.SEQUENCE, ref=bounds, sure=Confidence.CERTAIN, type="slice")


def _other(*_: object) -> Value:
    return UNKNOWN


class _Handlers(dict[type[ast.AST], Callable[[Run, Any], Value]]):
    """By class of expression; what has no handler of its own is unknown."""

    def __missing__(self, _: type[ast.AST]) -> Callable[[Run, Any], Value]:
        return _other


HANDLERS = _Handlers(
    {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Call: _call,
        ast.BinOp: _binary,
        ast.BoolOp: _boolean,
        ast.UnaryOp: _unary,
        ast.Compare: _compare,
        ast.IfExp: _if_expression,
        ast.Tuple: sequence,
        ast.List: sequence,
        ast.Set: sequence,
        ast.Dict: mapping,
        ast.ListComp: _comprehension,
        ast.SetComp: _comprehension,
        ast.GeneratorExp: _comprehension,
        ast.DictComp: _comprehension,
        ast.JoinedStr: _formatted_text,
        ast.Lambda: _lambda,
        ast.NamedExpr: _walrus,
        ast.Await: _inner,
        ast.Starred: _inner,
        ast.YieldFrom: _inner,
        ast.Yield: _yield,
        ast.Subscript: _subscript,
        ast.Slice: _slice,
    }
)
