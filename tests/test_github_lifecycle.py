"""What is said after another push, decided without GitHub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from analyzers.finding import Confidence, Severity
from bot.comments import ReviewComment
from bot.diff import Placement
from bot.examine import Silenced
from bot.github_marks import FIXED, fingerprint, mark, marks, reviewed_head, without_marks
from bot.lifecycle import plan
from bot.pulls import Earlier, EarlierComment, Plan, PullRef, Summary
from bot.review import FILTERED, FileReport, Review
from tests.sample_review import finding, reported

REF = PullRef("acme", "train", 7, "b" * 40, "a" * 40)
PATH = "src/train.py"
COMMENT = reported(finding())
ANALYSED = FileReport(PATH, "analysed")


def review(
    *comments: ReviewComment, files: Sequence[FileReport] = (ANALYSED,), **more: object
) -> Review:
    return replace(Review("", tuple(comments), tuple(files)), **more)  # type: ignore[arg-type]


def said(comment: ReviewComment = COMMENT, **more: object) -> EarlierComment:
    made = EarlierComment(
        11, comment.fingerprint, comment.path, comment.line, comment.body, "c" * 40
    )
    return replace(made, **more)  # type: ignore[arg-type]


def marked(**more: object) -> EarlierComment:
    body = f"**Fixed** at x.\n\n{mark(FIXED)}{mark(COMMENT.fingerprint)}"
    return said(body=body, fixed=True, **more)


def what(todo: Plan) -> tuple[int, int]:
    return len(todo.comments), len(todo.edits)


CASES = [
    pytest.param((), (1, 0), id="new"),
    pytest.param((said(),), (0, 0), id="said before"),
    pytest.param((said(line=None),), (0, 0), id="said before, outdated since"),
    pytest.param((said(resolved=True),), (0, 0), id="resolved"),
    pytest.param((said(rejected_by=("lead",)),), (0, 0), id="rejected by a writer"),
    pytest.param((marked(),), (0, 1), id="back, on its line: its own comment says so"),
    pytest.param((marked(line=None),), (1, 0), id="back, but its comment is outdated"),
    pytest.param((marked(resolved=True),), (1, 0), id="back, but its thread is closed"),
    pytest.param((marked(rejected_by=("lead",)),), (0, 0), id="back, but rejected before"),
    pytest.param((marked(line=None), said(id=12)), (0, 0), id="the latest counts"),
]


@pytest.mark.parametrize(("earlier", "expected"), CASES)
def test_a_finding_is_said_once(
    earlier: tuple[EarlierComment, ...], expected: tuple[int, int]
) -> None:
    assert what(plan(review(COMMENT), Earlier(earlier), REF)) == expected


GONE = [
    pytest.param((ANALYSED,), {}, "**Fixed** at aaaaaaaaaaaa.", id="fixed"),
    pytest.param((), {}, "**No longer in the change** at", id="its file is not in the change"),
    pytest.param(
        (FileReport(PATH, "skipped", "The file was deleted."),), {}, "**Fixed**", id="deleted"
    ),
    pytest.param((FileReport(PATH, "failed", "Too long."),), {}, "", id="nobody could judge it"),
    pytest.param((FileReport(PATH, "skipped", "Timed out."),), {}, "", id="nobody judged it"),
    pytest.param((FileReport(PATH, "skipped", FILTERED),), {}, "", id="left out since"),
    pytest.param((ANALYSED,), {"fixed": True}, "", id="marked before"),
    pytest.param((ANALYSED,), {"resolved": True}, "**Fixed**", id="resolved and fixed"),
    pytest.param((ANALYSED,), {"rejected_by": ("lead",)}, "", id="rejected: left as it is"),
    pytest.param((ANALYSED,), {"replied": True}, "**Fixed**", id="answered: edited, not deleted"),
]


@pytest.mark.parametrize(("files", "state", "words"), GONE)
def test_what_is_gone_is_marked_where_it_was_said(
    files: tuple[FileReport, ...], state: dict[str, object], words: str
) -> None:
    todo = plan(review(files=files), Earlier((said(**state),)), REF)
    assert [edit.id for edit in todo.edits] == ([11] if words else [])
    assert all(edit.body.startswith(words) for edit in todo.edits)
    assert todo.comments == ()


def test_a_marked_comment_keeps_its_words_and_loses_its_button() -> None:
    (edit,) = plan(review(), Earlier((said(),)), REF).edits
    assert "`x.item()` waits on every turn" in edit.body
    assert "```suggestion" not in edit.body
    assert fingerprint(edit.body) == COMMENT.fingerprint
    assert FIXED in marks(edit.body)


def test_what_was_silenced_in_the_code_is_not_called_fixed() -> None:
    silenced = ((PATH, Silenced(COMMENT.finding, "on purpose", 5)),)
    (edit,) = plan(review(silenced=silenced), Earlier((said(),)), REF).edits
    assert edit.body.startswith("**Silenced in the code** at")


def test_a_rule_that_was_switched_off_leaves_its_comments_alone() -> None:
    todo = plan(review(), Earlier((said(),)), REF, silent=frozenset({"GPU105"}))
    assert todo.edits == ()


def test_a_finding_of_a_renamed_file_is_the_same() -> None:
    # Its message may name lines, which move with the file.
    moved = reported(finding(message="The loop in line 4 waits."), path="src/loop.py")
    files = (FileReport("src/loop.py", "analysed"),)
    todo = plan(review(moved, files=files), Earlier((said(),)), REF)
    assert what(todo) == (0, 0)


def test_the_same_words_in_another_file_are_another_finding() -> None:
    other = reported(finding(), path="src/loop.py")
    files = (ANALYSED, FileReport("src/loop.py", "analysed"))
    assert what(plan(review(COMMENT, other, files=files), Earlier((said(),)), REF)) == (1, 0)


def test_what_is_dismissed_fails_no_check_and_is_counted() -> None:
    todo = plan(review(COMMENT), Earlier((said(resolved=True),)), REF)
    assert todo.check is not None
    assert (todo.check.conclusion, todo.check.annotations) == ("success", ())
    assert "1 finding dismissed by people" in todo.check.summary


def test_a_second_attempt_says_the_same_as_the_first() -> None:
    first = plan(review(), Earlier((said(),), Summary(1, "old")), REF)
    second = plan(review(), Earlier((marked(),), Summary(1, "old")), REF)
    assert (first.check, first.summary) == (second.check, second.summary)
    assert "1 earlier finding gone." in first.summary
    assert (len(first.edits), len(second.edits)) == (1, 0)


QUIET = [
    pytest.param(review(), None, False, id="nothing found"),
    pytest.param(review(), Summary(1, "old"), True, id="nothing left, but something was said"),
    pytest.param(review(COMMENT), None, True, id="a finding"),
    pytest.param(
        review(reported(finding(Confidence.POSSIBLE), Placement.SUMMARY)), None, False,
        id="only a possible finding",
    ),
    pytest.param(
        review(files=(FileReport("a.py", "failed", "Too long."),)), None, True, id="not judged"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("found", "sticky", "speaks"), QUIET)
def test_a_clean_pull_request_hears_nothing(
    found: Review, sticky: Summary | None, speaks: bool
) -> None:
    todo = plan(found, Earlier(summary=sticky), REF)
    assert bool(todo.summary) is speaks
    assert todo.check is not None


def test_folded_findings_are_not_posted_on_lines() -> None:
    folded = reported(finding(), Placement.SUMMARY)
    todo = plan(review(folded), Earlier(), REF)
    assert todo.comments == ()
    assert "More findings (1)" in todo.summary


def test_a_finding_outside_the_diff_goes_onto_its_file() -> None:
    (new,) = plan(review(reported(finding(), Placement.FILE)), Earlier(), REF).comments
    assert new.line == 0


@pytest.mark.parametrize(
    ("severity", "level"),
    [
        pytest.param(Severity.ERROR, "failure", id="error"),
        pytest.param(Severity.WARNING, "warning", id="warning"),
        pytest.param(Severity.INFO, "notice", id="info"),
    ],
)
def test_annotations_have_the_findings_level(severity: Severity, level: str) -> None:
    todo = plan(review(reported(finding(severity=severity))), Earlier(), REF)
    assert todo.check is not None
    (note,) = todo.check.annotations
    assert (note.level, note.start_line, note.title) == (level, 5, "GPU105 item-in-hot-loop")
    assert (note.start_column, note.end_column) == (18, 26)


def test_the_check_is_neutral_when_something_was_not_judged() -> None:
    todo = plan(review(files=(FileReport("a.py", "failed", "Too long."),)), Earlier(), REF)
    assert todo.check is not None
    assert todo.check.conclusion == "neutral"


MARKS = [
    pytest.param("words\n\n<!-- hostside:0123456789abcdef -->", ("0123456789abcdef",), id="one"),
    pytest.param("w <!-- hostside:fixed --><!-- hostside:0123456789abcdef -->\n",
                 ("fixed", "0123456789abcdef"), id="two"),
    pytest.param("<!-- hostside:0123456789abcdef -->\n\nwords", (), id="not at the end"),
    pytest.param("```\n<!-- hostside:0123456789abcdef -->\n```", (), id="in a stranger's code"),
    pytest.param("<!-- other:0123456789abcdef -->", (), id="somebody else's"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "names"), MARKS)
def test_only_marks_at_the_end_are_ours(body: str, names: tuple[str, ...]) -> None:
    assert marks(body) == names
    assert without_marks(body) == (body.split("<!--", maxsplit=1)[0].rstrip() if names else body)


def test_a_review_knows_its_head() -> None:
    assert reviewed_head(f"2 findings\n\n{mark('review:' + 'a' * 40)}") == "a" * 40
    assert reviewed_head("words") == ""
