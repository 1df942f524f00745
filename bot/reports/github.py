"""The review as workflow commands, which GitHub Actions shows as annotations."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.finding import Confidence, Severity
from bot.comments import ReviewComment
from bot.neutral import visible
from bot.reports.words import closing, unjudged
from bot.review import Review

MOST = 10  # GitHub shows no more of one level for one step
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(review: Review) -> str:
    """One line for each annotation; what does not fit is counted in the last."""
    missed = [
        f"hostside: {plain(f.path)} was not judged: {plain(f.reason)}" for f in unjudged(review)
    ]
    lines = noted(review, "in the log of `hostside --format text`")
    lines[-1:-1] = missed  # the last one sums up
    return "".join(f"{line}\n" for line in lines)


def noted(review: Review, rest: str, notes: Sequence[tuple[str, str, str]] = ()) -> list[str]:
    """The annotations, the worst first: `notes` (level, title, text), findings, a closing line.

    GitHub drops what is too much of one level without a word, so the closing line says how many
    are not shown, and that they are `rest`.
    """
    sure = [c for c in review.comments if c.finding.confidence is not Confidence.POSSIBLE]
    lines = [note(*each) for each in notes]
    left_out = 0
    for severity, level in _LEVELS.items():
        taken = sum(each[0] == level for each in notes) + (level == "notice")
        found = sorted(
            (c for c in sure if c.finding.severity is severity), key=lambda c: c.finding.order
        )
        most = max(MOST - taken, 0)
        lines += [_annotation(level, comment) for comment in found[:most]]
        left_out += len(found[most:])
    more = f" {left_out:,} more are {rest}." if left_out else ""
    if sure or notes or unjudged(review):
        lines.append(note("notice", "Hostside", closing(review) + more))
    return lines


def note(level: str, title: str, text: str) -> str:
    """An annotation that stands at no line."""
    return f"::{level} title={_property(title)}::{_data(text)}"


def plain(text: str) -> str:
    """Text for the log that no runner takes for a command."""
    return " ".join(visible(text).split()).replace("##[", "## [")


def _annotation(level: str, comment: ReviewComment) -> str:
    finding, span = comment.finding, comment.finding.span
    properties = {
        "file": comment.path,
        "line": str(span.line),
        "endLine": str(span.end_line),
        "title": f"{finding.rule} {finding.name}",
    }
    if span.line == span.end_line:  # GitHub refuses columns of a range of lines
        properties |= {"col": str(span.column + 1), "endColumn": str(span.end_column + 1)}
    said = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{level} {said}::{_data(finding.message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
