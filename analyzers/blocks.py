"""Where a place stands among the statements of a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from analyzers.finding import Span
from analyzers.source import Source

Owner = ast.AST  # what a block belongs to: a module, a statement, a handler or a case


@dataclass(frozen=True, slots=True)
class Place:
    """A statement and the block that it stands in."""

    owner: Owner
    block: tuple[ast.stmt, ...]
    number: int  # in the block

    @property
    def statement(self) -> ast.stmt:
        """The statement itself."""
        return self.block[self.number]

    @property
    def first_line(self) -> int:
        """The statement's first line, that of its decorators included."""
        return first_line(self.statement)

    @property
    def is_docstring(self) -> bool:
        """Whether the statement is its owner's docstring."""
        node = self.statement
        return (
            self.number == 0
            and isinstance(
                self.owner, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            )
            and isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )


def first_line(node: ast.stmt | ast.ExceptHandler) -> int:
    """The first line of a statement, that of its decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def blocks(owner: Owner) -> Iterator[tuple[Owner, tuple[ast.stmt, ...]]]:
    """The blocks directly in a module or a statement."""
    for value in vars(owner).values():
        parts: list[object] = value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]
        statements = tuple(part for part in parts if isinstance(part, ast.stmt))
        if statements:
            yield owner, statements
        for part in parts:
            if isinstance(part, ast.ExceptHandler | ast.match_case):
                yield from blocks(part)


def statement_at(source: Source, span: Span) -> Place | None:
    """The innermost statement that holds all of the span."""
    found: Place | None = None
    owner: Owner | None = source.tree
    while owner is not None:
        places = (
            Place(inner, block, number)
            for inner, block in blocks(owner)
            for number in range(len(block))
        )
        inner = next((place for place in places if _holds(source, place, span)), None)
        found, owner = inner or found, inner and inner.statement
    return found


def _holds(source: Source, place: Place, span: Span) -> bool:
    node = place.statement
    if place.first_line > span.line or (node.end_lineno or node.lineno) < span.end_line:
        return False
    whole = source.span(node)
    starts = place.first_line < whole.line or (whole.line, whole.column) <= (span.line, span.column)
    return starts and (span.end_line, span.end_column) <= (whole.end_line, whole.end_column)


def in_f_string(source: Source, span: Span) -> bool:
    """Whether the span is part of an f-string."""
    place = statement_at(source, span)
    if place is None:
        return False
    return any(
        isinstance(node, ast.JoinedStr) and _within(span, source.span(node))
        for node in ast.walk(place.statement)
    )


def _within(inner: Span, outer: Span) -> bool:
    return (outer.line, outer.column) <= (inner.line, inner.column) and (
        inner.end_line,
        inner.end_column,
    ) <= (outer.end_line, outer.end_column)
