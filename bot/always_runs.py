"""Whether an expression runs whenever its line does: what a line's trace proves about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from analyzers.finding import Span


def always_runs(text: str, span: Span) -> bool:
    """Whether what stands at `span` cannot be skipped once its line has begun to run."""
    lines = text.splitlines()
    if not 0 < span.line <= len(lines) or not lines[span.line - 1].isascii():
        return False  # columns count bytes here
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    statements = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and _holds(n, span)]
    if not statements:
        return False
    inner = min(statements, key=lambda n: (n.end_lineno or n.lineno) - n.lineno)
    alone = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno == inner.lineno]
    if len(alone) > 1:
        return False  # `if x: y` and `x; y`: the line runs, and perhaps not all of it
    return not any(_holds(part, span) for part in _skipped(inner))


def _holds(node: ast.stmt | ast.expr, span: Span) -> bool:
    start = (node.lineno, node.col_offset)
    end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return start <= (span.line, span.column) < end


def _skipped(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions in it that may be left out."""
    for node in ast.walk(statement):
        match node:
            case ast.IfExp(body=one, orelse=other):
                yield from (one, other)
            case ast.BoolOp(values=[_, *rest]) | ast.Compare(comparators=[_, *rest]):
                yield from rest
            case ast.Lambda(body=body):
                yield body
            case ast.Assert(msg=ast.expr() as message):
                yield message
            case ast.match_case(guard=ast.expr() as guard):
                yield guard
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                yield from _skipped_by(node)
            case _:
                continue


def _skipped_by(
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp,
) -> Iterator[ast.expr]:
    """All of a comprehension but what it runs over."""
    yield from (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
    for number, each in enumerate(node.generators):
        yield from each.ifs
        if number:
            yield each.iter
