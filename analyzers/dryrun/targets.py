"""Where a call moves its operand, and moves whose end is not known."""

from __future__ import annotations

import ast

from analyzers.dryrun.run import Run
from analyzers.dryrun.syntax import dotted
from analyzers.dryrun.values import Device, Kind, Value, place_of
from analyzers.finding import Confidence
from analyzers.records import replace
from analyzers.timeline import Call, Direction, PerhapsSent


def target_of(run: Run, call: Call) -> tuple[Device | None, Confidence]:
    """The device, and how sure that is; None where only the type of the numbers changes."""
    fixed = {"gpu": Device.GPU, "host": Device.HOST}.get(call.fact.moves)
    if fixed is not None:
        return fixed, Confidence.CERTAIN
    for argument in call.arguments:
        value = argument.value
        typed = _place_of_type(run, value)
        if typed is not None:
            return typed, Confidence.CERTAIN
        if argument.name not in ("device", "other", "") or value.kind is Kind.NONE:
            continue
        if value.kind is Kind.LIBRARY or (value.kind is Kind.TEXT and not value.known):
            continue  # a dtype
        device, sure = place_of(value)
        if device is not Device.UNKNOWN:
            return device, sure
        if value.kind in (Kind.PLACE, Kind.TENSOR):
            return Device.UNKNOWN, Confidence.POSSIBLE
        if argument.keyword and argument.name == "device":
            return Device.GPU, run.for_gpu.weaker(Confidence.LIKELY)
    return None, Confidence.POSSIBLE


def _place_of_type(run: Run, value: Value) -> Device | None:
    """A class of tensors names the place of its instances, as a value or as text."""
    name = value.ref if value.kind is Kind.LIBRARY else value.constant
    fact = run.facts.find(name) if isinstance(name, str) and "." in name else None
    if fact is None or fact.name != name or not fact.upload or fact.parameters:
        return None
    return {"host": Device.HOST, "gpu": Device.GPU}.get(fact.device)


def perhaps_sent(run: Run, node: ast.Call, call: Call, operand: Value) -> Value | None:
    """What a move to an unknown place gives, for host data with a history; else None.

    The program made the numbers itself, or fetched them from the device: wherever the other end
    is, the way over host memory is one too many if it is not the host.
    """
    if operand.kind is not Kind.TENSOR or operand.device is not Device.HOST or operand.pinned:
        return None
    if not (operand.fresh or operand.homemade or operand.fetched is not None):
        return None
    sure = _names_a_place(node, call)
    if sure is None:
        return None
    result = replace(
        operand,
        device=Device.UNKNOWN,
        sure=sure,
        ident=run.new_ident(),
        fresh=False,
        homemade=False,
        fetched=None,
        made_by=call,
    )
    run.emit(PerhapsSent(call.place, Direction.TO_DEVICE, operand, result, call, blocking=True))
    return result


def _names_a_place(node: ast.Call, call: Call) -> Confidence | None:
    """How plainly an argument names another tensor, or a device, and not a type of numbers."""
    if call.fact.upload or not call.arguments:
        return None
    named = any(a.name == "other" for a in call.arguments)
    if named or any(a.value.kind in (Kind.TENSOR, Kind.PLACE) for a in call.arguments):
        return Confidence.LIKELY
    last = _last_name(node.args[0]) if node.args else ""
    if last.endswith("device"):
        return Confidence.LIKELY
    unknown = call.arguments[0].value.kind in (Kind.UNKNOWN, Kind.METHOD)
    return Confidence.POSSIBLE if unknown and last and "type" not in last else None


def _last_name(node: ast.expr) -> str:
    """The last word of what an expression is called: `settings["device"]`, `self.device`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value).lower()
    return dotted(node).rpartition(".")[2].lower()
