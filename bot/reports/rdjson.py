"""The review in the Reviewdog Diagnostic Format: `reviewdog -f=rdjson` posts it anywhere.

Columns are counted from 1 in bytes of UTF-8, ends are exclusive; a range without columns means
whole lines without the last line's end. A suggestion is given only if it is proven and safe, for
there is no place for a condition beside the button.
"""

from __future__ import annotations

import json
from typing import Any

from analyzers.finding import Confidence, Safety, Severity, Span
from bot.comments import ReviewComment, docs
from bot.diff import Placement
from bot.examine import Excerpt
from bot.neutral import visible
from bot.reports.words import unjudged
from bot.review import FileReport, Review

_LEVELS = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "INFO"}
Object = dict[str, Any]


def render(review: Review) -> str:
    """One DiagnosticResult."""
    document = {"source": {"name": "hostside"}, "diagnostics": diagnostics(review)}
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def diagnostics(review: Review) -> list[Object]:
    """A Diagnostic for each finding that is shown in full, and for each file not judged."""
    return [
        *(_diagnostic(comment) for comment in review.comments if _shown(comment)),
        *(_missed(file) for file in unjudged(review)),
    ]


def _shown(comment: ReviewComment) -> bool:
    possible = comment.finding.confidence is Confidence.POSSIBLE
    return not (possible and comment.placement is Placement.SUMMARY)


def _diagnostic(comment: ReviewComment) -> Object:
    finding = comment.finding
    cost = f" {finding.cost.text}" if finding.cost else ""
    made: Object = {
        "message": visible(f"{finding.message}{cost}"),
        "location": _location(comment.path, finding.span, comment.excerpt),
        "severity": _LEVELS[finding.severity],
        "source": {"name": "hostside"},
        "code": _code(finding.rule),
    }
    if finding.related:
        made["related_locations"] = [
            {
                "message": visible(other.text),
                "location": _location(comment.path, other.span, comment.excerpt),
            }
            for other in finding.related
        ]
    if suggestions := _suggestions(comment):
        made["suggestions"] = suggestions
    return made


def _code(rule: str) -> Object:
    address = docs(rule)
    return {"value": rule} | ({"url": address} if "://" in address else {})


def _location(path: str, span: Span, excerpt: Excerpt) -> Object:
    start, end = _line(span.line, excerpt), _line(span.end_line, excerpt)
    if start is None or end is None:  # the text is not at hand, so bytes cannot be counted
        first: Object = {"start": {"line": span.line}}
        return {"path": _path(path), "range": first}
    return {
        "path": _path(path),
        "range": {
            "start": {"line": span.line, "column": _bytes(start, span.column)},
            "end": {"line": span.end_line, "column": _bytes(end, span.end_column)},
        },
    }


def _line(number: int, excerpt: Excerpt) -> str | None:
    place = number - excerpt.first
    return excerpt.lines[place] if 0 <= place < len(excerpt.lines) else None


def _bytes(line: str, column: int) -> int:
    return len(line[:column].encode("utf-8", "replace")) + 1


def _path(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _suggestions(comment: ReviewComment) -> list[Object]:
    found = comment.suggestion
    if found is None or not found.one_click or found.safety is not Safety.SAFE:
        return []
    if found.replacement == "\n":  # one empty line would read as none
        return []
    lines = {"start": {"line": found.start_line}, "end": {"line": found.end_line}}
    return [{"range": lines, "text": found.replacement.removesuffix("\n")}]


def _missed(file: FileReport) -> Object:
    return {
        "message": visible(f"This file was not judged: {file.reason}"),
        "location": {"path": _path(file.path)},
        "severity": "INFO",
        "source": {"name": "hostside"},
    }
