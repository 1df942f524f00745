"""Which findings at head the base did not already have."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analyzers.finding import Finding
from bot.diff import Hunk, touched

SIMILAR = 0.75  # how much of a line must stay for it to count as the same line, edited


@dataclass(frozen=True)
class Flagged:
    """A finding and the text of its first line, whitespace levelled."""

    finding: Finding
    text: str

    @property
    def key(self) -> tuple[str, str]:
        """What stays the same when lines move."""
        return self.finding.rule, self.text


def flag(findings: Iterable[Finding], lines: Sequence[str]) -> tuple[Flagged, ...]:
    """The findings with their lines' texts, in the order of the file."""
    in_order = sorted(findings, key=lambda finding: (finding.span, finding.rule))
    return tuple(Flagged(found, line_text(lines, found.span.line)) for found in in_order)


def line_text(lines: Sequence[str], number: int) -> str:
    """Line `number` (from 1) without the whitespace that an indentation changes."""
    return " ".join(lines[number - 1].split()) if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class News:
    """What changed between two sets of findings."""

    new: tuple[Flagged, ...]
    gone: tuple[tuple[str, str], ...]  # keys of those that only the base has


def news(head: Sequence[Flagged], base: Sequence[Flagged], hunks: Sequence[Hunk]) -> News:
    """The findings at head that touch an added line and that the base did not have."""
    added = frozenset[int]().union(*(hunk.added for hunk in hunks))
    fresh = [touched(added, f.finding.span, f.finding.related) for f in head]
    candidates = [f for f, is_fresh in zip(head, fresh, strict=True) if is_fresh]
    had = Counter(f.key for f in base)
    had.subtract(f.key for f, is_fresh in zip(head, fresh, strict=True) if not is_fresh)
    had = +had  # what base had and an untouched line at head does not account for
    new: list[Flagged] = []
    for found in candidates:
        if had[found.key] > 0:
            had[found.key] -= 1
        else:
            new.append(found)
    lost = _lost(base, had)
    new = [found for found in new if not _edited(found, lost, hunks)]
    return News(tuple(new), tuple(found.key for found in lost))


def _lost(base: Sequence[Flagged], had: Counter[tuple[str, str]]) -> list[Flagged]:
    left = had.copy()
    lost: list[Flagged] = []
    for found in base:
        if left[found.key] > 0:
            left[found.key] -= 1
            lost.append(found)
    return lost


def _edited(found: Flagged, lost: list[Flagged], hunks: Sequence[Hunk]) -> bool:
    """Whether it is one of `lost` whose line was edited in place; takes that one out."""
    line = found.finding.span.line
    removed = frozenset[int]().union(*(hunk.removed for hunk in hunks if line in hunk.added))
    for other in lost:
        same_rule = other.finding.rule == found.finding.rule
        if same_rule and other.finding.span.line in removed and _alike(other.text, found.text):
            lost.remove(other)
            return True
    return False


def _alike(one: str, other: str) -> bool:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio() >= SIMILAR


def without_moved(
    found: Sequence[tuple[str, tuple[str, str]]], gone: Iterable[tuple[str, str]]
) -> frozenset[str]:
    """Fingerprints whose finding only moved here from another file of the same change."""
    left = defaultdict(int, Counter(gone))
    moved: set[str] = set()
    for fingerprint, key in found:
        if left[key] > 0:
            left[key] -= 1
            moved.add(fingerprint)
    return frozenset(moved)
