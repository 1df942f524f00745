"""What a proven fix becomes: whole lines to replace, and what keeps it from being one click."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from analyzers.finding import Edit, Finding, Fix, Safety
from bot.diff import Hunk
from bot.lines import line_end, split_lines

LONGEST = 10  # lines; a longer suggestion hides what it drops
# Characters that make text look like something else (or nothing), except tab and line ends.
DECEPTIVE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff]"
)


@dataclass(frozen=True)
class Suggestion:
    """A proven fix as whole lines of the file at head."""

    title: str
    safety: Safety
    condition: str
    start_line: int
    end_line: int
    replacement: str  # whole lines with their ends; empty: delete the lines
    diff: str  # the same as lines with signs
    edits: tuple[Edit, ...]
    obstacle: str = ""  # why it is not one click; empty when it is

    @property
    def one_click(self) -> bool:
        """Whether a reviewer may apply it by pressing a button."""
        return not self.obstacle

    def overlaps(self, other: Suggestion) -> bool:
        """Whether both replace one line."""
        return self.start_line <= other.end_line and other.start_line <= self.end_line


def suggest(
    finding: Finding, fix: Fix, before: str, after: str, hunks: tuple[Hunk, ...] | None
) -> Suggestion | None:
    """The fix that turns `before` into `after`; None when nothing changes.

    `hunks` are the pieces a reviewer can see, None when that is the whole file.
    """
    old, new = split_lines(before), split_lines(after)
    start, old_end, new_end = _changed(old, new, finding)
    if not old or (start, old_end) == (start, start):
        return None
    suggestion = Suggestion(
        title=fix.title,
        safety=fix.safety,
        condition=fix.condition,
        start_line=start + 1,
        end_line=old_end,
        replacement="".join(new[start:new_end]),
        diff=_as_diff(old, new, start, old_end, new_end),
        edits=fix.edits,
    )
    return replace(suggestion, obstacle=_obstacle(suggestion, finding, before, hunks))


def _changed(old: list[str], new: list[str], finding: Finding) -> tuple[int, int, int]:
    """First changed line from 0, and the ends of the change in both; never empty in `old`."""
    shortest = min(len(old), len(new))
    start = next((n for n in range(shortest) if old[n] != new[n]), shortest)
    if start == len(old) == len(new):
        return 0, 0, 0
    tail = next(
        (n for n in range(shortest - start) if old[-1 - n] != new[-1 - n]), shortest - start
    )
    old_end, new_end = len(old) - tail, len(new) - tail
    # Insertions replace the line they stand next to; a comment shows the finding's own line.
    first, last = finding.span.line - 1, finding.span.line
    if start == old_end and start < len(old) and start != last:
        old_end, new_end = old_end + 1, new_end + 1
    elif start == old_end:
        start -= 1
    if start > first and old_end - first <= LONGEST:
        start = first
    if old_end < last and last - start <= LONGEST:
        new_end, old_end = new_end + last - old_end, last
    return start, old_end, new_end


def _as_diff(old: list[str], new: list[str], start: int, old_end: int, new_end: int) -> str:
    first = max(start - 2, 0)
    before = [line.rstrip("\r\n") for line in old[first : old_end + 2]]
    after = [line.rstrip("\r\n") for line in new[first : new_end + 2]]
    lines = list(difflib.unified_diff(before, after, n=2, lineterm=""))[3:]
    return "\n".join("@@" if line.startswith("@@") else line for line in lines)


def _obstacle(
    suggestion: Suggestion, finding: Finding, before: str, hunks: tuple[Hunk, ...] | None
) -> str:
    first, last = suggestion.start_line, suggestion.end_line
    at_end = last == len(split_lines(before)) and not before.endswith("\n")
    outside = hunks is not None and not any(hunk.holds(first, last) for hunk in hunks)
    obstacles = {
        "it is a sketch, not a finished edit": suggestion.safety is Safety.DISPLAY,
        f"it replaces {last - first + 1} lines at once": last - first >= LONGEST,
        f"it changes line {first}, away from this comment": not (
            first <= finding.span.line <= last
        ),
        "the file's line ends are not plain LF, which the button would change": (
            line_end(before) != "\n"
        ),
        "the file does not end with a line end": at_end,
        "the lines hold control characters that would be lost": bool(
            DECEPTIVE.search(suggestion.replacement)
        ),
        "its lines are not all shown in one piece of the diff": outside,
    }
    return next((reason for reason, stands in obstacles.items() if stands), "")


def without_overlaps(suggestions: Iterable[Suggestion | None]) -> list[Suggestion | None]:
    """The same, where the later of two that replace one line is no longer one click."""
    kept: list[Suggestion] = []
    result: list[Suggestion | None] = []
    for suggestion in suggestions:
        if suggestion is None or not suggestion.one_click:
            result.append(suggestion)
        elif any(suggestion.overlaps(other) for other in kept):
            result.append(replace(suggestion, obstacle="it overlaps another suggestion"))
        else:
            kept.append(suggestion)
            result.append(suggestion)
    return result


def apply_all(before: str, suggestions: Iterable[Suggestion]) -> str:
    """The text with all these applied, as one batch commit would leave it."""
    lines = split_lines(before)
    for suggestion in sorted(suggestions, key=lambda s: s.start_line, reverse=True):
        lines[suggestion.start_line - 1 : suggestion.end_line] = [suggestion.replacement]
    return "".join(lines)
