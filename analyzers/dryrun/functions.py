"""Functions of the file: defined, called with actual values, and walked on their own."""

from __future__ import annotations

import ast

from analyzers.dryrun import roles
from analyzers.dryrun.frame import Frame
from analyzers.dryrun.parameters import expected
from analyzers.dryrun.run import MAX_DEPTH, Run
from analyzers.dryrun.scan import FunctionInfo, Outcome
from analyzers.dryrun.state import State
from analyzers.dryrun.values import NONE, UNKNOWN, Kind, Value, element_of, join
from analyzers.finding import Confidence
from analyzers.places import Heat
from analyzers.records import replace


def define(run: Run, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Bind the function; its body is walked when it is called, and once on its own."""
    run.bind(node.name, prepare(run, node))


def prepare(run: Run, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
    """The value of a definition: its decorators and defaults are evaluated here."""
    info = run.scan.functions[node]
    info.decorators = tuple(run.evaluate(d) for d in node.decorator_list)
    info.closure = {**run.frame.closure, **run.state.names} if run.frame.info else {}
    for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
        run.evaluate(default)
    return roles.decorated(run, info)


def call_local(
    run: Run,
    info: FunctionInfo,
    node: ast.Call,
    arguments: list[tuple[str, Value]],
    receiver: Value | None = None,
) -> Value:
    """What a call of a function of this file gives, followed with the actual arguments."""
    given = _bind_arguments(info, arguments, receiver)
    if run.recording:
        info.given.append(given)
        info.called_at.append(run.heat())
        info.called_guarded.append(run.guarded_device)
        info.recorded.append(run.state.grad)
        roles.called(run, info)
    if run.depth >= MAX_DEPTH or info.kernel or run.exhausted() or _active(run, info):
        return UNKNOWN
    if info.ordering or run.state.side_work or _reads_clock(run, info):
        # What it does depends on what is under way.
        site = run.site
        if run.recording and hasattr(node, "lineno"):
            run.site, run.site_learning = run.place(node), run.learning
        result = _follow(run, info, given, receiver)
        run.site = site
        return result
    key = (tuple((name, given[name].likeness) for name in sorted(given)), run.state.grad)
    known = info.memo.get(key)
    if known is not None:
        if known.worked is not None:
            run.state.work = replace(known.worked, order=run.tick())
            run.mark_work()
        if known.waited:
            run.state.waited = run.state.read_back = run.tick()
        return known.result
    before_work, before_wait = run.state.work, run.state.waited
    result = _follow(run, info, given, receiver)
    state = run.state
    worked = state.work if state.work is not before_work else None
    # Only a wait after the last work frees the caller from waiting itself.
    done = state.waited > (worked.order if worked is not None else before_wait)
    info.memo[key] = Outcome(result, worked, done)
    return result


def _reads_clock(run: Run, info: FunctionInfo) -> bool:
    clocks = run.facts.names.get("clock_functions", ())
    return info.owner is not None and not info.calls.isdisjoint(clocks)


def _active(run: Run, info: FunctionInfo) -> bool:
    return info in run.active


def _bind_arguments(
    info: FunctionInfo, arguments: list[tuple[str, Value]], receiver: Value | None
) -> dict[str, Value]:
    names = [p.arg for p in info.parameters]
    static = any(
        isinstance(d.ref, str) and d.ref.endswith(".staticmethod") for d in info.decorators
    )
    given: dict[str, Value] = {}
    position = 0
    if receiver is not None and info.owner is not None and not static and names:
        given[names[0]] = receiver
        position = 1
    positional = [*info.node.args.posonlyargs, *info.node.args.args]
    for name, value in arguments:
        if name == "*":
            for parameter in positional[position:]:
                given.setdefault(parameter.arg, element_of(value))
        elif name:
            if name in names:
                given[name] = value
        elif position < len(positional):
            given[positional[position].arg] = _handed(value)
            position += 1
    return given


def _handed(value: Value) -> Value:
    """A value as the called function sees it: how it was made is the caller's affair.

    Only batches keep their loader, so that a move anywhere is known to be a move of them.
    """
    if value.made_by is None or value.made_by.fact.kind == "loader":
        return value
    return replace(value, made_by=None, fresh=False)


def _follow(run: Run, info: FunctionInfo, given: dict[str, Value], receiver: Value | None) -> Value:
    from analyzers.dryrun.statements import execute

    outer_frame, outer_state = run.frame, run.state
    saved = (run.loops, run.guards)
    run.frame = _frame(run, info, outer_frame.heat, receiver)
    run.state = outer_state.called()
    run.state.grad = run.state.grad and "no_grad" not in info.roles
    run.depth += 1
    run.active.add(info)
    with run.silently():
        _set_parameters(run, info, given)
        live = execute(run, info.node.body)
    result = _result(run, live)
    grad = outer_state.grad
    outer_state.returned(_end_state(run))
    outer_state.grad = grad
    run.active.discard(info)
    run.depth -= 1
    run.frame, run.state = outer_frame, outer_state
    run.loops, run.guards = saved
    return result


def _result(run: Run, live: bool) -> Value:
    returned = run.frame.returned
    if returned is None:
        return NONE
    return join(returned, NONE) if live and returned.kind is not Kind.SEQUENCE else returned


def _end_state(run: Run) -> State:
    state = run.state
    for end in run.frame.exits:
        state.order.merge(end.order)
        for mine, theirs in (
            (state.to_host, end.to_host),
            (state.to_device, end.to_device),
        ):
            mine.update(theirs)
        state.uses_merge(end)
        if end.work is not None and (state.work is None or end.work.order > state.work.order):
            state.work = end.work
        state.waited = max(state.waited, end.waited)
        state.read_back = max(state.read_back, end.read_back)
    return state


def _frame(run: Run, info: FunctionInfo, heat: Heat, receiver: Value | None) -> Frame:
    owner = info.owner
    names = [p.arg for p in info.parameters]
    is_method = owner is not None and bool(names) and "static" not in info.roles
    return Frame(
        info,
        roles.describe(run, info),
        heat,
        self_class=owner if is_method else None,
        self_name=names[0] if is_method else "",
        closure=info.closure,
    )


def _set_parameters(run: Run, info: FunctionInfo, given: dict[str, Value]) -> None:
    names = run.state.names
    for parameter in info.parameters:
        value = given.get(parameter.arg)
        if value is None or value.kind is Kind.UNKNOWN:
            guessed = expected(run, info, parameter)
            value = guessed if value is None or guessed.kind is not Kind.UNKNOWN else value
        names[parameter.arg] = value
    a = info.node.args
    if a.vararg is not None:
        names[a.vararg.arg] = Value(Kind.SEQUENCE)
    if a.kwarg is not None:
        names[a.kwarg.arg] = Value(Kind.MAPPING)


def _records(run: Run, info: FunctionInfo) -> bool:
    """Whether autograd is on: not where a decorator, every caller or the module turned it off."""
    if "no_grad" in info.roles or run.grad_off:
        return False
    return not info.recorded or any(info.recorded)


def walk(run: Run, info: FunctionInfo) -> None:
    """Walk the function on its own, for the record, with what its callers hand in."""
    from analyzers.dryrun.statements import execute

    run.state = State(grad=_records(run, info))
    run.frame = _frame(run, info, roles.heat_of(run, info), None)
    run.loops, run.guards, run.contexts, run.streams = (), (), frozenset(), ()
    always = bool(info.called_guarded) and all(info.called_guarded)
    run.guarded_device = always or "device_guard" in info.roles
    if "no_grad" in info.roles:
        run.contexts = frozenset({"no_grad"})
    run.active = {info}
    given: dict[str, Value] = {}
    for site in info.given:
        for name, value in site.items():
            given[name] = join(given[name], value) if name in given else value
    _set_parameters(run, info, given)
    execute(run, info.node.body)
    if info.owner is not None:
        _call_again(run, info, given)


def _call_again(run: Run, info: FunctionInfo, given: dict[str, Value]) -> None:
    """The method runs once more, behind copies of its first call that nothing has waited for."""
    from analyzers.dryrun.statements import execute

    state = _end_state(run)
    attributes = {v.ident for v in info.owner.attributes.values()} if info.owner else set[int]()
    under_way = {
        ident: replace(unfinished, sure=unfinished.sure.weaker(Confidence.LIKELY))
        for ident, unfinished in state.to_device.items()
        if ident in attributes and not state.order.done(unfinished.operation)
    }
    if not under_way or not run.recording:
        return
    run.called_again = True
    with run.silently():
        run.state = State(order=state.order, to_device=dict(under_way), grad=state.grad)
        run.frame.exits.clear()
        _set_parameters(run, info, given)
        execute(run, info.node.body)
        for other in _refillers(info, set(under_way)):
            maybe = {
                ident: replace(unfinished, sure=Confidence.POSSIBLE)
                for ident, unfinished in run.state.to_device.items()
                if ident in under_way
            }
            run.state = State(order=state.order, to_device=maybe, grad=state.grad)
            run.frame = _frame(run, other, Heat.UNKNOWN, None)
            _set_parameters(run, other, {})
            execute(run, other.node.body)
    run.called_again = False


def _refillers(info: FunctionInfo, idents: set[int]) -> list[FunctionInfo]:
    """Other methods that change what the copies read, in a class that waits for nothing."""
    owner = info.owner
    if owner is None or any(not _WAITS.isdisjoint(m.members) for m in owner.methods.values()):
        return []
    names = {name for name, value in owner.attributes.items() if value.ident in idents}
    return [
        method
        for method in owner.methods.values()
        if method is not info
        and not method.name.startswith("__")
        and not names.isdisjoint(owner.written & method.members)
    ]


_WAITS = frozenset({"synchronize", "wait", "query", "wait_event", "wait_stream"})
