"""Changed files in, review out."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

import pytest

from analyzers.finding import Confidence, Finding, Objective, Severity, Span
from bot.config import RepoConfig
from bot.diff import Change, ChangedFile, Placement, parse_patch, whole_file
from bot.examine import Examined, Excerpt, Item, Job
from bot.pool import Task
from bot.proving import MOST_PROOFS
from bot.review import Conclusion, Review, build_review

HEAD = "import torch\n\n\ndef f(n: int):\n"
FAULT = "    return torch.zeros(n).cuda()\n"


def changed(path: str, before: str, after: str) -> ChangedFile:
    """The file as a review sees it, three lines of context around each change."""
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True))
    hunks = parse_patch(path, "".join(list(lines)[2:])).hunks
    change = Change.MODIFIED if before else Change.ADDED
    return ChangedFile(path, change, hunks, after.encode(), before.encode() or None)


def reported(review: Review) -> list[tuple[str, str, int, Placement]]:
    return [(c.path, c.finding.rule, c.finding.span.line, c.placement) for c in review.comments]


def test_a_finding_on_an_added_line_stands_there() -> None:
    review = build_review([changed("m.py", HEAD, HEAD + FAULT)], RepoConfig())
    assert reported(review) == [("m.py", "GPU201", 5, Placement.INLINE)]
    assert review.conclusion is Conclusion.FAILURE


def test_what_base_had_is_not_reported_again() -> None:
    before = HEAD + FAULT
    review = build_review([changed("m.py", before, "# note\n" + before)], RepoConfig())
    assert reported(review) == []
    assert review.conclusion is Conclusion.SUCCESS


def test_a_move_to_another_file_of_the_change_is_not_news() -> None:
    files = [changed("a.py", HEAD + FAULT, "import torch\n"), changed("b.py", "", HEAD + FAULT)]
    assert reported(build_review(files, RepoConfig())) == []


def test_a_move_out_of_a_deleted_file_is_not_news() -> None:
    text = (HEAD + FAULT).encode()
    gone = ChangedFile("a.py", Change.DELETED, (), None, text)
    files = [gone, changed("b.py", "", HEAD + FAULT)]
    assert reported(build_review(files, RepoConfig())) == []


def test_an_effect_far_from_its_new_cause_is_shown_on_the_file() -> None:
    far = Span(30, 0, 30, 5)
    finding = Finding(far, "m", Confidence.LIKELY, Severity.WARNING, rule="GPU201")
    item = Item(finding, "0" * 16, ("GPU201", "x.cuda()"), Excerpt(29, ("", "x.cuda()")))

    def run(task: Task[Job, Examined], jobs: Sequence[Job]) -> Iterator[tuple[int, Examined]]:
        yield from (
            (n, Examined(job.path, "analysed", items=(item,))) for n, job in enumerate(jobs)
        )

    review = build_review([changed("m.py", HEAD, HEAD + FAULT)], RepoConfig(), run)
    assert reported(review) == [("m.py", "GPU201", 30, Placement.FILE)]


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        pytest.param(
            ChangedFile("README.md", Change.MODIFIED), "Not a Python file.", id="not Python"
        ),
        pytest.param(ChangedFile("a.py", Change.DELETED), "The file was deleted.", id="deleted"),
        pytest.param(
            ChangedFile("a.py", Change.RENAMED, (), b"import torch\n", old_path="b.py"),
            "No line was added.",
            id="only renamed",
        ),
        pytest.param(
            ChangedFile("l.py", Change.ADDED, unread="It is a symbolic link."),
            "It is a symbolic link.",
            id="a link",
        ),
        pytest.param(
            ChangedFile("gen/a.py", Change.ADDED, whole_file(b"x\n"), b"x\n"),
            "The configuration leaves it out.",
            id="filtered",
        ),
        pytest.param(
            ChangedFile("a.py", Change.ADDED, whole_file(b"x\n"), b"x\n"),
            "No GPU library is named.",
            id="no GPU",
        ),
    ],
)
def test_what_has_nothing_to_judge_is_named_and_harmless(file: ChangedFile, reason: str) -> None:
    review = build_review([file], RepoConfig(exclude=("gen",)))
    assert [(f.status, f.reason) for f in review.files] == [("skipped", reason)]
    assert review.conclusion is Conclusion.SUCCESS


def test_what_could_not_be_read_makes_the_check_neutral() -> None:
    huge = ChangedFile("a.py", Change.ADDED, unread="The file is 9,000,000 bytes long.")
    broken = ChangedFile(
        "b.py", Change.ADDED, whole_file(b"import torch\ndef f(:\n"), b"import torch\ndef f(:\n"
    )
    review = build_review([huge, broken], RepoConfig())
    assert [file.status for file in review.files] == ["failed", "failed"]
    assert review.conclusion is Conclusion.NEUTRAL


@pytest.mark.parametrize(
    ("config", "count"),
    [
        pytest.param(RepoConfig(severity=Severity.ERROR), 0, id="severity"),
        pytest.param(RepoConfig(objectives=frozenset({Objective.CORRECTNESS})), 0, id="objective"),
        pytest.param(RepoConfig(ignore=frozenset({"GPU201"})), 0, id="ignored"),
        pytest.param(RepoConfig(select=frozenset({"GPU105"})), 0, id="not selected"),
        pytest.param(
            RepoConfig(per_path_ignores=(("m.py", frozenset({"GPU201"})),)), 0, id="by path"
        ),
        pytest.param(
            RepoConfig(per_path_ignores=(("n.py", frozenset({"GPU201"})),)), 1, id="another path"
        ),
    ],
)
def test_the_configuration_decides_what_is_reported(config: RepoConfig, count: int) -> None:
    review = build_review([changed("m.py", HEAD, HEAD + FAULT)], config)
    assert len(review.comments) == count


def test_a_threshold_above_a_finding_folds_it_away() -> None:
    config = RepoConfig(confidence=Confidence.CERTAIN)
    review = build_review([changed("m.py", HEAD, HEAD + FAULT)], config)
    expected = {
        Confidence.CERTAIN: Placement.INLINE,
        Confidence.LIKELY: Placement.SUMMARY,
        Confidence.POSSIBLE: Placement.SUMMARY,
    }
    (comment,) = review.comments
    assert comment.placement is expected[comment.finding.confidence]


def test_the_worst_findings_keep_their_places_when_there_are_too_many() -> None:
    body = "".join(f"def g{n}():\n    return torch.ones({n + 1}).cuda()\n" for n in range(6))
    config = RepoConfig(max_comments=2)
    review = build_review([changed("m.py", "import torch\n", f"import torch\n{body}")], config)
    assert len(review.placed(Placement.INLINE)) == 2
    assert len(review.placed(Placement.SUMMARY)) == 4


def test_two_findings_on_equal_lines_have_two_fingerprints() -> None:
    after = f"{HEAD}{FAULT}\n\ndef g(n: int):\n{FAULT}"
    review = build_review([changed("m.py", HEAD, after)], RepoConfig())
    assert len({comment.fingerprint for comment in review.comments}) == 2


def test_a_fingerprint_survives_lines_above_it() -> None:
    one = build_review([changed("m.py", HEAD, HEAD + FAULT)], RepoConfig())
    moved = build_review([changed("m.py", HEAD, f"# a\n# b\n{HEAD}{FAULT}")], RepoConfig())
    assert one.comments[0].fingerprint == moved.comments[0].fingerprint


def test_a_file_whose_analysis_died_is_named() -> None:
    def run(task: Task[Job, Examined], jobs: Sequence[Job]) -> Iterator[tuple[int, Examined]]:
        for number, job in enumerate(jobs):
            yield number, task.failed(job, "Its analysis crashed.")

    review = build_review([changed("m.py", HEAD, HEAD + FAULT)], RepoConfig(), run)
    assert [(f.path, f.status, f.reason) for f in review.files] == [
        ("m.py", "failed", "Its analysis crashed.")
    ]
    assert review.conclusion is Conclusion.NEUTRAL


@pytest.mark.slow
def test_a_file_with_very_many_fixes_is_still_judged() -> None:
    body = "".join(f"def g{n}():\n    return torch.ones({n + 1}).cuda()\n" for n in range(60))
    config = RepoConfig(max_comments=0)
    review = build_review([changed("m.py", "import torch\n", f"import torch\n{body}")], config)
    offered = [c for c in review.comments if c.suggestion and c.suggestion.one_click]
    assert len(review.comments) == 60
    assert 0 < len(offered) <= MOST_PROOFS
