"""The review as one self-contained page, as it would look on a pull request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from analyzers.finding import Confidence, Safety
from analyzers.rule import find_rule
from bot.cli import VERSION
from bot.comments import ReviewComment, reason, sentence
from bot.diff import Placement
from bot.neutral import markup, visible
from bot.reports.words import closing, counted_files, ended, unjudged
from bot.review import Conclusion, Review

TEMPLATE = Path(__file__).parents[1] / "templates" / "review.html.j2"
_STATES = {
    Conclusion.SUCCESS: "Nothing to mend",
    Conclusion.FAILURE: "Findings",
    Conclusion.NEUTRAL: "Not everything was judged",
}
_SIGNS = {"+": "added", "-": "gone"}


@dataclass(frozen=True)
class Row:
    """A line of code in a table."""

    kind: str
    code: str | Markup
    number: int = 0


@dataclass(frozen=True)
class Fix:
    """A suggestion, ready for the template."""

    kind: str
    title: Markup
    rows: tuple[Row, ...]
    note: Markup


@dataclass(frozen=True)
class Comment:
    """A comment, ready for the template."""

    place: str
    rule: str
    name: str
    severity: str
    sureness: str
    message: Markup
    cost: Markup
    frame: tuple[Row, ...]
    fix: Fix | None
    folded: tuple[Markup, ...]


def render(review: Review) -> str:
    """The page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.lstrip_blocks = True
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(page=_page(review)) + "\n"


def _page(review: Review) -> dict[str, object]:
    shown = [c for c in review.comments if c.placement is not Placement.SUMMARY]
    return {
        "subject": visible(review.subject),
        "conclusion": review.conclusion.value,
        "state": _STATES[review.conclusion],
        "version": VERSION,
        "closing": closing(review),
        "counted": counted_files(review),
        "files": [
            {"path": visible(path), "comments": [_comment(c) for c in comments]}
            for path, comments in groupby(shown, key=lambda c: c.path)
        ],
        "lists": [listing for listing in _lists(review) if listing["lines"]],
    }


def _lists(review: Review) -> list[dict[str, object]]:
    folded = review.placed(Placement.SUMMARY)
    possible = [c for c in folded if c.finding.confidence is Confidence.POSSIBLE]
    surplus = [c for c in folded if c.finding.confidence is not Confidence.POSSIBLE]
    missed = [_safe(f"`{file.path}`: {file.reason}") for file in unjudged(review)]
    return [
        {"title": "More findings", "lines": _lines(surplus)},
        {"title": "Possible findings, which nobody could be sure of", "lines": _lines(possible)},
        {"title": "Not judged", "lines": missed},
    ]


def _lines(comments: Iterable[ReviewComment]) -> list[Markup]:
    return [
        _safe(f"`{c.path}:{c.finding.span.line}` {c.finding.rule} {c.finding.message}")
        for c in comments
    ]


def _safe(text: str) -> Markup:
    return Markup(markup(text))


def _comment(comment: ReviewComment) -> Comment:
    finding = comment.finding
    lines = f"line {comment.start_line}"
    if comment.line != comment.start_line:
        lines = f"lines {comment.start_line} to {comment.line}"
    outside = ", outside the diff" if comment.placement is Placement.FILE else ""
    doubt = "" if finding.confidence is Confidence.CERTAIN else f", {finding.confidence}"
    folded = [
        reason(find_rule(finding.rule)),
        *(f"Line {other.span.line}: {other.text}" for other in finding.related),
        f"`hostside explain {finding.rule}` prints the rule's page. Silence it with "
        f"`# hostside: ignore[{finding.rule}] reason` on the line or above it.",
    ]
    return Comment(
        place=f"{lines}{outside}",
        rule=finding.rule,
        name=finding.name,
        severity=finding.severity.value,
        sureness=f"{finding.severity}{doubt}",
        message=_safe(finding.message),
        cost=_safe(finding.cost.text) if finding.cost else Markup(""),
        frame=tuple(_frame(comment)),
        fix=_fix(comment),
        folded=tuple(_safe(text) for text in folded if text),
    )


def _frame(comment: ReviewComment) -> Iterable[Row]:
    span, excerpt = comment.finding.span, comment.excerpt
    for number, line in enumerate(excerpt.lines, excerpt.first):
        added = "added" if number in excerpt.added else ""
        flagged = "flagged" if span.line <= number <= span.end_line else ""
        code: str | Markup = visible(line)
        if number == span.line == span.end_line:
            code = _underlined(comment, line)
        yield Row(f"{added} {flagged}".strip(), code, number)


def _underlined(comment: ReviewComment, line: str) -> Markup:
    span = comment.finding.span
    before, inside, after = (
        escape(visible(part))
        for part in (
            line[: span.column],
            line[span.column : span.end_column],
            line[span.end_column :],
        )
    )
    tag = Markup('<u class="{}">{}</u>').format(comment.finding.severity.value, inside)
    return before + tag + after


def _fix(comment: ReviewComment) -> Fix | None:
    suggestion = comment.suggestion
    if suggestion is None:
        return None
    kind = "Suggested change" if suggestion.one_click else "Proven edit"
    kind = "Sketch" if suggestion.safety is Safety.DISPLAY else kind
    notes = [
        ended(suggestion.condition) if suggestion.condition else "",
        f"Not one-click, because {suggestion.obstacle}." if suggestion.obstacle else "",
    ]
    rows = [Row(_SIGNS.get(line[:1], ""), line) for line in visible(suggestion.diff).split("\n")]
    return Fix(
        kind=kind,
        title=_safe(sentence(suggestion.title)),
        rows=tuple(rows),
        note=_safe(" ".join(note for note in notes if note)),
    )
