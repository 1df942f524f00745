"""The review exactly as it would stand on a pull request: its comments and its summary."""

from __future__ import annotations

from analyzers.finding import Confidence
from bot.comments import ReviewComment
from bot.diff import Placement
from bot.neutral import code, prose
from bot.reports.words import closing, counted_files, unjudged
from bot.review import Review

MOST_LISTED = 50
RULE = "\n\n---\n\n"  # between two comments


def render(review: Review) -> str:
    """Every comment below its place, then the summary."""
    return RULE.join([*sections(review), summary(review)]) + "\n"


def sections(review: Review) -> list[str]:
    """The comments that stand at their places, each below its place."""
    return [
        f"### {_place(comment)}\n\n{comment.body}"
        for comment in review.comments
        if comment.placement is not Placement.SUMMARY
    ]


def summary(review: Review) -> str:
    """The review's own text; empty when there is nothing to say."""
    folded = review.placed(Placement.SUMMARY)
    surplus = tuple(c for c in folded if c.finding.confidence is not Confidence.POSSIBLE)
    measured = dict(review.confirmed)
    confirmed = [c for c in review.comments if c.fingerprint in measured][:MOST_LISTED]
    doubted = (c for c in folded if c.finding.confidence is Confidence.POSSIBLE)
    possible = tuple(c for c in doubted if c.fingerprint not in measured)
    bad = unjudged(review)
    missed = "\n".join(f"- {code(file.path)}: {prose(file.reason)}" for file in bad[:MOST_LISTED])
    parts = [
        f"**Hostside**: {prose(closing(review))}",
        "\n".join(f"- {_line(c)} **{_capital(measured[c.fingerprint])}.**" for c in confirmed),
        _list("More findings", surplus),
        _list("Possible findings, which nobody could be sure of", possible),
        f"**Not judged**\n\n{missed}" if bad else "",
        f"<sub>{prose(counted_files(review))}</sub>",
    ]
    return "\n\n".join(part for part in parts if part)


def _list(title: str, comments: tuple[ReviewComment, ...]) -> str:
    if not comments:
        return ""
    lines = [f"- {_line(c)}" for c in comments[:MOST_LISTED]]
    if len(comments) > MOST_LISTED:
        lines.append(f"- and {len(comments) - MOST_LISTED} more")
    text = "\n".join(lines)
    return f"<details><summary>{title} ({len(comments)})</summary>\n\n{text}\n</details>"


def _line(comment: ReviewComment) -> str:
    return f"{_place(comment)} **{comment.finding.rule}** {prose(comment.finding.message)}"


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _place(comment: ReviewComment) -> str:
    if comment.placement is Placement.FILE:
        return f"{code(comment.path)} (line {comment.finding.span.line}, outside the diff)"
    lines = f"{comment.start_line}"
    lines += f"–{comment.line}" if comment.line != comment.start_line else ""
    return f"{code(f'{comment.path}:{lines}')}"
