"""Whether a fix keeps its promise: applied in memory, read again, analysed again.

A fix is proven when the edited text parses, the finding is gone, no finding of any rule is new,
and every comment is kept. Everything outside the edits is the same by construction.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from analyzers.analysis import Analysis, AnalysisConfig
from analyzers.finding import Edit, Finding, Safety, Span
from analyzers.source import Unreadable, line_starts, read_source, split_lines
from analyzers.tokens import NotTokens, comments


@dataclass(frozen=True, slots=True)
class Proof:
    """The edited text, and whether it is what the fix says."""

    ok: bool
    text: str  # after the edits; as it was where they can't be applied
    reason: str = ""  # completes "not one-click, because …"


def prove(
    path: str,
    text: str,
    finding: Finding,
    config: AnalysisConfig,
    *,
    analyze: Callable[[str, str, AnalysisConfig], Analysis] | None = None,
    before: Sequence[Finding] | None = None,
) -> Proof:
    """What comes of a finding's fix; `before` spares analysing the text as it is."""
    if analyze is None:
        from analyzers.engine import analyze
    edits = finding.fix.edits if finding.fix else ()
    try:
        edited = apply_edits(text, edits)
    except ValueError:
        return Proof(False, text, "its edits don't fit the file")
    reason = _reads_well(path, text, edited, finding)
    if reason:
        return Proof(False, edited, reason)
    if before is None:
        before = analyze(path, text, config).findings
    analysis = analyze(path, edited, config)
    if analysis.status != "analysed":
        return Proof(False, edited, "the edited file can't be analysed")
    change = _Change(text, edited, edits)
    reason = _what_is_new(finding, change, before, analysis.findings)
    return Proof(not reason, edited, reason)


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits made; ValueError if they overlap or lie outside of it."""
    starts = line_starts(text)
    pieces: list[str] = []
    position = 0
    for start, end, new in sorted(_offsets(edits, text, starts), key=lambda item: item[:2]):
        if start < position:
            raise ValueError("edits overlap")
        pieces += text[position:start], new
        position = end
    return "".join([*pieces, text[position:]])


def _offsets(
    edits: Iterable[Edit], text: str, starts: tuple[int, ...]
) -> Iterable[tuple[int, int, str]]:
    for edit in edits:
        span = edit.span
        start = _offset(span.line, span.column, text, starts)
        end = _offset(span.end_line, span.end_column, text, starts)
        if end < start:
            raise ValueError("an edit ends before it starts")
        yield start, end, edit.text


def _offset(line: int, column: int, text: str, starts: tuple[int, ...]) -> int:
    """The place of a line and column; the line after the last one is the end of the text."""
    if line < 1 or line > len(starts) or column < 0:
        raise ValueError("an edit is outside of the file")
    limit = starts[line] if line < len(starts) else len(text)
    if starts[line - 1] + column > limit:
        raise ValueError("an edit is outside of its line")
    return starts[line - 1] + column


def _reads_well(path: str, text: str, edited: str, finding: Finding) -> str:
    if finding.fix is None or not finding.fix.edits:
        return "there is nothing to apply"
    if finding.fix.safety is Safety.DISPLAY:
        return "it is a sketch"
    if edited == text:
        return "it changes nothing"
    if isinstance(read_source(path, edited), Unreadable):
        return "the edited file would not parse"
    if _leaves_comments(text, finding.fix.edits):
        return ""
    try:
        lost = Counter(c.text for c in comments(text)) - Counter(c.text for c in comments(edited))
    except NotTokens:
        return "the comments of the file can't be told"
    return "a comment would be lost" if lost else ""


def _leaves_comments(text: str, edits: Iterable[Edit]) -> bool:
    """Whether the edits can be seen to stay clear of comments: then none need be compared.

    They lie behind no `#`, and neither remove nor write what begins or ends a comment or a text.
    """
    starts = line_starts(text)
    for edit in edits:
        start, end, new = next(iter(_offsets((edit,), text, starts)))
        before = text[starts[edit.span.line - 1] : start]
        if "#" in before or _TELLING.search(text[start:end] + new):
            return False
    return True


_TELLING = re.compile(r"""[#'"\\]""")


class _Change:
    """Two texts, and where a place of the second was in the first."""

    def __init__(self, old: str, new: str, edits: Iterable[Edit]) -> None:
        self.old_lines, self.new_lines = split_lines(old), split_lines(new)
        self.old_starts, self.new_starts = line_starts(old), line_starts(new)
        self.edited: list[tuple[int, int]] = []  # in the old text
        self.written: list[tuple[int, int]] = []  # in the new text
        grown = 0
        for start, end, text in sorted(_offsets(edits, old, self.old_starts)):
            self.edited.append((start, end))
            self.written.append((start + grown, start + grown + len(text)))
            grown += len(text) - (end - start)

    def old_place(self, span: Span) -> int | None:
        """Where the start of a span of the new text was; None where it was written anew."""
        place = self.new_starts[span.line - 1] + span.column
        number = bisect(self.written, place, key=lambda item: item[0]) - 1
        if number < 0:
            return place
        end = self.written[number][1]
        return None if place < end else place - end + self.edited[number][1]

    def place(self, span: Span) -> int:
        """Where a span of the old text starts."""
        return self.old_starts[span.line - 1] + span.column

    def was_edited(self, span: Span) -> bool:
        """Whether an edit touches a span of the old text."""
        first = self.place(span)
        last = self.old_starts[span.end_line - 1] + span.end_column
        return any(start <= last and first <= end for start, end in self.edited)


@dataclass(frozen=True, slots=True)
class _Known:
    """A finding of the old text, by all that it can be recognised by."""

    rule: str
    place: int
    line: str
    edited: bool
    target: bool


def _what_is_new(
    finding: Finding, change: _Change, before: Sequence[Finding], after: Sequence[Finding]
) -> str:
    """Why the fix falls short; empty if the finding is gone and none came."""
    known = [
        _Known(
            item.rule,
            change.place(item.span),
            change.old_lines[item.span.line - 1].strip(),
            change.was_edited(item.span),
            (item.rule, item.span) == (finding.rule, finding.span),
        )
        for item in before
    ]
    if not any(item.target for item in known):
        return "the finding isn't there without it"
    rest: list[Finding] = []
    for item in after:
        if (match := _at_its_place(item, change, known)) is None:
            rest.append(item)
        else:
            known.remove(match)
    for item in rest:
        if (match := _moved(item, change, known)) is None:
            return f"it would bring {item.rule} on line {item.span.line}"
        known.remove(match)
    return "" if any(item.target for item in known) else "the finding would still be there"


def _at_its_place(found: Finding, change: _Change, known: list[_Known]) -> _Known | None:
    place = change.old_place(found.span)
    return next((k for k in known if k.rule == found.rule and k.place == place), None)


def _moved(found: Finding, change: _Change, known: list[_Known]) -> _Known | None:
    """A finding of the same rule on the same line of text, or of lines that were both edited."""
    line = change.new_lines[found.span.line - 1].strip()
    # Where two fit, one that isn't to be mended: the target is gone if all others are found again.
    same = sorted((k for k in known if k.rule == found.rule), key=lambda item: item.target)
    written = change.old_place(found.span) is None
    by_line = [item for item in same if item.line == line]
    return next(iter([*by_line, *(item for item in same if item.edited and written)]), None)
