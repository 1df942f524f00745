"""The Reviewdog Diagnostic Format: what its definition says, in its units."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from analyzers.finding import Confidence, Safety, Span
from bot.cli import main
from bot.diff import Placement
from bot.examine import Excerpt
from bot.reports import render
from tests.sample_review import EMPTY, REVIEW, finding, reported

# Drawn up after the format's definition; stricter, for what we write must hold no strange key.
_POSITION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["line"],
    "properties": {
        "line": {"type": "integer", "minimum": 1},
        "column": {"type": "integer", "minimum": 1},
    },
}
_RANGE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["start"],
    "properties": {"start": _POSITION, "end": _POSITION},
}
_LOCATION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["path"],
    "properties": {"path": {"type": "string", "minLength": 1}, "range": _RANGE},
}
_SOURCE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {"name": {"const": "hostside"}, "url": {"type": "string"}},
}
_DIAGNOSTIC = {
    "type": "object",
    "additionalProperties": False,
    "required": ["message", "location", "severity", "source"],
    "properties": {
        "message": {"type": "string", "minLength": 1},
        "location": _LOCATION,
        "severity": {"enum": ["ERROR", "WARNING", "INFO"]},
        "source": _SOURCE,
        "code": {
            "type": "object",
            "additionalProperties": False,
            "required": ["value"],
            "properties": {"value": {"pattern": "^GPU[0-9]{3}$"}, "url": {"pattern": "^https?:"}},
        },
        "suggestions": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["range", "text"],
                "properties": {"range": _RANGE, "text": {"type": "string"}},
            },
        },
        "related_locations": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["message", "location"],
                "properties": {"message": {"type": "string"}, "location": _LOCATION},
            },
        },
    },
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["source", "diagnostics"],
    "properties": {"source": _SOURCE, "diagnostics": {"type": "array", "items": _DIAGNOSTIC}},
}


def diagnostics(review: Any) -> list[dict[str, Any]]:
    document = json.loads(render(review, "rdjson"))
    jsonschema.validate(document, SCHEMA)
    lines = [json.loads(line) for line in render(review, "rdjsonl").splitlines()]
    assert lines == document["diagnostics"]
    return lines


def test_a_finding_has_its_place_rule_and_safe_suggestion() -> None:
    found = diagnostics(REVIEW)[0]
    assert found == {
        "message": "`x.item()` waits on every turn. Keep the sum on the device. One wait a turn.",
        "location": {
            "path": "src/train.py",
            "range": {"start": {"line": 5, "column": 18}, "end": {"line": 5, "column": 26}},
        },
        "severity": "WARNING",
        "source": {"name": "hostside"},
        "code": {"value": "GPU105"},
        "related_locations": [
            {
                "message": "the loop",
                "location": {
                    "path": "src/train.py",
                    "range": {"start": {"line": 4, "column": 5}, "end": {"line": 4, "column": 8}},
                },
            }
        ],
        "suggestions": [
            {
                "range": {"start": {"line": 5}, "end": {"line": 5}},
                "text": "        total += x.detach()",
            }
        ],
    }


def test_the_rest_is_said_as_far_as_it_is_sure() -> None:
    rest = diagnostics(REVIEW)[1:]
    assert [(d["severity"], d["location"]["path"]) for d in rest] == [
        ("ERROR", "src/wrong sum.py"),
        ("INFO", "src/broken.py"),
    ]
    assert rest[1]["message"].startswith("This file was not judged: Line 3")
    assert diagnostics(EMPTY) == []


def test_columns_are_counted_in_bytes_of_utf_8() -> None:
    line = "    é = 'a𐐀b'; total += x.item()"
    start = line.index("x.item")
    comment = replace(
        reported(replace(finding(), span=Span(1, start, 1, start + 8), related=(), fix=None)),
        excerpt=Excerpt(1, (line,)),
    )
    (found,) = diagnostics(replace(EMPTY, comments=(comment,)))
    before = len(line[:start].encode())
    assert before == start + 4
    assert found["location"]["range"] == {
        "start": {"line": 1, "column": before + 1},
        "end": {"line": 1, "column": before + 9},
    }


@pytest.mark.parametrize(
    "safety", [Safety.UNSAFE, Safety.DISPLAY], ids=["under a condition", "a sketch"]
)
def test_only_safe_suggestions_get_a_button(safety: Safety) -> None:
    (found,) = diagnostics(replace(EMPTY, comments=(reported(finding(safety=safety)),)))
    assert "suggestions" not in found


def test_a_possible_finding_is_shown_only_where_it_was_asked_for() -> None:
    unsure = finding(Confidence.POSSIBLE)
    for placement, count in ((Placement.SUMMARY, 0), (Placement.INLINE, 1)):
        review = replace(EMPTY, comments=(reported(unsure, placement),))
        assert len(diagnostics(review)) == count


def test_a_range_that_is_not_all_at_hand_is_its_first_line() -> None:
    found = replace(finding(), span=Span(5, 8, 90, 3), related=(), fix=None)
    (said,) = diagnostics(replace(EMPTY, comments=(reported(found),)))
    assert said["location"]["range"] == {"start": {"line": 5}}


def test_the_rule_page_has_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTSIDE_DOCS_URL", "https://docs.invalid/rules")
    assert diagnostics(REVIEW)[0]["code"]["url"] == "https://docs.invalid/rules/GPU105"


def test_applying_the_suggestions_as_the_format_says_mends_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "import torch\n\n\ndef f(n):\n    é = torch.zeros(n).cuda()\n    return é\n"
    (tmp_path / "a.py").write_text(text)
    main(["check", "a.py", "--format", "rdjson"])
    (found,) = json.loads(capfd.readouterr().out)["diagnostics"]
    (suggestion,) = found["suggestions"]
    lines = text.split("\n")
    first, last = (suggestion["range"][end]["line"] for end in ("start", "end"))
    lines[first - 1 : last] = [suggestion["text"]]
    (tmp_path / "a.py").write_text("\n".join(lines))
    assert main(["check", "a.py"]) == 0
    assert 'zeros(n, device="cuda")' in (tmp_path / "a.py").read_text()
