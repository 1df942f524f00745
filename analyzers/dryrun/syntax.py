"""Small questions to syntax trees: which nodes are below, what a chain of names is called."""

from __future__ import annotations

import ast

# Fields that never hold a node worth a visit.
_PLAIN_FIELDS = frozenset(
    {"ctx", "op", "ops", "id", "attr", "arg", "name", "asname", "module", "level", "names", "kind"}
    | {"conversion", "type_comment", "is_async", "simple", "type_ignores", "rest", "kwd_attrs"}
)


class _Parts(dict[type, tuple[str, ...]]):
    """The fields of a class of nodes that may hold other nodes; of anything else none."""

    def __missing__(self, cls: type) -> tuple[str, ...]:
        names: tuple[str, ...] = getattr(cls, "_fields", ())
        self[cls] = found = tuple(name for name in names if name not in _PLAIN_FIELDS)
        return found


PARTS = _Parts({ast.Constant: ()})


def walk(node: ast.AST) -> list[ast.AST]:
    """All nodes below and including this one, outer ones first; no operators and contexts."""
    found = [node]
    for part in found:  # grows on the way
        for name in PARTS[part.__class__]:
            child = getattr(part, name)
            if child.__class__ is list:
                found += filter(None, child)  # a mapping has None for the key of `**rest`
            elif child is not None:
                found.append(child)
    return found


def dotted(node: ast.expr) -> str:
    """`a.b.c` for a chain of plain names, else an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    parts.append(node.id)
    return ".".join(reversed(parts))


def stored_names(loop: ast.AST) -> frozenset[str]:
    """The names and dotted paths that the body of a loop binds or fills."""
    found: set[str] = set()
    for node in walk(loop):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            found.add(dotted(node if isinstance(node, ast.Attribute) else node.value))
        elif isinstance(node, ast.Call) and _fills(node.func):
            found.add(dotted(node.func.value) if isinstance(node.func, ast.Attribute) else "")
    return frozenset(found)


def _fills(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr in _FILLS


_FILLS = frozenset({"append", "extend", "insert", "add", "update"})


def leftmost(node: ast.expr) -> ast.expr:
    """The first operand of a chain of operators."""
    while isinstance(node, ast.BinOp):  # (loss / steps).backward()
        node = node.left
    return node


def arguments_of(node: ast.expr) -> list[ast.expr]:
    """The positional arguments of a call; none of anything else."""
    return node.args if isinstance(node, ast.Call) else []
