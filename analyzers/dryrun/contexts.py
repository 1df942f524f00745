"""With-statements: streams, device guards, no_grad, graph capture."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from analyzers.dryrun.binding import assign
from analyzers.dryrun.run import Run
from analyzers.dryrun.values import UNKNOWN, Kind, Value


def entered(run: Run, items: list[ast.withitem], node: ast.AST, body: Callable[[], bool]) -> bool:
    """Walk `body` inside the contexts of `items`; whether its end can be reached."""
    if not items:
        return body()
    item = items[0]
    value = run.evaluate(item.context_expr)
    if item.optional_vars is not None:
        bound = value if value.kind in (Kind.STREAM, Kind.UNKNOWN) else UNKNOWN
        assign(run, item.optional_vars, bound)

    def rest() -> bool:
        return entered(run, items[1:], node, body)

    if value.kind is Kind.STREAM:  # with stream: … (CuPy, PyCUDA)
        with run.inside(stream=value):
            return rest()
    if value.kind is not Kind.CONTEXT:
        return rest()
    return _known_context(run, value, rest)


def _known_context(run: Run, value: Value, rest: Callable[[], bool]) -> bool:
    effect = value.type
    if effect in ("no_grad", "grad_on"):
        saved, run.state.grad = run.state.grad, effect == "grad_on"
        with run.inside(contexts=frozenset({effect})):
            live = rest()
        run.state.grad = saved
        return live
    if effect == "stream_context":
        stream = value.ref if isinstance(value.ref, Value) else UNKNOWN
        with run.inside(stream=stream, contexts=frozenset({effect})):
            return rest()
    if effect == "device_guard":
        with run.inside(device_guard=True, contexts=frozenset({effect})):
            return rest()
    with run.inside(contexts=frozenset({effect})):
        return rest()


def context(effect: str, argument: Value | None = None) -> Value:
    """What a call of a context manager gives: its effect and what it was called with."""
    return replace(Value(Kind.CONTEXT, type=effect), ref=argument)
