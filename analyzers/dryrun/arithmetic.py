"""Arithmetic: what operators give, and how a number came about."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from analyzers.dryrun.run import Run
from analyzers.dryrun.values import MISSING, TEXT, UNKNOWN, Device, Kind, Value, element_of, join
from analyzers.dryrun.work import elementwise
from analyzers.finding import Span
from analyzers.records import record, replace


@record
class Arithmetic:
    """How a number was computed, for rules that check grids and sizes."""

    operator: str  # "//", "+", …
    left: Value
    right: Value
    span: Span

    @property
    def likeness(self) -> tuple[object, ...]:
        """Equal for what the same expression gives when it is evaluated again."""
        return (self.operator, self.span)


def combine(run: Run, node: ast.AST, operator: str, left: Value, right: Value) -> Value:
    """The result of an arithmetic operator."""
    if Kind.TENSOR in (left.kind, right.kind):
        result = elementwise(run, node, (left, right))
        number = Kind.NUMBER in (left.kind, right.kind) and operator not in ("&", "|", "^")
        return replace(result, dtype="") if number and result.dtype == "bool" else result
    if left.kind is Kind.NUMBER and right.kind is Kind.NUMBER:
        known = _fold(operator, left.constant, right.constant)
        counts_bytes = (left.bytes or right.bytes) and operator in ("+", "*", "-")
        if operator == "*" and "width" in (left.unit, right.unit):
            counts_bytes = True
        derived = Arithmetic(operator, left, right, run.span(node))
        return Value(
            Kind.NUMBER, device=Device.HOST, constant=known, bytes=counts_bytes, ref=derived
        )
    if left.kind is Kind.TEXT and right.kind is Kind.TEXT:
        return TEXT
    if left.kind is Kind.SEQUENCE and right.kind is Kind.SEQUENCE:
        return Value(Kind.SEQUENCE, element=join(element_of(left), element_of(right)))
    fetched = left.fetched or right.fetched
    if operator and (left.kind is Kind.NUMBER or right.kind is Kind.NUMBER):
        # An unknown operand may be a tensor as well as a number; sizes are usually numbers.
        return Value(ref=Arithmetic(operator, left, right, run.span(node)), fetched=fetched)
    return Value(fetched=fetched) if fetched is not None else UNKNOWN


def _fold(operator: str, left: Any, right: Any) -> object:
    compute = _FOLDABLE.get(operator)
    if compute is None or left is MISSING or right is MISSING:
        return MISSING
    try:
        result = compute(left, right)
    except (ArithmeticError, TypeError, ValueError):
        return MISSING
    # Huge powers would cost time and memory for nothing.
    return result if isinstance(result, int | float) and abs(result) < 1e15 else MISSING


_FOLDABLE: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}


def operator_text(operator: ast.operator) -> str:
    """The operator as it is written."""
    return _OPERATORS.get(type(operator), "")
