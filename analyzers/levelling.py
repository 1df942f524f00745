"""Newer syntax written as older syntax of the same length, so that every place in the file holds.

Only for files that this interpreter's `ast` refuses. It works on tokens, linear and without
recursion, because the files are strangers': LibCST reads the same syntax, but nested brackets can
kill it and long chains hang it.

- `def f[T: int = str](x)`, `class A[T]:` (PEP 695, 696): the brackets are blanked;
- `type X[T] = …` (695): `X        = …`;
- `f"{d["k"]}"` (701): the inner quotes are swapped where that is enough; else the expressions are
  kept as a tuple in place of the string, `( d["k"] ,)`;
- `t"{x}"` (750): such a tuple, for a template doesn't format what it holds;
- `except A, B:` (758): `except A| B:`;
- `[*part for part in parts]` (798): `[ part for part in parts]`;
- `lazy import x` (810): `import      x`.
"""

from __future__ import annotations

import bisect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from analyzers.tokens import Kind, NotTokens, tokens

_READS_701 = sys.version_info >= (3, 12)
_OPENING = {Kind.F_START, Kind.F_OPEN}
_CLOSING = {Kind.F_END, Kind.F_CLOSE}
_OWN = {Kind.F_TEXT, Kind.F_OPEN, Kind.F_CONVERSION, Kind.F_SPEC, Kind.F_CLOSE}
_STRINGS = {Kind.STRING, Kind.F_START}
_OTHER_QUOTE = {"'": '"', '"': "'"}
_NOT_LINE_END = re.compile(r"[^\r\n]")
_BEFORE_LINE_END = re.compile(r" (?=[\r\n])")
# What the expressions of an f-string must not hold before 3.12.
_BARRED = re.compile(r"[\\\r\n]")
_BARRED_ON_LINES = re.compile(r"\\")


def level(text: str) -> str:
    """The text with newer constructs replaced; empty if there are none or it has no tokens."""
    try:
        leveller = _Leveller(text)
    except NotTokens:
        return ""
    levelled = leveller.run()
    return levelled if levelled != text else ""


@dataclass(frozen=True, slots=True)
class _Field:
    """The `{…}` of an f-string, by the numbers of its tokens."""

    open: int
    close: int
    code_end: int  # the token that follows the expression
    spec: int  # the colon, or 0
    depth: int  # how many format specifications it stands in


class _Leveller:
    """The tokens of a text, which bracket belongs to which, and the text as it becomes."""

    def __init__(self, text: str) -> None:
        everything = list(tokens(text))
        self.tokens = [token for token in everything if token.kind is not Kind.COMMENT]
        self.comments = [token.start for token in everything if token.kind is Kind.COMMENT]
        self.out = list(text)
        self.partner: dict[int, int] = {}
        self.starts: list[int] = []  # the tokens that begin a statement
        self.tupled: set[int] = set()
        self.pair()

    def pair(self) -> None:
        opened: list[int] = []
        fresh = True
        for number, token in enumerate(self.tokens):
            if fresh and not opened and token.kind is not Kind.NEWLINE:
                self.starts.append(number)
            is_operator = token.kind is Kind.OPERATOR
            if token.kind in _OPENING or (is_operator and token.text in "([{"):
                opened.append(number)
            elif token.kind in _CLOSING or (is_operator and token.text in ")]}"):
                self.partner[opened[-1]] = number
                self.partner[number] = opened.pop()
            fresh = token.kind is Kind.NEWLINE or (is_operator and token.text in {":", ";"})

    def run(self) -> str:
        for number in self.starts:
            self.statement(number)
        for number, token in enumerate(self.tokens):
            if token.text in {"def", "class"} and token.kind is Kind.NAME:
                self.type_parameters(number + 2)
            elif token.text in {"[", "(", "{"} and token.kind is Kind.OPERATOR:
                self.unpacking(number)
            elif token.kind is Kind.F_END:
                self.f_string(self.partner[number], number)
        if self.tupled:
            for number, token in enumerate(self.tokens):
                if token.kind in _STRINGS:
                    self.adjacent(number)
        return "".join(self.out)

    def text(self, number: int) -> str:
        return self.tokens[number].text if number < len(self.tokens) else ""

    def inside(self, first: int, end: int) -> Iterator[int]:
        """The tokens between two, but not what is in brackets between them."""
        number = first
        while number < end:
            yield number
            partner = self.partner.get(number, number)
            number = max(partner, number) + 1

    # -- statements ---------------------------------------------------------------------------

    def statement(self, number: int) -> None:
        word, following = self.text(number), self.text(number + 1)
        if word == "lazy" and following in {"import", "from"}:
            self.move(number, number + 1)
        elif word == "type" and self.text(number + 2) in {"=", "["} and following.isidentifier():
            self.type_parameters(number + 2)
            self.move(number, number + 1)
        elif word == "except":
            self.alternatives(number + 1)

    def move(self, number: int, name: int) -> None:
        """Write the word of one token over another that stands before it."""
        start, end = self.tokens[number].start, self.tokens[name].end
        self.out[start:end] = self.text(name).ljust(end - start)

    def type_parameters(self, number: int) -> None:
        if self.text(number) != "[":
            return
        start, end = self.tokens[number].start, self.tokens[self.partner[number]].end
        self.blank(start, end)
        text = "".join(self.out[start:end])
        self.out[start:end] = _BEFORE_LINE_END.sub(r"\\", text)  # continues the line

    def alternatives(self, number: int) -> None:
        commas: list[int] = []
        for inner in self.inside(number, len(self.tokens)):
            if self.text(inner) == ":":
                break
            if self.text(inner) == "as" or self.tokens[inner].kind is Kind.NEWLINE:
                return
            if self.text(inner) == ",":
                commas.append(self.tokens[inner].start)
        for comma in commas:
            self.out[comma] = "|"

    def unpacking(self, number: int) -> None:
        if self.text(number + 1) not in {"*", "**"}:
            return
        for inner in self.inside(number + 2, self.partner[number]):
            if self.text(inner) == ",":
                return
            if self.text(inner) == "for":
                self.blank(self.tokens[number + 1].start, self.tokens[number + 1].end)
                return

    # -- strings ------------------------------------------------------------------------------

    def own(self, start: int, end: int) -> Iterator[int]:
        """The tokens that are an f-string's own: text and marks, not the code in its fields."""
        number = start + 1
        while number < end:
            if self.tokens[number].kind in _OWN:
                yield number
                number += 1
            else:
                number = max(self.partner.get(number, number), number) + 1

    def fields(self, start: int, end: int) -> Iterator[_Field]:
        """The fields of an f-string, the inner ones first."""
        opened: list[list[int]] = []
        for number in self.own(start, end):
            kind = self.tokens[number].kind
            if kind is Kind.F_OPEN:
                opened.append([number, 0, 0])
            elif kind is not Kind.F_TEXT:
                opened[-1][1] = opened[-1][1] or number
                if kind is Kind.F_SPEC:
                    opened[-1][2] = number
                elif kind is Kind.F_CLOSE:
                    opening, code_end, spec = opened.pop()
                    yield _Field(opening, number, code_end, spec, len(opened))

    def code(self, field: _Field) -> str:
        return "".join(self.out[self.tokens[field.open].end : self.tokens[field.code_end].start])

    def f_string(self, start: int, end: int) -> None:
        fields = list(self.fields(start, end))
        if "t" in self.text(start).lower():
            self.tuple_of(start, end)
        elif not _READS_701:
            self.conversions(start, end)
            change = self.needs(start, end, fields)
            if change == "tuple":
                self.tuple_of(start, end)
            elif change:
                for field in fields:
                    first, last = self.tokens[field.open].end, self.tokens[field.code_end].start
                    code = self.code(field)
                    self.out[first:last] = code.replace(change, _OTHER_QUOTE[change])

    def conversions(self, start: int, end: int) -> None:
        """`{x!r  }` becomes `{x  !r}`."""
        for number in self.own(start, end):
            token = self.tokens[number]
            if token.kind is Kind.F_CONVERSION:
                self.out[token.start : token.end] = token.text.strip().rjust(len(token.text))

    def needs(self, start: int, end: int, fields: list[_Field]) -> str:
        """What 3.11 can't read: nothing, the quote that is used within, or more ("tuple")."""
        quote = self.text(start).lstrip("rRbBuUfFtT")
        first = bisect.bisect(self.comments, self.tokens[start].start)
        if first < len(self.comments) and self.comments[first] < self.tokens[end].start:
            return "tuple"
        codes = [self.code(field) for field in fields]
        barred = _BARRED_ON_LINES if len(quote) == 3 else _BARRED
        if any(barred.search(code) for code in codes) or any(field.depth > 1 for field in fields):
            return "tuple"
        if not any(quote in code for code in codes):
            return ""
        other = _OTHER_QUOTE.get(quote)
        return "tuple" if not other or any(other in code for code in codes) else quote

    def tuple_of(self, start: int, end: int) -> None:
        """The expressions of an f-string as parts of a tuple, without its brackets."""
        self.tupled.add(start)
        for field in self.fields(start, end):
            last = self.tokens[field.code_end - 1]
            if last.kind is Kind.OPERATOR and last.text == "=":  # prints the expression as well
                self.out[last.start] = " "
            self.out[self.tokens[field.open].start] = " "
            self.out[self.tokens[field.close].start] = " " if field.spec else ","
            if field.spec:
                self.out[self.tokens[field.spec].start] = ","
        for number in self.own(start, end):
            if self.tokens[number].kind in {Kind.F_TEXT, Kind.F_CONVERSION}:
                self.blank(self.tokens[number].start, self.tokens[number].end)

    def adjacent(self, number: int) -> None:
        """Strings beside a tuple become part of it."""
        if number and self.tokens[number - 1].kind in {Kind.STRING, Kind.F_END}:
            return
        run: list[tuple[int, int]] = []
        while number < len(self.tokens) and self.tokens[number].kind in _STRINGS:
            run.append((number, self.partner.get(number, number)))
            number = run[-1][1] + 1
        if self.tupled.isdisjoint(start for start, _ in run):
            return
        for start, end in run:
            if start < end and start not in self.tupled:
                self.tuple_of(start, end)
            for member in (start, end):
                self.blank(self.tokens[member].start, self.tokens[member].end)
        self.out[self.tokens[run[0][0]].start] = "("
        self.out[self.tokens[run[-1][1]].end - 1] = ")"

    def blank(self, start: int, end: int) -> None:
        self.out[start:end] = _NOT_LINE_END.sub(" ", "".join(self.out[start:end]))
