"""The review as SARIF 2.1.0, which code scanning and editors read."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from analyzers.finding import Edit, Finding, Severity, Span
from analyzers.pages import HEADINGS
from analyzers.rule import Rule, all_rules
from bot.cli import VERSION
from bot.comments import ReviewComment, docs
from bot.examine import Silenced
from bot.reports.words import ended, unjudged
from bot.review import FileReport, Review

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MOST = 25_000  # results that GitHub's code scanning takes of one run
Object = dict[str, Any]


def render(review: Review) -> str:
    """One run, with every rule described."""
    rules = all_rules()
    places = {rule.code: number for number, rule in enumerate(rules)}
    shown = sorted(review.comments, key=lambda comment: comment.finding.order)[:MOST]
    kept = {id(comment) for comment in shown}
    results = [_result(c, places) for c in review.comments if id(c) in kept]
    silent = review.silenced[: MOST - len(results)]
    results += [_suppressed(path, silenced, places) for path, silenced in silent]
    notifications = [_notification(file) for file in unjudged(review)]
    left = len(review.comments) + len(review.silenced) - len(results)
    if left:
        text = f"{left:,} more results are left out; code scanning takes {MOST:,}."
        notifications.append({"level": "warning", "message": {"text": text}})
    run: Object = {
        "tool": {
            "driver": {
                "name": "Hostside",
                "semanticVersion": VERSION,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": results,
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": notifications,
            }
        ],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def _rule(rule: Rule) -> Object:
    page = "\n\n".join(
        f"## {heading}\n\n{text}" for heading in HEADINGS if (text := rule.section(heading))
    )
    described: Object = {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.section("What it does") or rule.title},
        "help": {"text": page or rule.title, "markdown": page or rule.title},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["gpu", rule.objective.value]},
    }
    address = docs(rule.code)
    return described | ({"helpUri": address} if "://" in address else {})


def _result(comment: ReviewComment, places: dict[str, int]) -> Object:
    finding = comment.finding
    result = _base(comment.path, finding, places)
    result |= {
        "partialFingerprints": {"hostside/v1": comment.fingerprint},
        "properties": {
            "confidence": finding.confidence.value,
            "objective": finding.objective.value,
            "placement": comment.placement.value,
        },
    }
    if finding.related:
        result["relatedLocations"] = [
            {**_location(comment.path, other.span), "message": {"text": other.text}}
            for other in finding.related
        ]
    if comment.suggestion and comment.suggestion.one_click:
        result["fixes"] = [_fix(comment)]
    return result


def _base(path: str, finding: Finding, places: dict[str, int]) -> Object:
    number = places.get(finding.rule)
    return {
        "ruleId": finding.rule,
        **({} if number is None else {"ruleIndex": number}),
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [_location(path, finding.span)],
    }


def _suppressed(path: str, silenced: Silenced, places: dict[str, int]) -> Object:
    suppression: Object = {"kind": "inSource", "location": _location(path, _line(silenced.line))}
    if silenced.reason:
        suppression["justification"] = silenced.reason
    return _base(path, silenced.finding, places) | {"suppressions": [suppression]}


def _line(number: int) -> Span:
    return Span(number, 0, number, 0)


def _location(path: str, span: Span) -> Object:
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": _region(span)}}


def _region(span: Span) -> Object:
    return {
        "startLine": span.line,
        "startColumn": span.column + 1,
        "endLine": span.end_line,
        "endColumn": span.end_column + 1,
    }


def _fix(comment: ReviewComment) -> Object:
    suggestion = comment.suggestion
    assert suggestion is not None
    condition = f" {suggestion.condition}" if suggestion.condition else ""
    return {
        "description": {"text": f"{ended(suggestion.title)}{condition}"},
        "artifactChanges": [
            {
                "artifactLocation": {"uri": _uri(comment.path)},
                "replacements": [_replacement(edit) for edit in suggestion.edits],
            }
        ],
    }


def _replacement(edit: Edit) -> Object:
    return {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}}


def _notification(file: FileReport) -> Object:
    return {
        "level": "warning",
        "message": {"text": f"{file.path} was not judged: {file.reason}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(file.path)}}}],
    }


def _uri(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"))
