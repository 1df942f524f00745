"""Walks statements in evaluation order; branches are walked from copies and joined."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from analyzers.dryrun import accumulate, classes, functions, imports, loops, parameters
from analyzers.dryrun.arithmetic import combine, operator_text
from analyzers.dryrun.binding import assign, loader_used, used
from analyzers.dryrun.contexts import entered, switched_grad
from analyzers.dryrun.expressions import truth
from analyzers.dryrun.guards import of_branch, skips_rest, stop_test
from analyzers.dryrun.narrowing import narrow
from analyzers.dryrun.run import BUDGET, Run
from analyzers.dryrun.sidework import leaves
from analyzers.dryrun.state import State
from analyzers.dryrun.subscripts import indices
from analyzers.dryrun.syntax import dotted, stored_names
from analyzers.dryrun.values import NONE, Device, Kind, Value, element_of, join, turn_of
from analyzers.dryrun.work import enqueue, host_reads, host_writes
from analyzers.places import Guard, Heat, Loop, LoopKind
from analyzers.records import replace

# Loops whose turns are long: what stands in them beside an inner loop runs rarely.
_LONG = frozenset({LoopKind.EPOCHS, LoopKind.FEW})


def execute(run: Run, body: Sequence[ast.stmt]) -> bool:
    """Walk a block; whether its end can be reached."""
    saved = (run.statement, run.block, run.index, run.guards)
    block = body[0].lineno * 4096 + min(body[0].col_offset, 4095) if body else 0
    live = True
    for index, node in enumerate(body):
        if run.steps > BUDGET:
            break
        run.statement, run.block, run.index = node, block, index
        handler = _HANDLERS.get(node.__class__)
        if handler is not None and handler(run, node) is False:
            live = False
            break
    run.statement, run.block, run.index, run.guards = saved
    return live


def _expression(run: Run, node: ast.Expr) -> None:
    value = run.evaluate(node.value)
    if value.kind is Kind.CONTEXT and isinstance(value.ref, Value):
        switched_grad(run, value)


def _assign(run: Run, node: ast.Assign) -> None:
    value = run.evaluate(node.value)
    accumulate.rebound(run, node, value)
    for target in node.targets:
        assign(run, target, value)


def _annotated(run: Run, node: ast.AnnAssign) -> None:
    if node.value is not None:
        value = run.evaluate(node.value)
        if value.kind is Kind.UNKNOWN:
            value = parameters.promised(run, node.annotation, value)
        assign(run, node.target, value)


def _augmented(run: Run, node: ast.AugAssign) -> None:
    target = run.evaluate(node.target) if not isinstance(node.target, ast.Subscript) else None
    value = run.evaluate(node.value)
    if isinstance(node.target, ast.Subscript):
        _augmented_element(run, node, node.target, value)
        return
    assert target is not None
    name = dotted(node.target)
    if isinstance(node.op, ast.Add):
        accumulate.added(run, name, target, value, node)
    if target.kind is Kind.TENSOR:  # in place: the same memory
        if target.on_gpu:
            enqueue(run, node, (value,), target)
        else:
            host_reads(run, target, node)
            host_writes(run, target, node)
        graph = run.state.grad and (target.graph or value.graph)
        own = target.homemade and (value.homemade or value.kind is Kind.NUMBER)
        result = replace(target, fresh=False, graph=graph, made_by=None, homemade=own)
        if not target.on_gpu and value.on_gpu:
            result = replace(result, device=Device.GPU, sure=value.sure)
    else:
        result = combine(run, node, operator_text(node.op), target, value)
    assign(run, node.target, result)


def _augmented_element(run: Run, node: ast.AugAssign, target: ast.Subscript, value: Value) -> None:
    base = run.evaluate(target.value)
    index = run.evaluate(target.slice)
    if not base.on_gpu:
        host_reads(run, value, target)
    if base.on_gpu:
        enqueue(run, target, (value, *indices(index)), base)
    elif base.kind is Kind.TENSOR:
        host_writes(run, base, target)
        used(run, target.value, base)
    elif base.kind in (Kind.SEQUENCE, Kind.MAPPING):
        accumulate.added(run, dotted(target.value), element_of(base), value, node)


def _if(run: Run, node: ast.If) -> bool:
    with run.inside(contexts=stop_test(node)):
        truth(run, run.evaluate(node.test), node.test)
    guard = of_branch(run, node)
    other = run.state.copy()
    narrow(run, node.test)
    with run.inside(guard=guard):
        body_live = execute(run, node.body)
    after_body, run.state = run.state, other
    narrow(run, node.test, holds=False)
    with run.inside(guard=None if guard in (Guard.ONCE, Guard.ERROR) else guard):
        else_live = execute(run, node.orelse) if node.orelse else True
    if body_live and else_live:
        after_body.merge(run.state)
        run.state = after_body
    elif body_live:
        run.state = after_body
    if not body_live and not node.orelse and skips_rest(node.body, guard):
        run.guards = (*run.guards, guard)
    return body_live or else_live


def _for(run: Run, node: ast.For | ast.AsyncFor) -> None:
    over = run.evaluate(node.iter)
    if isinstance(node.iter, ast.Name | ast.Attribute):
        loader_used(run, node.iter, over)
    kind = loops.kind_of(run, over, node.iter, node.target)
    _loop(run, node, over, kind, lambda: assign(run, node.target, turn_of(over)))
    if node.orelse:
        execute(run, node.orelse)


def _while(run: Run, node: ast.While) -> None:
    def test() -> None:
        with run.inside(contexts=stop_test(node)):
            truth(run, run.evaluate(node.test), node.test)

    _loop(run, node, NONE, LoopKind.STEPS, test)
    if node.orelse:
        execute(run, node.orelse)


def _loop(
    run: Run,
    node: ast.For | ast.AsyncFor | ast.While,
    over: Value,
    kind: LoopKind,
    turn: Callable[[], None],
) -> None:
    """The body twice: silently to learn what one turn hands to the next, then for the record."""
    span = loops.header(run, node)
    before = run.state.copy()
    outer_names, run.bound_before_loop = run.bound_before_loop, frozenset(before.names)
    if not run.learning and _hands_round(run, node):
        run.learning += 1
        with run.silently(), run.inside(loop=Loop(kind, span, over)):
            turn()
            _body(run, node.body)
        run.learning -= 1
        run.state.merge(before)
    loop = Loop(kind, span, over, working=run.working)
    entry = run.state.copy()
    with run.inside(loop=loop):
        turn()
        _body(run, node.body)
    run.state.merge(entry)
    run.bound_before_loop = outer_names
    if span in run.working and all(loop.kind in _LONG for loop in run.loops):
        run.frame.looped = True


def _hands_round(run: Run, node: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Whether a turn may leave something behind that changes what the next one does."""
    if run.tracks_streams:
        return True
    if not run.recording:
        return False  # one turn tells what a called function gives, and whether it feeds the device
    if run.heat() is Heat.COLD:
        return True  # the order of device work; whether the loop feeds the device at all
    stored = run.stored.get(node)
    if stored is None:
        stored = run.stored[node] = stored_names(node)
    return not stored.isdisjoint(run.state.names)


def _body(run: Run, body: list[ast.stmt]) -> None:
    """One turn; what break and continue leave behind holds afterwards too."""
    outer, run.frame.jumps = run.frame.jumps, []
    execute(run, body)
    for jump in run.frame.jumps:
        run.state.merge(jump)
    run.frame.jumps = outer


def _with(run: Run, node: ast.With | ast.AsyncWith) -> bool:
    return entered(run, list(node.items), node, lambda: execute(run, node.body))


def _try(run: Run, node: Any) -> bool:
    before = run.state.copy()
    live = execute(run, node.body)
    if live and node.orelse:
        live = execute(run, node.orelse)
    after = run.state
    for handler in node.handlers:
        run.state = before.copy()
        # A handler may run after any statement of the body, so it sees both states.
        run.state.merge(after)
        with run.inside(guard=Guard.ERROR):
            if execute(run, handler.body):
                after.merge(run.state) if live else None
                after = after if live else run.state
                live = True
    run.state = after
    if node.finalbody:
        live = execute(run, node.finalbody) and live
    return live


def _return(run: Run, node: ast.Return) -> bool:
    value = run.evaluate(node.value) if node.value is not None else NONE
    if node.value is not None and (run.state.to_host or run.made_aside):
        leaves(run, value, node.value)
    frame = run.frame
    frame.returned = value if frame.returned is None else join(frame.returned, value)
    frame.exits.append(run.state.copy())
    return False


def _leave(run: Run, node: ast.Raise | ast.Continue | ast.Break) -> bool:
    if isinstance(node, ast.Raise) and node.exc is not None:
        with run.inside(guard=Guard.ERROR):
            run.evaluate(node.exc)
    if isinstance(node, ast.Break | ast.Continue):
        run.frame.jumps.append(run.state.copy())
    return False


def _assert(run: Run, node: ast.Assert) -> None:
    truth(run, run.evaluate(node.test), node.test)
    if node.msg is not None:
        with run.inside(guard=Guard.ERROR):
            run.evaluate(node.msg)


def _delete(run: Run, node: ast.Delete) -> None:
    for target in node.targets:
        name = dotted(target)
        if name:
            run.state.names.pop(name, None)


def _match(run: Run, node: ast.Match) -> bool:
    truth(run, run.evaluate(node.subject), node.subject)
    entry = run.state
    ends: list[State] = []
    for case in node.cases:
        run.state = entry.copy()
        with run.inside(guard=Guard.OTHER):
            if execute(run, case.body):
                ends.append(run.state)
    run.state = entry
    for end in ends:
        run.state.merge(end)
    return True


_HANDLERS: dict[type[ast.AST], Callable[[Run, Any], bool | None]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.Return: _return,
    ast.Raise: _leave,
    ast.Continue: _leave,
    ast.Break: _leave,
    ast.Assert: _assert,
    ast.Delete: _delete,
    ast.Match: _match,
    ast.FunctionDef: functions.define,
    ast.AsyncFunctionDef: functions.define,
    ast.ClassDef: classes.define,
    ast.Import: imports.import_modules,
    ast.ImportFrom: imports.import_names,
}
