"""The review as workflow commands, which GitHub Actions shows as annotations."""

from __future__ import annotations

from analyzers.finding import Confidence, Severity
from bot.comments import ReviewComment
from bot.neutral import visible
from bot.reports.words import closing, unjudged
from bot.review import Review

MOST = 10  # GitHub shows no more of one level for one step
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(review: Review) -> str:
    """One line for each annotation; what does not fit is counted in the last."""
    sure = [c for c in review.comments if c.finding.confidence is not Confidence.POSSIBLE]
    lines: list[str] = []
    left_out = 0
    for severity, level in _LEVELS.items():
        most = MOST - 1 if level == "notice" else MOST  # the last notice sums up
        found = sorted(
            (c for c in sure if c.finding.severity is severity), key=lambda c: c.finding.order
        )
        lines += [_annotation(level, comment) for comment in found[:most]]
        left_out += len(found[most:])
    lines += [f"hostside: {visible(f.path)} was not judged: {f.reason}" for f in unjudged(review)]
    more = f" {left_out} more are in the log of `hostside --format text`." if left_out else ""
    if sure or unjudged(review):
        lines.append(f"::notice title=Hostside::{_data(closing(review) + more)}")
    return "".join(f"{line}\n" for line in lines)


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
