"""What kind of loop it is, and how often its body runs."""

from __future__ import annotations

import ast

from analyzers.dryrun.run import Run
from analyzers.dryrun.syntax import walk
from analyzers.dryrun.values import Kind, Value
from analyzers.finding import Span
from analyzers.places import LoopKind

_FEW = 4  # a literal with at most so many entries is a handful


def kind_of(run: Run, over: Value, node: ast.expr, target: ast.expr) -> LoopKind:
    """What a for-loop over this value goes over."""
    words = run.words.get(node)
    if words is None:
        words = run.words[node] = _words(node) | _words(target)
    names = run.facts.names
    if _goes_over_few(run, node, words):
        return LoopKind.FEW
    if not words.isdisjoint(names.get("epochs", ())):
        return LoopKind.EPOCHS
    if over.kind is Kind.LOADER or not words.isdisjoint(names.get("loader", ())):
        return LoopKind.DATA
    if over.items is not None and len(over.items) <= _FEW:
        return LoopKind.FEW
    if over.type == "range":
        if isinstance(over.constant, int) and over.constant <= _FEW:
            return LoopKind.FEW
        return LoopKind.STEPS
    return LoopKind.ITEMS


def _goes_over_few(run: Run, node: ast.expr, words: set[str]) -> bool:
    """Devices, streams, models …; a zip of them with something else is a loop over that."""
    few = set(run.facts.names.get("few", ()))
    if words.isdisjoint(few):
        return False
    pairs = any(isinstance(part, ast.Call) and len(part.args) > 1 for part in ast.walk(node))
    plain = {word for word in _words(node) if run.facts.find(f"builtins.{word}") is None}
    return not pairs or plain <= few | {"self"}


def _words(node: ast.expr) -> set[str]:
    """The names written in an expression, attributes included."""
    words: set[str] = set()
    for part in walk(node):
        if isinstance(part, ast.Name):
            words.add(part.id.lower())
        elif isinstance(part, ast.Attribute):
            words.add(part.attr.lower())
    return words


def header(run: Run, node: ast.For | ast.AsyncFor | ast.While) -> Span:
    """The first line of a loop."""
    span = run.span(node)
    first = node.body[0].lineno
    if first == span.line:
        return span
    return Span(span.line, span.column, span.line, len(run.source.lines[span.line - 1]))
