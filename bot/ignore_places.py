"""Where a comment that silences a finding can stand, and the text with such comments in it.

Behind the flagged line if it has room; else on a line of its own above. Inside a multi-line string
and behind a backslash no comment can stand. A comment of ours that is there already takes the
code in; those of other tools stay first, because mypy wants its `# type: ignore` in front.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from analyzers.finding import Finding, Span
from analyzers.source import Source
from analyzers.suppressions import find_suppressions, statements_of
from analyzers.tokens import Kind, NotTokens, tokens
from bot.lines import line_end, split_lines

WIDEST = 88  # a formatter may break longer lines, and then the comment would wander
_OURS = re.compile(r"(#\s*hostside\s*:\s*ignore\s*\[)([^\]#]*)(\])", re.IGNORECASE)


@dataclass(frozen=True, order=True)
class Spot:
    """Behind line `line`, or on a line of its own above it."""

    line: int
    above: bool = False


@dataclass(frozen=True)
class Page:
    """A file, and where comments can stand in it."""

    source: Source

    @cached_property
    def lines(self) -> list[str]:
        """Its lines with their ends."""
        return split_lines(self.source.text)

    @cached_property
    def _statements(self) -> dict[int, tuple[int, int]]:
        return statements_of(self.source.tree)

    @cached_property
    def _closed(self) -> frozenset[int] | None:
        """The lines that end within a string or in a backslash; None: nobody knows."""
        try:
            return frozenset(self._unfit())
        except NotTokens:
            return None

    def _unfit(self) -> Iterator[int]:
        opened: list[int] = []
        commented: set[int] = set()
        for token in tokens(self.source.text):
            line = self.source.position(token.start)[0]
            if token.kind is Kind.F_START:
                opened.append(line)
            elif token.kind is Kind.COMMENT:
                commented.add(line)
            elif token.kind in (Kind.STRING, Kind.F_END):
                first = opened.pop() if token.kind is Kind.F_END else line
                yield from range(first, self.source.position(token.end)[0])
        for number, text in enumerate(self.source.lines, 1):
            if text.endswith("\\") and number not in commented:
                yield number

    def spots(self, finding: Finding, added: int) -> list[Spot]:
        """Where a comment of `added` characters would silence the finding, the best first."""
        line = finding.span.line
        first, last = self._statements.get(line, (line, line))
        here = [Spot(line)] if self._has_room(line, added) else []
        ends = [Spot(n) for n in (last, first) if self._has_room(n, added)]
        inner = [Spot(line, above=True)] if first < line <= last and self._open(line - 1) else []
        wide = [Spot(n) for n in (line, last) if self._open(n)]
        # Comments within brackets come late: a formatter may break the line below them anew.
        found = [*self._taken(finding), *here, *ends, Spot(first, above=True), *inner, *wide]
        return list(dict.fromkeys(found))

    def _taken(self, finding: Finding) -> Iterator[Spot]:
        """Comments of ours that speak of this place already, but not of this rule."""
        for item in find_suppressions(self.source):
            explicit = item.rules and item.lines and not item.noqa and not item.mistake
            if explicit and item.covers(finding.span):
                yield Spot(item.span.line)

    def _open(self, line: int) -> bool:
        return self._closed is not None and line not in self._closed

    def _has_room(self, line: int, added: int) -> bool:
        text = self.source.lines[line - 1] if line <= len(self.source.lines) else ""
        return self._open(line) and len(text.expandtabs(4)) + added <= WIDEST

    def with_comments(self, wanted: Iterable[tuple[Spot, str]], reason: str) -> str:
        """The text with a comment at each spot for each of its rules."""
        lines = list(self.lines)
        codes: defaultdict[Spot, set[str]] = defaultdict(set)
        for spot, code in wanted:
            codes[spot].add(code)
        for spot in sorted(codes, reverse=True):  # from below, so that lines keep their numbers
            missing = sorted(codes[spot])
            if spot.above:
                self._put_above(lines, spot.line, missing, reason)
            else:
                lines[spot.line - 1] = _behind(lines[spot.line - 1], missing, reason)
        return "".join(lines)

    def _put_above(self, lines: list[str], line: int, codes: Sequence[str], reason: str) -> None:
        text = lines[line - 1]
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        lines[line - 1] = text.removeprefix("\ufeff")
        indent = self.source.indent_of(line).rpartition("\f")[2]
        end = text[len(text.rstrip("\r\n")) :] or line_end(self.source.text) or "\n"
        lines.insert(line - 1, f"{mark}{indent}{remark(codes, reason)}{end}")


def remark(codes: Iterable[str], reason: str) -> str:
    """The comment that silences these rules."""
    return f"# hostside: ignore[{', '.join(codes)}]{' ' if reason else ''}{reason}"


def _behind(line: str, codes: Sequence[str], reason: str) -> str:
    text = line.rstrip("\r\n")
    end = line[len(text) :]
    ours = list(_OURS.finditer(text))
    if ours:
        known = ours[-1][2].strip()
        listed = ", ".join([*([known.rstrip(" ,")] if known else []), *codes])
        return f"{text[: ours[-1].start(2)]}{listed}{text[ours[-1].end(2) :]}{end}"
    gap = "" if text.endswith("  ") else " " if text.endswith((" ", "\t")) else "  "
    return f"{text}{gap}{remark(codes, reason)}{end}"


def moved(span: Span, spots: Iterable[Spot]) -> Span:
    """Where a place lies after comments were put at these spots."""
    above = sorted({spot.line for spot in spots if spot.above})

    def shift(line: int) -> int:
        return line + sum(1 for other in above if other <= line)

    return Span(shift(span.line), span.column, shift(span.end_line), span.end_column)
