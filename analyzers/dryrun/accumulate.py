"""Running totals and lists that keep tensors beyond a turn of the loop."""

from __future__ import annotations

import ast

from analyzers.dryrun import reports
from analyzers.dryrun.run import Run
from analyzers.dryrun.scan import FunctionInfo
from analyzers.dryrun.syntax import dotted, walk
from analyzers.dryrun.values import Kind, Value
from analyzers.records import replace
from analyzers.timeline import Accumulated


def added(run: Run, name: str, target: Value, value: Value, node: ast.AST) -> None:
    """`name += value`."""
    if value.kind is Kind.TENSOR and name:
        span_node = node.value if isinstance(node, ast.AugAssign) else node
        _emit(run, name, value, span_node, "add", node)


def added_into(run: Run, value: Value, node: ast.Call) -> None:
    """`total.add_(value)`, whatever the total is."""
    if value.kind is Kind.TENSOR and isinstance(node.func, ast.Attribute) and node.args:
        name = dotted(node.func.value) or run.source.segment(run.span(node.func.value))
        _emit(run, name, value, node.args[0], "add", node)


def appended(run: Run, name: str, value: Value, argument: ast.AST, node: ast.AST) -> None:
    """`name.append(value)`, `name.append({"loss": value})`."""
    if value.kind is Kind.TENSOR and name:
        _emit(run, name, value, argument, "append", node)
        if value.graph or value.made_by is not None:
            return
    if value.kind in (Kind.UNKNOWN, Kind.TENSOR) and name and run.recording:
        reports.appended(run, name, value, argument, node)
    inner = argument.values if isinstance(argument, ast.Dict) else []
    inner = argument.elts if isinstance(argument, ast.Tuple | ast.List) else inner
    for part in inner:
        held = run.lookup(part.id) if isinstance(part, ast.Name) else None
        if name and held is not None and held.kind is Kind.TENSOR:
            _emit(run, name, held, part, "append", node)


def kept(run: Run, node: ast.Call, value: Value) -> None:
    """`anything.append(value)`, `table[key].append(value)`."""
    if isinstance(node.func, ast.Attribute) and node.args:
        holder = node.func.value
        name = dotted(holder.value if isinstance(holder, ast.Subscript) else holder)
        appended(run, name, value, node.args[-1], node)


def _stored(run: Run, target: ast.Subscript, node: ast.Assign, value: Value) -> None:
    """`name[key] = value` under a key that changes."""
    name = dotted(target.value)
    changes = not isinstance(target.slice, ast.Constant | ast.Slice | ast.Tuple)
    if name and changes and run.lookup(name).kind is not Kind.TENSOR:
        _emit(run, name, value, node.value, "store", node)


_OPEN = frozenset({Kind.TENSOR, Kind.UNKNOWN, Kind.MAPPING})


def rebound(run: Run, node: ast.Assign, value: Value) -> None:
    """`x = x + value`, `x = f(x, value)`, `x = cat([x, value])`."""
    target = node.targets[0]
    if run.recording and value.kind in _OPEN:
        reports.assigned(run, node, value)
    if value.kind is not Kind.TENSOR or len(node.targets) > 1 or not run.recording:
        return
    if isinstance(target, ast.Subscript):
        _stored(run, target, node, value)
    elif name := dotted(target):
        _rebound(run, name, node, value)


def _rebound(run: Run, name: str, node: ast.Assign, value: Value) -> None:
    expression = node.value
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Add):
        for one, other in (
            (expression.left, expression.right),
            (expression.right, expression.left),
        ):
            if dotted(one) == name:
                _emit(run, name, value, other, "add", node)
                return
    if not isinstance(expression, ast.Call):
        return
    call = value.made_by
    if call is not None and call.fact.effect == "concatenate":
        listed = expression.args[0] if expression.args else None
        parts = listed.elts if isinstance(listed, ast.List | ast.Tuple) else []
        if any(dotted(part) == name for part in parts):
            _emit(run, name, value, expression, "cat", node)
    elif any(dotted(part) == name for part in expression.args) and len(expression.args) > 1:
        others = [part for part in expression.args if dotted(part) not in (name, "")]
        if others:
            _emit(run, name, value, others[0], "fold", node)


def _emit(run: Run, name: str, value: Value, part: ast.AST, how: str, node: ast.AST) -> None:
    if not run.recording:
        return
    info = run.frame.info
    backward = info.backward if info is not None else run.scan.module_backward
    written = dotted(part) if isinstance(part, ast.expr) else ""
    base = written or _first_name(part)
    sources = _sources(run, info, backward)
    root = name.partition(".")[0]
    run.emit(
        Accumulated(
            run.place(node),
            target=name,
            value=replace(value, graph=value.graph and run.state.grad),
            value_span=run.span(part),
            how=how,
            target_outside=_outlives(run, name),
            backward=bool(base) and base in backward,
            target_backward=name in sources or (root in sources and root != "self"),
            feeds_backward=bool(base) and base in sources,
            read_in_loop=how == "cat" and _read_in_loop(run, info, name, node),
        )
    )


def _outlives(run: Run, name: str) -> bool:
    """Whether the target was bound before the innermost loop began."""
    if not name.isidentifier():
        return True
    return name in run.bound_before_loop or (bool(run.frame.info) and name in run.globals)


def _first_name(node: ast.AST) -> str:
    return next((n.id for n in walk(node) if isinstance(n, ast.Name)), "")


def _sources(run: Run, info: FunctionInfo | None, backward: set[str]) -> frozenset[str]:
    """The names that what is sent through backward() is computed from, itself included."""
    if not backward:
        return frozenset()
    known = info.sources if info is not None else run.scan.sources
    if known is not None:
        return known
    found = set(backward)
    tree = info.node if info is not None else run.source.tree
    assigned = [
        (
            set(map(dotted, _targets(n))),
            {dotted(m) for m in walk(_given(n)) if isinstance(m, ast.Name | ast.Attribute)},
        )
        for n in walk(tree)
        if isinstance(n, _BINDS)
    ]
    size = 0
    while size != len(found):
        size = len(found)
        for names, used in assigned:
            if names & found:
                found |= used
    found -= {"", "self"}
    result = frozenset(found)
    (info if info is not None else run.scan).sources = result
    return result


_BINDS = (ast.Assign, ast.AugAssign, ast.For, ast.comprehension)


def _given(node: ast.Assign | ast.AugAssign | ast.For | ast.comprehension) -> ast.expr:
    return node.iter if isinstance(node, ast.For | ast.comprehension) else node.value


def _targets(node: ast.Assign | ast.AugAssign | ast.For | ast.comprehension) -> list[ast.expr]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    flat = [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return [e.value if isinstance(e, ast.Subscript) else e for e in flat]


def _read_in_loop(run: Run, info: FunctionInfo | None, name: str, node: ast.AST) -> bool:
    """Whether the innermost loop around `node` reads `name` in another statement."""
    tree = info.node if info is not None else run.source.tree
    around = [
        n
        for n in walk(tree)
        if isinstance(n, ast.For | ast.While)
        and _spans(n, node)
        and any(m is node for m in walk(n))
    ]
    if not around:
        return False
    inside = {id(m) for m in walk(node)}
    return any(
        dotted(m) == name and isinstance(m.ctx, ast.Load) and id(m) not in inside
        for m in walk(around[-1])
        if isinstance(m, ast.Name | ast.Attribute)
    )


def _spans(loop: ast.For | ast.While, node: ast.AST) -> bool:
    """Whether the lines of a loop include those of a node."""
    first: int = getattr(node, "lineno", loop.lineno)
    return loop.lineno <= first <= (loop.end_lineno or first)
