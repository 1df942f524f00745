"""How sure it is that a total or a list keeps autograd graphs alive beyond their step."""

from __future__ import annotations

import ast

from analyzers.dryrun.values import Kind
from analyzers.finding import Confidence
from analyzers.timeline import Accumulated, Place

_OFF = frozenset({"test", "on_cpu", "dataset"})


def keeps_history(event: Accumulated) -> Confidence | None:
    """None where the value has no graph, is let go of, or is differentiated through its total."""
    place, value = event.place, event.value
    if value.kind is not Kind.TENSOR or not place.records_graph or not value.graph:
        return None
    if event.target_backward or not event.target_outside or not _matters(place):
        return None
    if not (event.backward or event.feeds_backward):
        return _in_state(event)
    if not place.in_loop and event.target.isidentifier():
        return None  # a local sum of one step
    # The graph is there wherever the tensor lives, so the device does not matter.
    if event.backward:
        return Confidence.CERTAIN if place.in_loop else Confidence.LIKELY
    return Confidence.LIKELY if value.scalar else None


def _matters(place: Place) -> bool:
    function = place.function
    return not place.guarded and (function is None or not function.roles & _OFF)


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
