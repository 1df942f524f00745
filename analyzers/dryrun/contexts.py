"""With-statements: streams, device guards, no_grad, graph capture."""

from __future__ import annotations

import ast
from collections.abc import Callable

from analyzers.aside import EnteredAside
from analyzers.dryrun.binding import assign
from analyzers.dryrun.hazards import MAYBE
from analyzers.dryrun.run import Run
from analyzers.dryrun.streams import ANY
from analyzers.dryrun.syntax import dotted, walk
from analyzers.dryrun.values import UNKNOWN, Kind, Value
from analyzers.records import replace


def entered(run: Run, items: list[ast.withitem], node: ast.AST, body: Callable[[], bool]) -> bool:
    """Walk `body` inside the contexts of `items`; whether its end can be reached."""
    if not items:
        return body()
    item = items[0]
    value = run.evaluate(item.context_expr)
    expression = item.context_expr
    if value.kind is Kind.CONTEXT and isinstance(expression, ast.Call) and expression.args:
        expression = expression.args[0]
    if item.optional_vars is not None:
        bound = value if value.kind in (Kind.STREAM, Kind.UNKNOWN) else UNKNOWN
        assign(run, item.optional_vars, bound)

    def rest() -> bool:
        return entered(run, items[1:], node, body)

    if value.kind is Kind.STREAM:  # with stream: … (CuPy, PyCUDA)
        with run.inside(stream=_entered_stream(run, value, expression, node)):
            return rest()
    if value.kind is Kind.PLACE:  # with torch.device(…), with cp.cuda.Device(…)
        with run.inside(device_guard=True, contexts=frozenset({"device_guard"})):
            return rest()
    named = _named_stream(item.context_expr) if value.kind is Kind.UNKNOWN else None
    if named is not None:  # a wrapper of the project: with stream_context(side)
        given = run.evaluate(named)
        given = given if given.kind is Kind.STREAM else UNKNOWN
        with run.inside(stream=_entered_stream(run, given, named, node)):
            return rest()
    if value.kind is not Kind.CONTEXT:
        with run.inside(device_guard=_guards_device(run, item.context_expr)):
            return rest()
    if value.type == "stream_context":
        given = value.ref if isinstance(value.ref, Value) else UNKNOWN
        if given.kind is Kind.NONE:
            return rest()
        stream = _entered_stream(run, given, expression, node)
        if expression is item.context_expr:  # `with context:` does not name the stream
            run.entered.pop(str(stream.ref), None)
        with run.inside(stream=stream, contexts=frozenset({value.type})):
            return rest()
    return _known_context(run, value, rest)


def _named_stream(node: ast.expr) -> ast.expr | None:
    """The stream that a context of unknown origin is called with, where both are called so."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return None
    names = [dotted(one).rpartition(".")[2].lower() for one in (node.func, node.args[0])]
    return node.args[0] if all("stream" in name for name in names) else None


def _guards_device(run: Run, node: ast.expr) -> bool:
    """A context of the project whose name says that it makes a device current."""
    callee = node.func if isinstance(node, ast.Call) else node
    names = {
        n.attr if isinstance(n, ast.Attribute) else n.id
        for n in walk(callee)
        if isinstance(n, ast.Attribute | ast.Name)
    }
    words = run.facts.names.get("device_guards", ())
    return any(word in name.lower() for name in names for word in words)


def _entered_stream(run: Run, stream: Value, expression: ast.expr, node: ast.AST) -> Value:
    """The stream that becomes current; one that is not known gets a name of its own."""
    path = dotted(expression)
    if not isinstance(stream.ref, str):
        name = f"{MAYBE}{path}" if path else ANY
        stream = Value(Kind.STREAM, type=stream.type, ref=name)
        if path:
            run.state.names[path] = stream
    library = stream.type.partition(".")[0]
    if library in run.facts.names.get("waits_on_entry", ()):
        run.state.order.stream_waits(str(stream.ref), run.stream_for(library))
    if stream.ref and stream.ref != ANY:
        run.entered[stream.ref] = (run.span(expression), run.span(node))
        if run.recording and library not in run.facts.names.get("own_streams", ()):
            run.emit(EnteredAside(run.place(node), run.span(node), run.span(expression)))
    return stream


def _known_context(run: Run, value: Value, rest: Callable[[], bool]) -> bool:
    effect = value.type
    if effect in ("no_grad", "grad_on"):
        saved, run.state.grad = run.state.grad, effect == "grad_on"
        with run.inside(contexts=frozenset({effect})):
            live = rest()
        run.state.grad = saved
        return live
    if effect == "capture":  # what is captured goes to a stream of its own
        captured = Value(Kind.STREAM, ref=ANY)
        with run.inside(stream=captured, contexts=frozenset({effect})):
            return rest()
    if effect == "device_guard":
        with run.inside(device_guard=True, contexts=frozenset({effect})):
            return rest()
    with run.inside(contexts=frozenset({effect})):
        live = rest()
    if effect == "profiler":  # at its end it waits for what it has recorded
        run.state.waited = run.state.read_back = run.tick()
    return live


def switched_grad(run: Run, value: Value) -> None:
    """A call with True or False, not used as a context, switches autograd from here on."""
    given = value.ref if isinstance(value.ref, Value) else UNKNOWN
    if value.type in ("no_grad", "grad_on") and given.constant in (True, False):
        run.state.grad = value.type == "grad_on"


def context(effect: str, argument: Value | None = None) -> Value:
    """What a call of a context manager gives: its effect and what it was called with."""
    return replace(Value(Kind.CONTEXT, type=effect), ref=argument)
