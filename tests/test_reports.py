"""The forms of a review: each says the same, in its reader's language."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from analyzers.finding import Severity
from bot.diff import Placement
from bot.reports import FORMATS, render
from bot.reports.terminal import coloured
from bot.review import Conclusion, FileReport, Review
from tests.sample_review import EMPTY, REVIEW, finding, reported

ROOT = Path(__file__).parents[1]
SCHEMA = json.loads((ROOT / "docs" / "schema" / "review.schema.json").read_text())


def parsed(review: Review, form: str) -> Any:
    return json.loads(render(review, form))


@pytest.mark.parametrize("review", [REVIEW, EMPTY], ids=["full", "empty"])
def test_json_fits_the_published_schema(review: Review) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(parsed(review, "json"), SCHEMA)


def test_json_counts_lines_and_columns_from_one() -> None:
    found = parsed(REVIEW, "json")["findings"][0]
    assert (found["line"], found["column"]) == (5, 18)
    assert (found["end_line"], found["end_column"]) == (5, 26)
    assert found["related"][0]["column"] == 5
    assert found["suggestion"] == {
        "start_line": 5,
        "end_line": 5,
        "replacement": "        total += x.detach()\n",
        "safety": "safe",
        "condition": "Right when nobody reads it earlier.",
    }


def test_json_names_what_was_not_judged() -> None:
    document = parsed(REVIEW, "json")
    assert document["files"][0]["status"] == "failed"
    assert document["summary"]["conclusion"] == "failure"
    assert document["summary"]["placement"] == {"inline": 1, "file": 1, "summary": 1}


@pytest.mark.parametrize(
    ("review", "conclusion"),
    [
        pytest.param(REVIEW, Conclusion.FAILURE, id="a sure finding"),
        pytest.param(EMPTY, Conclusion.SUCCESS, id="nothing found in all files"),
        pytest.param(
            replace(EMPTY, files=(FileReport("x.py", "failed", "No."),)),
            Conclusion.NEUTRAL,
            id="a file that could not be read",
        ),
        pytest.param(
            replace(EMPTY, files=(FileReport("x.py", "skipped", "Too long."),)),
            Conclusion.NEUTRAL,
            id="a file that is too large",
        ),
        pytest.param(
            replace(EMPTY, files=(FileReport("x.md", "skipped", "Not a Python file."),)),
            Conclusion.SUCCESS,
            id="a file that has nothing to judge",
        ),
        pytest.param(
            replace(REVIEW, comments=REVIEW.comments[2:]), Conclusion.NEUTRAL, id="only possible"
        ),
        pytest.param(replace(REVIEW, fail_on="never"), Conclusion.NEUTRAL, id="never failing"),
        pytest.param(
            replace(REVIEW, comments=REVIEW.comments[:1], fail_on="error"),
            Conclusion.NEUTRAL,
            id="below the failing severity",
        ),
    ],
)
def test_the_conclusion_is_never_green_when_something_was_not_judged(
    review: Review, conclusion: Conclusion
) -> None:
    assert review.conclusion is conclusion


def test_sarif_has_rules_with_help_and_results_that_point_at_them() -> None:
    (run,) = parsed(REVIEW, "sarif")["runs"]
    rules = run["tool"]["driver"]["rules"]
    result = run["results"][0]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "GPU105"
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"] for rule in rules)
    assert "Why it matters" in rules[result["ruleIndex"]]["help"]["markdown"]


def test_sarif_counts_characters_and_escapes_paths() -> None:
    (run,) = parsed(REVIEW, "sarif")["runs"]
    assert run["columnKind"] == "unicodeCodePoints"
    place = run["results"][1]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "src/wrong%20sum.py"
    assert place["region"] == {"startLine": 5, "startColumn": 18, "endLine": 5, "endColumn": 26}


def test_sarif_carries_fingerprints_fixes_and_suppressions() -> None:
    (run,) = parsed(REVIEW, "sarif")["runs"]
    first, *_, silenced = run["results"]
    assert first["partialFingerprints"] == {"hostside/v1": REVIEW.comments[0].fingerprint}
    (change,) = first["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": "x.detach()"}
    assert silenced["suppressions"][0]["justification"] == "read once an epoch"
    (notice,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "src/broken.py was not judged" in notice["message"]["text"]


def test_workflow_commands_escape_what_would_end_them() -> None:
    found = finding(message="100% of\nlines: a, b")
    review = replace(EMPTY, comments=(reported(found, path="a,b:c%.py"),))
    line = render(review, "github").splitlines()[0]
    assert line == (
        "::warning file=a%2Cb%3Ac%25.py,line=5,endLine=5,title=GPU105 item-in-hot-loop,"
        "col=18,endColumn=26::100%25 of%0Alines: a, b"
    )


def test_workflow_commands_keep_to_the_limit_of_ten_and_say_so() -> None:
    many = tuple(reported(finding(), path=f"{n}.py") for n in range(14))
    errors = tuple(reported(finding(severity=Severity.ERROR), path=f"e{n}.py") for n in range(2))
    lines = render(replace(EMPTY, comments=many + errors), "github").splitlines()
    assert sum(line.startswith("::warning ") for line in lines) == 10
    assert sum(line.startswith("::error ") for line in lines) == 2
    assert "4 more" in lines[-1]


def test_columns_are_left_out_of_a_range_of_lines() -> None:
    found = finding()
    several = replace(found, span=found.span._replace(end_line=6))
    line = render(replace(EMPTY, comments=(reported(several),)), "github").splitlines()[0]
    assert "endLine=6" in line
    assert "col=" not in line


def test_workflow_commands_are_silent_when_there_is_nothing_to_say() -> None:
    assert render(EMPTY, "github") == ""


def test_markdown_is_the_comments_and_the_summary() -> None:
    text = render(REVIEW, "markdown")
    assert REVIEW.comments[0].body in text
    assert "### `src/train.py:5`" in text
    assert "`src/wrong sum.py` (line 5, outside the diff)" in text
    assert "<summary>Possible findings, which nobody could be sure of (1)</summary>" in text
    assert "- `src/broken.py`: Line 3 isn't valid Python" in text


def test_text_shows_the_code_the_reason_and_the_change() -> None:
    text = render(REVIEW, "text")
    assert "src/train.py:5:18 GPU105 item-in-hot-loop warning, likely" in text
    assert "  ❱ 5 │         total += x.item()\n      │                  ^^^^^^^^\n" in text
    assert "\n      -        total += x.item()\n      +        total += x.detach()\n" in text
    assert "Why: " in text
    assert "src/broken.py was not judged: Line 3" in text
    assert " ".join(text.split()).endswith(
        "2 findings: 1 error, 1 warning, 1 with a proven suggestion. 1 possible finding more "
        "(--confidence possible). 1 silenced in the code."
    )
    assert "\x1b" not in text


def test_colours_add_nothing_but_colours() -> None:
    painted = coloured(REVIEW)
    assert "\x1b[32m" in painted
    plain = re.sub(r"\x1b\[[0-9;]*m", "", painted)
    assert [line.rstrip() for line in plain.splitlines()] == render(REVIEW, "text").splitlines()


def test_text_stays_readable_with_tabs_and_wide_characters() -> None:
    shown = reported(finding())
    line = "\tsum += 値.item()"
    found = replace(shown.finding, span=shown.finding.span._replace(column=8, end_column=16))
    odd = replace(shown, finding=found, excerpt=replace(shown.excerpt, first=5, lines=(line,)))
    text = render(replace(EMPTY, comments=(odd,)), "text")
    frame = text.splitlines()[1:3]
    assert frame == ["  ❱ 5 │     sum += 値.item()", "      │            ^^^^^^^^^"]


def test_surplus_comments_are_listed_in_one_line_each() -> None:
    surplus = reported(finding(), Placement.SUMMARY)
    text = render(replace(EMPTY, comments=(surplus,)), "text")
    assert text.count("GPU105") == 1


def test_html_is_one_page_without_anything_from_elsewhere() -> None:
    page = render(REVIEW, "html")
    assert page.startswith("<!doctype html>")
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", page)
    assert "<script" not in page
    for part in ("main...feature", "src/train.py", "Suggested change", "Not judged (1)"):
        assert part in page


def test_html_shows_a_strangers_text_as_text() -> None:
    evil = '<script>alert("`x`")</script>\u202e'
    found = finding(message=evil)
    shown = reported(found, path=f"{evil}.py")
    shown = replace(shown, excerpt=replace(shown.excerpt, lines=(evil,) * 4))
    page = render(replace(EMPTY, subject=evil, comments=(shown,)), "html")
    assert "<script" not in page
    assert "\u202e" not in page


@pytest.mark.parametrize("form", FORMATS)
def test_a_name_that_no_encoding_knows_can_be_printed(form: str) -> None:
    odd = replace(EMPTY, comments=(reported(finding(), path="a\udcff.py"),))
    assert render(odd, form).encode("utf-8", "backslashreplace")
