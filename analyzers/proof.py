"""Whether a fix keeps its promise: applied in memory, read again, analysed again.

A fix is proven when the edited text parses, the finding is gone, no finding of any rule is new,
and every comment is kept. Everything outside the edits is the same by construction.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from analyzers.analysis import Analysis, AnalysisConfig
from analyzers.finding import Edit, Finding, Safety, Span
from analyzers.source import Source, Unreadable, line_starts, read_source, split_lines
from analyzers.tokens import NotTokens, comments


@dataclass(frozen=True, slots=True)
class Proof:
    """The edited text, and whether it is what the fix says."""

    ok: bool
    text: str  # after the edits; as it was where they can't be applied
    reason: str = ""  # completes "not one-click, because …"
    joint: str = ""  # the text after all the fixes that it was proven together with


Analyze = Callable[[str, str, AnalysisConfig], Analysis]


def prove(
    path: str,
    text: str,
    finding: Finding,
    config: AnalysisConfig,
    *,
    analyze: Analyze | None = None,
    before: Sequence[Finding] | None = None,
) -> Proof:
    """What comes of a finding's fix; `before` spares analysing the text as it is."""
    from analyzers import engine  # it knows the rules, which know how to mend

    trial = _read(path, text, finding)
    if trial.reason:
        return Proof(False, trial.text, trial.reason)
    if before is None:
        before = (analyze or engine.analyze)(path, text, config).findings
    if analyze is None and trial.source is not None:
        analysis = engine.analyze_source(trial.source, config)
    else:
        analysis = (analyze or engine.analyze)(path, trial.text, config)
    edits = finding.fix.edits if finding.fix else ()
    reason = _falls_short([finding], _Change(text, trial.text, edits), before, analysis)
    return Proof(not reason, trial.text, reason)


def prove_all(
    path: str,
    text: str,
    findings: Sequence[Finding],
    config: AnalysisConfig,
    before: Sequence[Finding],
) -> Iterator[Proof]:
    """What comes of each fix, one after the other.

    Where those of one rule, made together, take away their findings and bring no other, a single
    analysis has proven them; else each is made alone.
    """
    shared: dict[str, dict[Finding, Proof]] = {}
    for finding in findings:
        if finding.rule not in shared:
            group = [other for other in findings if other.rule == finding.rule]
            shared[finding.rule] = _prove_together(path, text, group, config, before)
        known = shared[finding.rule].get(finding)
        yield known or prove(path, text, finding, config, before=before)


def _prove_together(
    path: str,
    text: str,
    findings: Sequence[Finding],
    config: AnalysisConfig,
    before: Sequence[Finding],
) -> dict[Finding, Proof]:
    """The proofs of one analysis; none where only trying each alone can tell."""
    from analyzers.engine import analyze

    if len(findings) < 2 or _overlap(findings):
        return {}
    trials = [replace(_read(path, text, finding), source=None) for finding in findings]
    edits = [edit for finding in findings if finding.fix for edit in finding.fix.edits]
    if any(trial.reason for trial in trials):
        return {}
    edited = apply_edits(text, edits)
    analysis = analyze(path, edited, config)
    if _falls_short(findings, _Change(text, edited, edits), before, analysis):
        return {}
    return {
        finding: Proof(True, trial.text, joint=edited)
        for finding, trial in zip(findings, trials, strict=True)
    }


def _overlap(findings: Iterable[Finding]) -> bool:
    """Whether two fixes edit the same place, or touch: then they hardly go together."""
    spans = sorted(edit.span for finding in findings if finding.fix for edit in finding.fix.edits)
    return any((after.line, after.column) <= one[2:] for one, after in pairwise(spans))


@dataclass(frozen=True, slots=True)
class _Trial:
    """A text with a fix applied, as far as reading it tells."""

    text: str
    reason: str = ""  # why it is no good
    source: Source | None = None


def _read(path: str, text: str, finding: Finding) -> _Trial:
    edits = finding.fix.edits if finding.fix else ()
    try:
        edited = apply_edits(text, edits)
    except ValueError:
        return _Trial(text, "its edits don't fit the file")
    if not edits or finding.fix is None:
        return _Trial(edited, "there is nothing to apply")
    if finding.fix.safety is Safety.DISPLAY:
        return _Trial(edited, "it is a sketch")
    if edited == text:
        return _Trial(edited, "it changes nothing")
    source = read_source(path, edited)
    if isinstance(source, Unreadable):
        return _Trial(edited, "the edited file would not parse")
    return _Trial(edited, _loses_comment(text, edited, edits), source)


def _loses_comment(text: str, edited: str, edits: Sequence[Edit]) -> str:
    if _leaves_comments(text, edits):
        return ""
    try:
        lost = Counter(c.text for c in comments(text)) - Counter(c.text for c in comments(edited))
    except NotTokens:
        return "the comments of the file can't be told"
    return "a comment would be lost" if lost else ""


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


def _falls_short(
    findings: Sequence[Finding], change: _Change, before: Sequence[Finding], analysis: Analysis
) -> str:
    """Why the fixes fall short; empty if the findings are gone and none came."""
    if analysis.status != "analysed":
        return "the edited file can't be analysed"
    targets = {(finding.rule, finding.span) for finding in findings}
    known = [
        _Known(
            item.rule,
            change.place(item.span),
            change.old_lines[item.span.line - 1].strip(),
            change.was_edited(item.span),
            (item.rule, item.span) in targets,
        )
        for item in before
    ]
    wanted = sum(item.target for item in known)
    if wanted < len(targets):
        return "the finding isn't there without it"
    rest: list[Finding] = []
    for item in analysis.findings:
        if (match := _at_its_place(item, change, known)) is None:
            rest.append(item)
        else:
            known.remove(match)
    for item in rest:
        if (match := _moved(item, change, known)) is None:
            return f"it would bring {item.rule} on line {item.span.line}"
        known.remove(match)
    gone = sum(item.target for item in known) == wanted
    return "" if gone else "the finding would still be there"


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
