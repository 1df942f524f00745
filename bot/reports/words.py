"""Sentences that several reports say about a review as a whole."""

from __future__ import annotations

from collections import Counter

from analyzers.finding import Confidence, Severity
from bot.diff import Placement
from bot.examine import NOTEBOOK
from bot.review import Conclusion, FileReport, Review


def plural(count: int, thing: str, end: str = "s") -> str:
    """The count with its noun: `1 file`, `2 files`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}{end}"


def ended(sentence: str) -> str:
    """The sentence with a full stop."""
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def unjudged(review: Review) -> tuple[FileReport, ...]:
    """The files that may hold findings nobody saw."""
    return review.unjudged


def counted_files(review: Review) -> str:
    """What was read, and what was not."""
    states = Counter(file.status for file in review.files)
    missed = len(unjudged(review))
    notebooks = sum(file.reason == NOTEBOOK for file in review.files)
    harmless = states["skipped"] + states["failed"] - missed - notebooks
    parts = [f"{plural(states['analysed'], 'file')} analysed"]
    if harmless:
        parts.append(f"{plural(harmless, 'file')} without GPU code to judge")
    if notebooks:
        parts.append(f"{plural(notebooks, 'notebook')} not analysed")
    if missed:
        parts.append(f"{plural(missed, 'file')} not judged")
    return f"{'; '.join(parts)}.{_stale(review)}"


def _stale(review: Review) -> str:
    if not review.stale:
        return ""
    one = len(review.stale) == 1
    entries = "1 entry" if one else f"{len(review.stale):,} entries"
    return (
        f" {entries} of the baseline {'is' if one else 'are'} stale: "
        f"`hostside baseline --update` drops {'it' if one else 'them'}."
    )


def closing(review: Review, hint: str = "") -> str:
    """The outcome in one line; `hint` says how to see the possible findings."""
    sure = [c for c in review.comments if c.finding.confidence is not Confidence.POSSIBLE]
    possible = len(review.comments) - len(sure) - len(review.confirmed)
    hidden = any(c.placement is Placement.SUMMARY for c in review.comments)
    asked = hint if hidden else ""
    more = f" {plural(possible, 'possible finding')} more{asked}." if possible else ""
    more += f" {len(review.confirmed):,} confirmed by measurement." if review.confirmed else ""
    more += f" {len(review.refuted):,} refuted by measurement." if review.refuted else ""
    silenced = f" {len(review.silenced):,} silenced in the code." if review.silenced else ""
    silenced += f" {len(review.left_out):,} left out by the baseline." if review.left_out else ""
    if not sure:
        neutral = review.conclusion is Conclusion.NEUTRAL
        return (
            ("Nothing found in what was judged." if neutral else "Nothing found.") + more + silenced
        )
    severities = Counter(c.finding.severity for c in sure)
    kinds = ", ".join(
        plural(severities[severity], severity.value if severity is not Severity.INFO else "note")
        for severity in Severity
        if severities[severity]
    )
    clicks = sum(1 for c in sure if c.suggestion and c.suggestion.one_click)
    ready = f", {clicks:,} with a proven suggestion" if clicks else ""
    return f"{plural(len(sure), 'finding')}: {kinds}{ready}.{more}{silenced}"
