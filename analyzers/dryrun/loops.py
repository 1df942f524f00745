"""What kind of loop it is, and how often its body runs."""

from __future__ import annotations

import ast

from analyzers.dryrun.run import Run
from analyzers.dryrun.values import Kind, Value
from analyzers.timeline import LoopKind

_FEW = 4  # a literal with at most so many entries is a handful


def kind_of(run: Run, over: Value, node: ast.expr, target: ast.expr) -> LoopKind:
    """What a for-loop over this value goes over."""
    words = _words(node) | _words(target)
    names = run.facts.names
    if words & set(names.get("few", ())):
        return LoopKind.FEW
    if words & set(names.get("epochs", ())):
        return LoopKind.EPOCHS
    if over.kind is Kind.LOADER or words & set(names.get("loader", ())):
        return LoopKind.DATA
    if over.items is not None and len(over.items) <= _FEW:
        return LoopKind.FEW
    if over.type == "range":
        if isinstance(over.constant, int) and over.constant <= _FEW:
            return LoopKind.FEW
        return LoopKind.STEPS
    return LoopKind.ITEMS


def _words(node: ast.expr) -> set[str]:
    """The names written in an expression, whole and by their parts."""
    words: set[str] = set()
    for part in ast.walk(node):
        name = ""
        if isinstance(part, ast.Name):
            name = part.id
        elif isinstance(part, ast.Attribute):
            name = part.attr
        if name:
            words.add(name.lower())
    return words
