"""The review as JSON, in the shape of docs/schema/review.schema.json."""

from __future__ import annotations

import json
from collections import Counter

from bot.cli import VERSION
from bot.comments import ReviewComment, docs
from bot.review import Review


def render(review: Review) -> str:
    """The review as one JSON object; columns are counted from 1."""
    document = {
        "version": 1,
        "tool": {"name": "hostside", "version": VERSION},
        "findings": [_finding(comment) for comment in review.comments],
        "files": [
            {"path": file.path, "status": file.status, "reason": file.reason}
            for file in review.files
        ],
        "summary": summary(review),
    }
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def summary(review: Review) -> dict[str, object]:
    """The counts and the outcome."""
    findings = [comment.finding for comment in review.comments]
    one_click = [c for c in review.comments if c.suggestion and c.suggestion.one_click]
    return {
        "subject": review.subject,
        "conclusion": review.conclusion.value,
        "findings": len(findings),
        "severity": _counts(["error", "warning", "info"], [f.severity for f in findings]),
        "confidence": _counts(["certain", "likely", "possible"], [f.confidence for f in findings]),
        "placement": _counts(["inline", "file", "summary"], [c.placement for c in review.comments]),
        "files": _counts(["analysed", "skipped", "failed"], [f.status for f in review.files]),
        "suggestions": len(one_click),
        "suppressed": len(review.silenced),
        "baseline": {"left_out": len(review.left_out), "stale": len(review.stale)},
    }


def _counts(keys: list[str], values: list[str]) -> dict[str, int]:
    found = Counter(str(value) for value in values)
    return {key: found[key] for key in keys}


def _finding(comment: ReviewComment) -> dict[str, object]:
    finding = comment.finding
    cost = finding.cost
    return {
        "rule": finding.rule,
        "name": finding.name,
        "message": finding.message,
        "path": comment.path,
        "line": finding.span.line,
        "column": finding.span.column + 1,
        "end_line": finding.span.end_line,
        "end_column": finding.span.end_column + 1,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "objective": finding.objective.value,
        "placement": comment.placement.value,
        "fingerprint": comment.fingerprint,
        "related": [
            {
                "line": other.span.line,
                "column": other.span.column + 1,
                "end_line": other.span.end_line,
                "end_column": other.span.end_column + 1,
                "text": other.text,
            }
            for other in finding.related
        ],
        "cost": {"text": cost.text, "formula": cost.formula} if cost else None,
        "suggestion": _suggestion(comment),
        "docs": docs(finding.rule),
    }


def _suggestion(comment: ReviewComment) -> dict[str, object] | None:
    suggestion = comment.suggestion
    if suggestion is None or not suggestion.one_click:
        return None
    return {
        "start_line": suggestion.start_line,
        "end_line": suggestion.end_line,
        "replacement": suggestion.replacement,
        "safety": suggestion.safety.value,
        "condition": suggestion.condition,
    }
