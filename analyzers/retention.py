"""How sure it is that a total or a list keeps autograd graphs alive beyond their step."""

from __future__ import annotations

import ast
import re

from analyzers.dryrun.values import Device, Kind
from analyzers.finding import Confidence
from analyzers.places import Function, Place
from analyzers.timeline import Accumulated

_OFF = frozenset({"test", "on_cpu", "dataset"})


def keeps_history(event: Accumulated) -> Confidence | None:
    """None where the value has no graph, is let go of, or is differentiated through its total."""
    place, value = event.place, event.value
    if event.how == "report":
        return Confidence.POSSIBLE if place.records_graph and _matters(place) else None
    if value.kind is not Kind.TENSOR or not place.records_graph or not _matters(place):
        return None
    if event.target_backward or not event.target_outside:
        return None
    if not value.graph:
        return _handed_in(event)
    if event.backward or event.feeds_backward:
        return _differentiated(event)
    return _in_state(event)


def _matters(place: Place) -> bool:
    function = place.function
    return not place.guarded and (function is None or not function.roles & _OFF)


def _differentiated(event: Accumulated) -> Confidence | None:
    """The value went through backward(): its graph is there, wherever the tensor lives."""
    in_loop = event.place.in_loop
    if not in_loop and event.target.isidentifier():
        return None  # a local sum of one step
    if event.backward:
        return Confidence.CERTAIN if in_loop else Confidence.LIKELY
    if event.value.scalar:
        return Confidence.LIKELY
    # Outputs kept beside the loss: backward() frees most of their graph, not all.
    return Confidence.POSSIBLE if event.how == "append" and in_loop else None


def _in_state(event: Accumulated) -> Confidence | None:
    """An attribute folded with itself in a network's forward(): a statistic that keeps graphs."""
    function = event.place.function
    if function is None or event.how != "fold" or "per_step" not in function.roles:
        return None
    return Confidence.POSSIBLE if event.target.startswith("self.") else None


_FOR_READERS = re.compile(r"log|hist|storage|event|metric|report|observ|record|stat|summar", re.I)


def _handed_in(event: Accumulated) -> Confidence | None:
    """A tensor of the caller's goes, as it came, into a collection that is kept for logging."""
    function, value = event.place.function, event.value
    if function is not None and event.how == "add":
        return _in_metric(event, function)
    if function is None or event.how != "append" or value.made_by is not None or value.dtype:
        return None
    kept = event.target.isupper() or event.target.startswith("self.")
    logged = kept and _FOR_READERS.search(event.target)
    return Confidence.POSSIBLE if logged and value.device is not Device.HOST else None


_UPDATES = frozenset({"update", "_update", "accumulate", "update_metric"})
_CUTS = frozenset({"detach", "item", "tolist", "numpy", "no_grad", "inference_mode"})
_MEASURED = re.compile(r"sum_of|total|loss|err|dist|accum|likelihood", re.I)


def _in_metric(event: Accumulated, function: Function) -> Confidence | None:
    """What a metric adds up over an epoch, of outputs that it is handed."""
    if function.name not in _UPDATES or not function.class_name or function.calls & _CUTS:
        return None
    measured = event.target.startswith("self.") and _MEASURED.search(event.target)
    computed = event.value.made_by is not None and event.value.device is not Device.HOST
    return Confidence.POSSIBLE if measured and computed else None


def detached(text: str) -> str:
    """The expression without its history; empty where that would not look like its author's."""
    node = ast.parse(f"({text.strip()})", mode="eval").body
    atom = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    if not atom and "\n" in text:
        return ""
    return f"{text}.detach()" if atom else f"({text}).detach()"
