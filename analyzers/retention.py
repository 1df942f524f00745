"""How sure it is that a total or a list keeps autograd graphs alive beyond their step."""

from __future__ import annotations

import ast

from analyzers.dryrun.values import Kind
from analyzers.finding import Confidence
from analyzers.timeline import Accumulated

_OFF = frozenset({"test", "on_cpu", "dataset"})


def keeps_history(event: Accumulated) -> Confidence | None:
    """None where the value has no graph, is let go of, or is differentiated through its total."""
    place, value = event.place, event.value
    function = place.function
    if value.kind is not Kind.TENSOR or not place.records_graph or not value.graph:
        return None
    if event.target_backward or not event.target_outside or place.guarded:
        return None
    if function is not None and function.roles & _OFF:
        return None
    if not (event.backward or event.feeds_backward):
        return _in_state(event)
    if not place.in_loop and event.target.isidentifier():
        return None  # a local sum of one step
    if event.backward and place.in_loop:
        return Confidence.CERTAIN.weaker(value.sure)
    return Confidence.LIKELY.weaker(value.sure) if event.backward or value.scalar else None


def _in_state(event: Accumulated) -> Confidence | None:
    """An attribute folded with itself in a network's forward(): a statistic that keeps graphs."""
    function = event.place.function
    if function is None or event.how != "fold" or "per_step" not in function.roles:
        return None
    return Confidence.POSSIBLE if event.target.startswith("self.") else None


def detached(text: str) -> str:
    """The expression without its history."""
    node = ast.parse(text.strip(), mode="eval").body
    atom = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return f"{text}.detach()" if atom else f"({text}).detach()"
