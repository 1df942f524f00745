"""Edits within an expression: a call's keywords, its name, or the whole of it.

Calls are rewritten with LibCST, which keeps every blank and comment that isn't concerned. It is
given no more than the call, from a file whose depth `source.py` has bounded, and is imported at
the first edit: that costs 0.2 s. Every function gives None where a comment would be lost.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from analyzers.blocks import in_f_string, statement_at
from analyzers.finding import Edit, Span
from analyzers.source import Source, Unreadable, read_source
from analyzers.tokens import NotTokens, comments

if TYPE_CHECKING:
    import libcst as cst

MAX_CALL = 20_000

# What may stand before an expression that needs no parentheses, whatever it is.
_BEFORE = frozenset({"(", "[", ",", "=", ":", "return", "if", "elif", "while", "assert"})
_LINE_END = re.compile(r"\r\n|\r|\n")
_LAST_WORD = re.compile(r"\w+$|[=!<>:]=$|[^\w]$")
_ATOMS = (
    ast.Name,
    ast.Call,
    ast.Attribute,
    ast.Subscript,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
_PARENTHESES_ALWAYS = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Tuple, ast.Lambda, ast.Await)
# What an f-string couldn't hold before Python 3.12.
_BARRED_IN_F_STRINGS = frozenset("\"'\\\n\r{}#")


def add_keyword(source: Source, call: Span, name: str, value: str) -> Edit | None:
    """Add `name=value` after the call's arguments; None if it may be there already."""
    return _rewrite(source, call, lambda node: _added(node, name, value))


def with_keywords(text: str, keywords: Iterable[tuple[str, str]]) -> str | None:
    """The text of a call with more keywords; None if one may be there already."""
    for name, value in keywords:
        source = read_source("", text)
        if isinstance(source, Unreadable) or not isinstance(source.tree.body[0], ast.Expr):
            return None
        call = source.span(source.tree.body[0].value)
        edit = add_keyword(source, call, name, value)
        if edit is None:
            return None
        start, end = (source.offset(*place) for place in _ends(edit.span))
        text = text[:start] + edit.text + text[end:]
    return text


def _ends(span: Span) -> tuple[tuple[int, int], tuple[int, int]]:
    return (span.line, span.column), (span.end_line, span.end_column)


def set_keyword(source: Source, call: Span, name: str, value: str) -> Edit | None:
    """Give the keyword another value, or add it."""
    return _rewrite(source, call, lambda node: _set(node, name, value))


def remove_keyword(source: Source, call: Span, name: str) -> Edit | None:
    """Take `name=…` out of the call; None if it isn't there."""
    return _rewrite(source, call, lambda node: _removed(node, name))


def rename_call(source: Source, call: Span, callee: str) -> Edit | None:
    """Call `callee` in place of what is called, with the same arguments."""

    def renamed(node: cst.Call) -> cst.Call | None:
        return node.with_changes(func=_expression(callee))

    return _rewrite(source, call, renamed) if _is_atom(callee) else None


def replace_expression(source: Source, span: Span, text: str) -> Edit | None:
    """Put another expression in the place of one, in parentheses where it needs them."""
    new = _parsed(text)
    if new is None or isinstance(new, ast.Starred) or _comments(source.segment(span)) != ():
        return None
    bare = (
        isinstance(new, _ATOMS)
        or (text.startswith("(") and text.endswith(")") and _parsed(text[1:-1]) is not None)
        or (not isinstance(new, _PARENTHESES_ALWAYS) and _is_alone(source, span))
    )
    edit = Edit(span, text if bare else f"({text})")
    return edit if _fits_in_f_string(source, edit) else None


def _rewrite(
    source: Source, span: Span, change: Callable[[cst.Call], cst.Call | None]
) -> Edit | None:
    import libcst as cst

    text = source.segment(span)
    if len(text) > MAX_CALL:
        return None
    line_end = _LINE_END.search(text)
    module = cst.Module([], default_newline=line_end[0] if line_end else "\n")
    try:
        node = cst.parse_expression(f"({text})")
        # The outer parentheses only let the call run over several lines.
        if not isinstance(node, cst.Call) or module.code_for_node(node) != f"({text})":
            return None
        changed = change(node)
    except (cst.CSTValidationError, cst.ParserSyntaxError, RecursionError, ValueError):
        return None
    if changed is None:
        return None
    code = module.code_for_node(changed)[1:-1]
    before = _comments(text)
    if before is None or before != _comments(code) or not _same_reading(code):
        return None
    edit = _smallest(source, span, text, code)
    return edit if _fits_in_f_string(source, edit) else None


def _same_reading(code: str) -> bool:
    return not isinstance(read_source("", f"({code})"), Unreadable)


def _smallest(source: Source, span: Span, old: str, new: str) -> Edit:
    """The edit from one text to the other without what they share at both ends."""
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    rest = shorter - head
    tail = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    start = source.offset(span.line, span.column)
    first = source.position(start + head)
    last = source.position(start + len(old) - tail)
    return Edit(Span(*first, *last), new[head : len(new) - tail])


def _argument(name: str, value: str) -> cst.Arg:
    import libcst as cst

    none = cst.SimpleWhitespace("")
    equal = cst.AssignEqual(whitespace_before=none, whitespace_after=none)
    return cst.Arg(_expression(value), keyword=cst.Name(name), equal=equal)


def _expression(text: str) -> cst.BaseExpression:
    import libcst as cst

    return cst.parse_expression(text)


def _find(node: cst.Call, name: str) -> int | None:
    for number, argument in enumerate(node.args):
        if argument.keyword is not None and argument.keyword.value == name:
            return number
    return None


def _set(node: cst.Call, name: str, value: str) -> cst.Call | None:
    number = _find(node, name)
    if number is None:
        return _added(node, name, value)
    changed = node.args[number].with_changes(value=_expression(value))
    return node.with_changes(args=[*node.args[:number], changed, *node.args[number + 1 :]])


def _removed(node: cst.Call, name: str) -> cst.Call | None:
    import libcst as cst

    number = _find(node, name)
    if number is None:
        return None
    gone, args = node.args[number], list(node.args)
    del args[number]
    if not args:
        return node.with_changes(args=[], whitespace_before_args=cst.SimpleWhitespace(""))
    if number == len(args):  # the one before is now the last, and ends as the last did
        tail = _blank_after(gone)
        if isinstance(tail, cst.ParenthesizedWhitespace) and tail.first_line.comment:
            return None  # the comment speaks of what would be gone
        args[-1] = args[-1].with_changes(
            comma=gone.comma, whitespace_after_arg=gone.whitespace_after_arg
        )
    return node.with_changes(args=args)


def _added(node: cst.Call, name: str, value: str) -> cst.Call | None:
    import libcst as cst

    if _find(node, name) is not None or any(argument.star == "**" for argument in node.args):
        return None
    new = _argument(name, value)
    before = node.whitespace_before_args
    if not node.args:
        return (
            None
            if isinstance(before, cst.ParenthesizedWhitespace)
            else node.with_changes(args=[new])
        )
    *others, last = node.args
    if isinstance(last.value, cst.GeneratorExp) and not last.value.lpar:
        return None
    separator = _blank_after(others[-1]) if others else before
    tail = _blank_after(last)
    new = new.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    between: cst.BaseParenthesizableWhitespace = cst.SimpleWhitespace(" ")
    both_below = isinstance(separator, cst.ParenthesizedWhitespace)
    if both_below and isinstance(tail, cst.ParenthesizedWhitespace):
        # One argument a line: what follows the last one, a comment perhaps, stays beside it.
        between = tail.with_changes(indent=separator.indent, last_line=separator.last_line)
        plain = cst.TrailingWhitespace(newline=tail.first_line.newline)
        new = _followed(new, tail.with_changes(first_line=plain, empty_lines=[]))
    last = last.with_changes(
        comma=cst.Comma(whitespace_after=between), whitespace_after_arg=cst.SimpleWhitespace("")
    )
    return node.with_changes(args=[*others, last, new])


def _blank_after(argument: cst.Arg) -> cst.BaseParenthesizableWhitespace:
    import libcst as cst

    if isinstance(argument.comma, cst.Comma):
        return argument.comma.whitespace_after
    return argument.whitespace_after_arg


def _followed(argument: cst.Arg, blank: cst.ParenthesizedWhitespace) -> cst.Arg:
    import libcst as cst

    if isinstance(argument.comma, cst.Comma):
        return argument.with_changes(comma=argument.comma.with_changes(whitespace_after=blank))
    return argument.with_changes(whitespace_after_arg=blank)


def _parsed(text: str) -> ast.expr | None:
    source = read_source("", text)
    body = source.tree.body if isinstance(source, Source) else []
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None


def _is_atom(text: str) -> bool:
    return isinstance(_parsed(text), _ATOMS)


def _is_alone(source: Source, span: Span) -> bool:
    """Whether any expression could stand at the span: brackets, commas or a statement's ends."""
    place = statement_at(source, span)
    if place is None:
        return False
    before = source.text[: source.offset(span.line, span.column)].rstrip(" \t\r\n\\")
    after = source.text[source.offset(span.end_line, span.end_column) :]
    word = _LAST_WORD.search(before)
    if word is None or word[0] not in _BEFORE:
        return False
    following = after.lstrip(" \t\r\n")[:1]
    if word[0] in {"if", "elif", "while"}:
        return following == ":"
    whole = source.span(place.statement)
    at_end = (whole.end_line, whole.end_column) == (span.end_line, span.end_column)
    return at_end or following in {")", "]", ","}


def _fits_in_f_string(source: Source, edit: Edit) -> bool:
    return _BARRED_IN_F_STRINGS.isdisjoint(edit.text) or not in_f_string(source, edit.span)


def _comments(text: str) -> tuple[str, ...] | None:
    try:
        return tuple(comment.text for comment in comments(text))
    except NotTokens:
        return None
