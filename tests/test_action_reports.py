"""What a run leaves stays within GitHub's limits, worst first, and says what did not fit."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from analyzers.finding import Severity
from bot.action_files import LARGEST_SUMMARY, set_outputs
from bot.action_post import Told
from bot.action_report import job_summary, lines
from bot.reports import render
from bot.reports.github import MOST
from bot.reports.sarif import MOST as MOST_RESULTS
from bot.review import FileReport, Review
from tests.action_runner import pairs
from tests.sample_review import REVIEW

MULTITOOL = os.environ.get("HOSTSIDE_SARIF_MULTITOOL", "")


def many(count: int, review: Review = REVIEW) -> Review:
    """The review with this many comments at lines."""
    comments = [replace(review.comments[0], path=f"src/{n}.py") for n in range(count)]
    return replace(review, comments=tuple(comments))


def levels(found: list[str]) -> dict[str, int]:
    names = [line[2:].partition(" ")[0] for line in found]
    return {name: names.count(name) for name in set(names)}


def test_no_level_has_more_annotations_than_github_shows() -> None:
    finding = REVIEW.comments[0].finding
    mixed = [
        replace(c, finding=replace(finding, severity=severity))
        for severity in Severity
        for c in many(15).comments
    ]
    files = tuple(FileReport(f"bad/{n}.py", "failed", "Line 3.") for n in range(7))
    review = replace(REVIEW, comments=tuple(mixed), files=files)
    found = lines(review, Told(problem="the token may only read"))
    assert levels(found) == {"error": MOST, "warning": MOST, "notice": MOST}
    assert found[0].startswith("::warning title=Hostside could not post its review::")
    assert "bad/4.py: Line 3.; and 2 more" in found[1]
    assert found[-1].startswith("::notice title=Hostside::")
    assert "18 more are in the job's summary." in found[-1]


def test_the_worst_findings_are_annotated_first() -> None:
    finding = REVIEW.comments[0].finding
    bad = replace(finding, severity=Severity.ERROR)
    comments = [
        replace(c, finding=replace(finding, severity=Severity.INFO)) for c in many(30).comments
    ]
    review = replace(
        REVIEW, files=(), comments=(*comments, replace(comments[0], path="worst.py", finding=bad))
    )
    assert lines(review, Told())[0].startswith("::error file=worst.py")


def test_the_summary_is_cut_between_two_comments_and_says_so() -> None:
    text = job_summary(many(3000), Told())
    assert len(text.encode()) < LARGEST_SUMMARY
    assert "more comments did not fit" in text
    assert text.count("<details>") == text.count("</details>")
    assert text.count("```") % 2 == 0
    assert text.startswith("## Hostside: failure")


def test_a_summary_that_fits_is_whole() -> None:
    text = job_summary(many(3), Told())
    assert "did not fit" not in text
    assert text.count("### ") == 3


def test_sarif_has_no_more_results_than_code_scanning_takes() -> None:
    (run,) = json.loads(render(many(MOST_RESULTS + 5), "sarif"))["runs"]
    assert len(run["results"]) == MOST_RESULTS
    (said,) = [
        n["message"]["text"]
        for n in run["invocations"][0]["toolExecutionNotifications"]
        if "left out" in n["message"]["text"]
    ]
    assert said.startswith(f"{5 + len(REVIEW.silenced)} more results are left out")


def test_an_output_can_hold_anything(tmp_path: Path) -> None:
    file = tmp_path / "output"
    value = "a\nEOF\nconclusion=success\nend"
    set_outputs({"GITHUB_OUTPUT": str(file)}, {"sarif": value, "conclusion": "failure"})
    assert pairs(file.read_text()) == {"sarif": value, "conclusion": "failure"}


@pytest.mark.slow
@pytest.mark.skipif(
    not MULTITOOL,
    reason="npm install @microsoft/sarif-multitool-linux; "
    "HOSTSIDE_SARIF_MULTITOOL=node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool",
)
@pytest.mark.parametrize("spoilt", [False, True], ids=["ours", "one without places is refused"])
def test_sarif_passes_the_rules_of_githubs_code_scanning(tmp_path: Path, spoilt: bool) -> None:
    document = json.loads(render(REVIEW, "sarif"))
    if spoilt:
        del document["runs"][0]["results"][0]["locations"]
    file = tmp_path / "review.sarif"
    file.write_text(json.dumps(document))
    done = subprocess.run(
        [MULTITOOL, "validate", "--rule-kind", "Sarif;Ghas", "--level", "Error;Warning;Note",
         str(file)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"},
    )  # fmt: skip
    assert "Analysis completed successfully" in done.stdout, done.stdout + done.stderr
    wrong = [line for line in done.stdout.splitlines() if " error " in line or " GH1" in line]
    assert bool(wrong) is spoilt, wrong
