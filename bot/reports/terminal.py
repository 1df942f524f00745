"""Code frames, reasons and coloured diffs for the terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from analyzers.finding import Confidence, Safety, Severity
from analyzers.rule import find_rule
from bot.comments import ReviewComment, reason, sentence
from bot.diff import Placement
from bot.neutral import visible
from bot.reports.text import tail
from bot.review import Review

_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}
_DIFF_COLOURS = {"+": "green", "-": "red", "@": "dim"}
PIPED_WIDTH = 100
_INDENT = 4


def plain(review: Review) -> str:
    """The review as plain text."""
    return _printed(review, Console(file=io.StringIO(), width=PIPED_WIDTH, no_color=True))


def coloured(review: Review, width: int = PIPED_WIDTH) -> str:
    """The review with terminal colours."""
    console = Console(
        file=io.StringIO(), width=width, force_terminal=True, color_system="standard", _environ={}
    )
    return _printed(review, console)


def _printed(review: Review, console: Console) -> str:
    for line in _lines(review):
        console.print(line, soft_wrap=isinstance(line, Text) and line.no_wrap, highlight=False)
    assert isinstance(console.file, io.StringIO)
    return "".join(line.rstrip() + "\n" for line in console.file.getvalue().splitlines())


def _lines(review: Review) -> Iterator[Text | Padding]:
    for comment in review.comments:
        if comment.placement is not Placement.SUMMARY:
            yield from _comment(comment)
    folded = review.placed(Placement.SUMMARY)
    surplus = [c for c in folded if c.finding.confidence is not Confidence.POSSIBLE]
    for comment in surplus:
        yield _header(comment)
    if surplus:
        yield Text()
    for text, style in tail(review):
        yield Text(text, style=style)


def _header(comment: ReviewComment) -> Text:
    finding = comment.finding
    doubt = "" if finding.confidence is Confidence.CERTAIN else f", {finding.confidence}"
    place = f"{comment.path}:{finding.span.line}:{finding.span.column + 1}"
    return _unwrapped(
        (visible(place), "bold"),
        " ",
        (finding.rule, _COLOURS[finding.severity]),
        f" {finding.name} ",
        (f"{finding.severity}{doubt}", "dim"),
    )


def _comment(comment: ReviewComment) -> Iterator[Text | Padding]:
    finding = comment.finding
    yield _header(comment)
    yield from _frame(comment)
    yield _paragraph(finding.message)
    if finding.cost:
        yield _paragraph(finding.cost.text)
    why = reason(find_rule(finding.rule))
    if why:
        yield _paragraph(f"Why: {why}", "dim")
    for other in finding.related:
        yield _paragraph(f"line {other.span.line}: {other.text}", "dim")
    yield from _suggestion(comment)
    yield Text()


def _frame(comment: ReviewComment) -> Iterator[Text]:
    span, excerpt = comment.finding.span, comment.excerpt
    digits = len(str(excerpt.first + len(excerpt.lines)))
    for number, line in enumerate(excerpt.lines, excerpt.first):
        flagged = span.line <= number <= span.end_line
        mark = ("❱", _COLOURS[comment.finding.severity]) if flagged else (" ", "")
        style = "" if flagged else "dim"
        shown = visible(line).expandtabs(4)
        yield _unwrapped("  ", mark, (f" {number:>{digits}} │ ", "dim"), (shown, style))
        if number == span.line == span.end_line:
            yield _carets(comment, line, digits)


def _carets(comment: ReviewComment, line: str, digits: int) -> Text:
    span = comment.finding.span
    before = cell_len(visible(line[: span.column]).expandtabs(4))
    width = cell_len(visible(line[: span.end_column]).expandtabs(4)) - before
    colour = _COLOURS[comment.finding.severity]
    blank = " " * (digits + 5)
    return _unwrapped((f"{blank}│ ", "dim"), " " * before, ("^" * max(width, 1), colour))


def _suggestion(comment: ReviewComment) -> Iterator[Text | Padding]:
    suggestion = comment.suggestion
    if suggestion is None:
        return
    kinds = {
        Safety.SAFE: "Suggestion (safe, --fix)",
        Safety.UNSAFE: "Suggestion (right under a condition)",
        Safety.DISPLAY: "Sketch",
    }
    yield _paragraph(f"{kinds[suggestion.safety]}: {sentence(suggestion.title)}", "bold")
    if suggestion.condition:
        yield _paragraph(suggestion.condition)
    for line in visible(suggestion.diff).split("\n"):
        yield _unwrapped(" " * (_INDENT + 2), (line, _DIFF_COLOURS.get(line[:1], "dim")))
    if suggestion.obstacle:
        yield _paragraph(f"Not one-click, because {suggestion.obstacle}.", "dim")


def _paragraph(text: str, style: str = "") -> Padding:
    return Padding(Text(visible(text), style=style), (0, 0, 0, _INDENT))


def _unwrapped(*parts: str | tuple[str, str]) -> Text:
    text = Text.assemble(*parts)
    text.no_wrap = True
    return text
