"""A finding as a review comment: where it stands and what it says.

Words first (what happens, what it costs, what to do), then the suggestion, then, folded, the
hardware reason, what must hold for the fix, the rule's page and how to silence it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from analyzers.finding import Confidence, Finding, Safety
from analyzers.rule import Rule, find_rule
from bot.diff import Placement
from bot.examine import Excerpt, Item
from bot.neutral import code, fenced, markup, prose, visible
from bot.suggestions import LONGEST, Suggestion

LONGEST_BODY = 60_000  # GitHub refuses more than 65,536 characters
MARKER = "hostside"


@dataclass(frozen=True)
class ReviewComment:
    """One finding at its place, ready to be shown or posted."""

    path: str
    placement: Placement
    fingerprint: str
    start_line: int
    line: int
    finding: Finding
    excerpt: Excerpt
    suggestion: Suggestion | None
    fail_on: str = ""  # where the settings nearest to its file differ from the repository's

    @property
    def body(self) -> str:
        """The comment in Markdown."""
        return write(self)


def comment(path: str, item: Item, placement: Placement) -> ReviewComment:
    """The finding at its place: the lines of its suggestion, else its own."""
    span, suggestion = item.finding.span, item.suggestion
    first, last = span.line, span.end_line
    if last - first >= LONGEST:
        last = first  # the head of a long block is where one looks
    if suggestion and suggestion.one_click and placement is Placement.INLINE:
        first, last = suggestion.start_line, suggestion.end_line
    return ReviewComment(
        path, placement, item.fingerprint, first, last, item.finding, item.excerpt, suggestion
    )


def write(comment: ReviewComment) -> str:
    """The comment in Markdown; every word from the repository is made harmless."""
    finding = comment.finding
    parts = [
        f"**{finding.rule}** {code(finding.name)} · {_sureness(finding)}",
        prose(finding.message),
        *([prose(finding.cost.text)] if finding.cost else []),
        *_remedy(comment),
        _folded(comment),
        f"<!-- {MARKER}:{comment.fingerprint} -->",
    ]
    text = "\n\n".join(part for part in parts if part)
    return text if len(text) <= LONGEST_BODY else _cut(comment)


def _cut(comment: ReviewComment) -> str:
    text = prose(comment.finding.message)[: LONGEST_BODY // 2]
    return f"**{comment.finding.rule}** {text}\n\n<!-- {MARKER}:{comment.fingerprint} -->"


def _sureness(finding: Finding) -> str:
    doubt = {
        Confidence.CERTAIN: "",
        Confidence.LIKELY: ", likely",
        Confidence.POSSIBLE: ", possible",
    }
    return f"{finding.severity}{doubt[finding.confidence]}"


def _remedy(comment: ReviewComment) -> list[str]:
    suggestion = comment.suggestion
    if suggestion is None:
        return []
    caveat = prose(suggestion.condition)
    if suggestion.one_click and comment.placement is Placement.INLINE:
        title = f"{sentence(prose(suggestion.title))}:"
        return [title, fenced(suggestion.replacement, "suggestion"), caveat]
    why = suggestion.obstacle or "it lies outside the lines of the diff"
    summary = "A sketch" if suggestion.safety is Safety.DISPLAY else "A proven edit"
    return [
        f"<details><summary>{summary}: {markup(suggestion.title).rstrip('.')} "
        f"(not one-click, because {markup(why)})</summary>\n\n"
        f"{fenced(visible(suggestion.diff), 'diff')}\n\n{caveat}\n</details>"
    ]


def _folded(comment: ReviewComment) -> str:
    finding = comment.finding
    rule = find_rule(finding.rule)
    lines = [
        reason(rule),
        *(f"Line {other.span.line}: {prose(other.text)}" for other in finding.related),
        f"{page(finding.rule)} · silence it with `# hostside: ignore[{finding.rule}] reason` "
        "on the line or above it",
    ]
    text = "\n\n".join(line for line in lines if line)
    return f"<details><summary>Why, and how to silence it</summary>\n\n{text}\n</details>"


def sentence(title: str) -> str:
    """The title with a capital letter and no full stop."""
    return f"{title[:1].upper()}{title[1:]}".rstrip(".")


def reason(rule: Rule | None) -> str:
    """The first paragraph of the rule's hardware reason."""
    text = rule.section("Why it matters") if rule else ""
    return " ".join(text.split("\n\n")[0].split())


def page(code: str) -> str:
    """A link to the rule's page, or the command that prints it."""
    address = docs(code)
    return f"[{code}]({address})" if "://" in address else f"`hostside explain {code}`"


def docs(code: str) -> str:
    """Where the rule's page is."""
    base = os.environ.get("HOSTSIDE_DOCS_URL", "").rstrip("/")
    return f"{base}/{code}" if base else f"docs/rules/{code}.md"
