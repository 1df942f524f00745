"""Edits that rules propose: each gives an `Edit`, or None where it can't be done without loss.

Statements are edited by lines: their places come from the tree, and what else stands on their
lines from the tokens. Expressions are edited in `call_edits.py`. A fix says what to change and
never checks its own effect; that is `proof.py`'s part.
"""

from __future__ import annotations

import ast
import re

from analyzers.blocks import Place, statement_at
from analyzers.call_edits import (
    add_keyword,
    remove_keyword,
    rename_call,
    replace_expression,
    set_keyword,
)
from analyzers.finding import Edit, Span
from analyzers.source import Source, split_lines
from analyzers.tokens import Kind, NotTokens, Token, tokens

__all__ = [
    "add_keyword",
    "delete_statement",
    "insert_after",
    "insert_before",
    "remove_keyword",
    "rename_call",
    "replace_expression",
    "set_keyword",
    "wrap_statements",
]

_LINE_END = re.compile(r"\r\n|\r|\n")
_ENDS_BLOCK = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def delete_statement(source: Source, statement: Span) -> Edit | None:
    """Remove the statement with its lines; `pass` takes its place where a block would be empty."""
    place = _place(source, statement)
    if place is None or _has_comment(source, place):
        return None
    whole = source.span(place.statement)
    start = _start(source, place)
    if len(place.block) == 1 and not isinstance(place.owner, ast.Module):
        if _is_elif(source, place):
            return None
        return Edit(Span(*start, whole.end_line, whole.end_column), "pass")
    if _alone_on_lines(source, place):
        return _lines_edit(source, place.first_line, whole.end_line)
    return _delete_from_row(source, place, whole)


def insert_before(source: Source, statement: Span, text: str) -> Edit | None:
    """Put lines above the statement that holds the span, at its depth."""
    place = statement_at(source, statement)
    if place is None or not _starts_line(source, place) or _is_elif(source, place):
        return None
    if place.is_docstring or _is_future_import(place.statement):
        return None
    line = place.first_line
    # A comment that speaks to a tool about the line below must go on standing right above it.
    while line > 1 and _SPEAKS_TO_TOOL.match(source.lines[line - 2]):
        line -= 1
    column = 1 if line == 1 and source.text.startswith("\ufeff") else 0
    indent = source.indent_of(place.first_line)
    new = _indented(source, text, indent) + _line_end(source)
    return Edit(Span(line, column, line, column), new)


_SPEAKS_TO_TOOL = re.compile(
    r"[ \t]*#\s*(hostside|noqa|type|pyright|pylint|fmt|ruff|isort)\b", re.I
)


def insert_after(source: Source, statement: Span, text: str) -> Edit | None:
    """Put lines below the statement that holds the span, at its depth."""
    place = statement_at(source, statement)
    if place is None or not _alone_on_lines(source, place) or _is_elif(source, place):
        return None
    following = place.block[place.number + 1 : place.number + 2]
    if isinstance(place.statement, _ENDS_BLOCK) or any(map(_is_future_import, following)):
        return None
    end = source.span(place.statement).end_line
    new = _indented(source, text, source.indent_of(place.first_line))
    if end == len(source.lines) and source.starts[-1] == source.offset(end, len(source.lines[-1])):
        column = len(source.lines[-1])  # no line end closes the file
        return Edit(Span(end, column, end, column), _line_end(source) + new)
    return Edit(Span(end + 1, 0, end + 1, 0), new + _line_end(source))


def wrap_statements(source: Source, first: Span, last: Span, header: str) -> Edit | None:
    """Put the statements of one block that hold the spans, and all between, under `header`."""
    start, end = statement_at(source, first), statement_at(source, last)
    if start is None or end is None or start.block != end.block:
        return None
    chosen = [Place(start.owner, start.block, n) for n in range(start.number, end.number + 1)]
    if not chosen or not all(_may_move(source, place) for place in chosen):
        return None
    top, bottom = start.first_line, end.statement.end_lineno or end.statement.lineno
    if _has_string_over_lines(source, top, bottom) or source.lines[top - 1].startswith("\ufeff"):
        return None
    indent = source.indent_of(top)
    unit = "\t" if indent.startswith("\t") else _indent_unit(source)
    lines = [_deeper(line, indent, unit) for line in source.lines[top - 1 : bottom]]
    text = _line_end(source).join([indent + header, *lines])
    return Edit(Span(top, 0, bottom, len(source.lines[bottom - 1])), text)


def _deeper(line: str, indent: str, unit: str) -> str:
    if not line.strip():
        return line
    return indent + unit + line.removeprefix(indent) if line.startswith(indent) else unit + line


def _place(source: Source, statement: Span) -> Place | None:
    """The statement that the span is, exactly."""
    place = statement_at(source, statement)
    return place if place and source.span(place.statement) == statement else None


def _start(source: Source, place: Place) -> tuple[int, int]:
    """Where a statement starts, its decorators included."""
    whole = source.span(place.statement)
    line = place.first_line
    return (line, len(source.indent_of(line))) if line < whole.line else (line, whole.column)


def _starts_line(source: Source, place: Place) -> bool:
    line, column = _start(source, place)
    continues = line > 1 and source.lines[line - 2].endswith("\\")
    return not continues and not source.lines[line - 1][:column].strip(" \t\f\ufeff")


def _alone_on_lines(source: Source, place: Place) -> bool:
    whole = source.span(place.statement)
    rest = source.lines[whole.end_line - 1][whole.end_column :].strip(" \t\f;")
    return _starts_line(source, place) and (not rest or rest.startswith("#"))


def _may_move(source: Source, place: Place) -> bool:
    """Whether a statement may stand in a block of its own."""
    held = place.is_docstring or _is_future_import(place.statement) or _is_elif(source, place)
    return not held and _alone_on_lines(source, place)


def _is_elif(source: Source, place: Place) -> bool:
    line, column = _start(source, place)
    return isinstance(place.statement, ast.If) and source.lines[line - 1].startswith("elif", column)


def _is_future_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _lines_edit(source: Source, first: int, last: int) -> Edit:
    """Delete whole lines."""
    column = 1 if first == 1 and source.text.startswith("\ufeff") else 0
    return Edit(Span(first, column, last + 1, 0), "")


def _delete_from_row(source: Source, place: Place, whole: Span) -> Edit | None:
    """Delete one of several statements on a line, with a semicolon."""
    rest = source.lines[whole.end_line - 1][whole.end_column :]
    after = re.match(r"[ \t]*;[ \t]*", rest)
    line, column = whole.line, whole.column
    if after and rest.endswith("\\"):
        return None
    if after and rest[after.end() :].strip():
        return Edit(Span(line, column, whole.end_line, whole.end_column + after.end()), "")
    before = re.search(r"[ \t]*;[ \t]*$", source.lines[line - 1][:column])
    if before is None:
        return None
    return Edit(Span(line, before.start(), whole.end_line, whole.end_column), "")


def _tokens_of(source: Source, first: int, last: int) -> tuple[Token, ...] | None:
    """The tokens of whole lines."""
    try:
        return tuple(tokens(source.segment(Span(first, 0, last + 1, 0))))
    except NotTokens:
        return None


def _has_comment(source: Source, place: Place) -> bool:
    last = place.statement.end_lineno or place.statement.lineno
    found = _tokens_of(source, place.first_line, last)
    return found is None or any(token.kind is Kind.COMMENT for token in found)


def _has_string_over_lines(source: Source, first: int, last: int) -> bool:
    found = _tokens_of(source, first, last)
    strings = (Kind.STRING, Kind.F_TEXT, Kind.F_SPEC)
    return found is None or any(
        _LINE_END.search(token.text) for token in found if token.kind in strings
    )


def _line_end(source: Source) -> str:
    """The line end that the file uses first."""
    match = _LINE_END.search(source.text)
    return match[0] if match else "\n"


def _indented(source: Source, text: str, indent: str) -> str:
    lines = [indent + line if line.strip() else line for line in split_lines(text)]
    return _line_end(source).join(lines)


def _indent_unit(source: Source) -> str:
    """What the file indents by: a tab, or as many blanks as its first indented line has."""
    for node in source.tree.body:
        body: list[ast.stmt] = getattr(node, "body", [])
        if body and body[0].lineno > node.lineno:
            return source.indent_of(body[0].lineno) or "    "
    return "    "
