"""The tokens of a file, f-strings taken apart as since Python 3.12, on every interpreter.

`tokenize` of 3.11 can't see into `f"{d["k"]}"`. This lexer is one loop over the text without
recursion; it isn't strict: what is valid is for `ast` to say.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Kind(enum.Enum):
    """What a token is."""

    NAME = enum.auto()
    NUMBER = enum.auto()
    OPERATOR = enum.auto()
    STRING = enum.auto()
    COMMENT = enum.auto()
    NEWLINE = enum.auto()  # outside of brackets only
    F_START = enum.auto()
    F_TEXT = enum.auto()
    F_OPEN = enum.auto()
    F_CONVERSION = enum.auto()
    F_SPEC = enum.auto()
    F_CLOSE = enum.auto()
    F_END = enum.auto()


class Token(NamedTuple):
    """A piece of the text, from `start` up to `end`."""

    kind: Kind
    text: str
    start: int
    end: int


class NotTokens(ValueError):  # noqa: N818  reads as what it says
    """The text can't be cut into tokens of any Python."""


_TOKEN = re.compile(
    r"""(?P<blank>[ \t\f\ufeff]+|\\(?:\r\n|\r|\n))
    |(?P<comment>\#[^\r\n]*)
    |(?P<prefix>[rRbBuUfFtT]{0,3})(?P<quote>\"\"\"|'''|"|')
    |(?P<name>[^\W\d]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<newline>\r\n|\r|\n)
    |(?P<operator>[!=<>:]=|->|\*\*|.)""",
    re.VERBOSE,
)
_KINDS = {
    "comment": Kind.COMMENT,
    "name": Kind.NAME,
    "number": Kind.NUMBER,
    "operator": Kind.OPERATOR,
}
_PAIRS = {")": "(", "]": "[", "}": "{"}
_MAX_OPEN = 200  # as in CPython
_CONVERSION = re.compile(r"![ \t]*\w*[ \t]*")


@dataclass(frozen=True, slots=True)
class _Bracket:
    """Open: `(`, `[` or `{` of code, or `{` of a field in `string`."""

    character: str
    string: _FString | None = None


@dataclass(frozen=True, slots=True)
class _FString:
    """Open: an f-string, or (`spec`) the format specification of a field in one."""

    quote: str
    raw: bool
    spec: bool = False

    @property
    def stop(self) -> re.Pattern[str]:
        return _STOPS[self]


def _stop(string: _FString) -> re.Pattern[str]:
    named = "" if string.raw else r"(?P<named>\\N\{[^}\r\n]*\})|"
    double = "" if string.spec else r"(?P<double>\{\{|\}\})|"
    newline = r"|(?P<newline>[\r\n])" if len(string.quote) == 1 else ""
    pattern = rf"{named}(?P<escape>\\(?:\r\n|[^{{}}]))|{double}(?P<brace>[{{}}])"
    return re.compile(rf"{pattern}|(?P<close>{string.quote}){newline}", re.DOTALL)


_STOPS = {
    string: _stop(string)
    for quote in ('"', "'", '"""', "'''")
    for raw in (False, True)
    for spec in (False, True)
    for string in (_FString(quote, raw, spec),)
}
_STRING_STOPS = {
    quote: re.compile(
        rf"(?P<escape>\\(?:\r\n|.))|(?P<close>{quote})"
        + (r"|(?P<newline>[\r\n])" if len(quote) == 1 else ""),
        re.DOTALL,
    )
    for quote in ('"', "'", '"""', "'''")
}


def tokens(text: str) -> Iterator[Token]:
    """Every token but blanks and the line ends within brackets; raises `NotTokens`."""
    stack: list[_Bracket | _FString] = []
    position = 0
    while position < len(text):
        top = stack[-1] if stack else None
        if isinstance(top, _FString):
            found = _literal(text, position, top, stack)
        elif isinstance(top, _Bracket) and top.string and text[position] in "}:!":
            found = _field_mark(text, position, top.string, stack)
        else:
            found = ()
        if not found:
            found, position = _code(text, position, stack)
        yield from found
        position = max(position, found[-1].end if found else position)
        if len(stack) > _MAX_OPEN:
            raise NotTokens
    if stack:
        raise NotTokens


def comments(text: str) -> tuple[Token, ...]:
    """Every comment of the text, in order; raises `NotTokens`."""
    return tuple(token for token in tokens(text) if token.kind is Kind.COMMENT)


def _code(
    text: str, position: int, stack: list[_Bracket | _FString]
) -> tuple[tuple[Token, ...], int]:
    match = _TOKEN.match(text, position)
    if match is None:
        raise NotTokens
    name, token, end = match.lastgroup or "", match[0], match.end()
    if name == "blank" or (name == "newline" and stack):
        return (), end
    if name == "newline":
        return (Token(Kind.NEWLINE, token, position, end),), end
    if name == "quote":
        found = _string(text, match, stack)
        return (found,), found.end
    if token in {"(", "[", "{"}:
        stack.append(_Bracket(token))
    elif token in _PAIRS and (not stack or stack.pop() != _Bracket(_PAIRS[token])):
        raise NotTokens
    return (Token(_KINDS[name], token, position, end),), end


def _string(text: str, match: re.Match[str], stack: list[_Bracket | _FString]) -> Token:
    prefix, quote = match["prefix"].lower(), match["quote"]
    if "f" in prefix or "t" in prefix:
        stack.append(_FString(quote, "r" in prefix))
        return Token(Kind.F_START, match[0], match.start(), match.end())
    end = _close(text, match.end(), _STRING_STOPS[quote])
    return Token(Kind.STRING, text[match.start() : end], match.start(), end)


def _close(text: str, position: int, stop: re.Pattern[str]) -> int:
    for match in stop.finditer(text, position):
        if match.lastgroup == "close":
            return match.end()
        if match.lastgroup == "newline":
            break
    raise NotTokens


def _literal(
    text: str, start: int, string: _FString, stack: list[_Bracket | _FString]
) -> tuple[Token, ...]:
    """The text of an f-string up to the next brace or its end, and that mark."""
    for match in string.stop.finditer(text, start):
        if match.lastgroup in {"brace", "close"}:
            break
        if match.lastgroup == "newline":
            raise NotTokens
    else:
        raise NotTokens
    mark = _mark(match[0], string, stack)
    found = Token(mark, match[0], match.start(), match.end())
    if match.start() == start:
        return (found,)
    return (Token(Kind.F_TEXT, text[start : match.start()], start, match.start()), found)


def _mark(mark: str, string: _FString, stack: list[_Bracket | _FString]) -> Kind:
    if mark == "{":
        stack.append(_Bracket("{", _FString(string.quote, string.raw)))
        return Kind.F_OPEN
    stack.pop()
    if mark == "}" and string.spec:
        stack.pop()  # the field that the specification belongs to
        return Kind.F_CLOSE
    if mark == "}" or string.spec:
        raise NotTokens
    return Kind.F_END


def _field_mark(
    text: str, position: int, string: _FString, stack: list[_Bracket | _FString]
) -> tuple[Token, ...]:
    """What ends the expression of a field; nothing where the character belongs to it."""
    character = text[position]
    if character == "}":
        stack.pop()
        return (Token(Kind.F_CLOSE, "}", position, position + 1),)
    if character == ":":
        stack.append(_FString(string.quote, string.raw, spec=True))
        return (Token(Kind.F_SPEC, ":", position, position + 1),)
    match = _CONVERSION.match(text, position)
    if match is None or text.startswith("!=", position):
        return ()
    return (Token(Kind.F_CONVERSION, match[0], position, match.end()),)
