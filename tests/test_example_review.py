"""The review of the bundled example: every comment can be posted, every click can be clicked."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from analyzers.engine import analyze
from bot.changes import Ends, changed_files
from bot.cli.demo import repository
from bot.cli.review import reviewed
from bot.comments import LONGEST_BODY
from bot.config import RepoConfig
from bot.diff import ChangedFile, Placement
from bot.reports import FORMATS, render
from bot.review import Review
from bot.suggestions import apply_all

Example = tuple[Review, dict[str, ChangedFile]]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    checkout, base, head = repository(tmp_path_factory.mktemp("example"))
    files = changed_files(checkout, Ends(base, head))
    return reviewed(files, RepoConfig(), "main...change"), {file.path: file for file in files}


def test_every_inline_comment_lies_in_one_hunk(example: Example) -> None:
    review, files = example
    inline = review.placed(Placement.INLINE)
    assert inline
    for comment in inline:
        assert files[comment.path].hunk_holding(comment.start_line, comment.line)


def test_a_suggestion_is_anchored_at_exactly_the_lines_it_replaces(example: Example) -> None:
    review, _ = example
    clicks = [c for c in review.placed(Placement.INLINE) if c.suggestion and c.suggestion.one_click]
    assert clicks
    for comment in clicks:
        assert comment.suggestion is not None
        lines = (comment.suggestion.start_line, comment.suggestion.end_line)
        assert (comment.start_line, comment.line) == lines
        assert "suggestion\n" in comment.body


def test_a_batch_commit_of_all_suggestions_adds_no_finding(example: Example) -> None:
    review, files = example
    for path, file in files.items():
        clicks = [
            c.suggestion
            for c in review.comments
            if c.path == path and c.suggestion and c.suggestion.one_click
        ]
        if not clicks or file.text is None:
            continue
        text = file.text.decode()
        after = apply_all(text, clicks)
        ast.parse(after)
        had, has = (Counter(f.rule for f in analyze(path, t).findings) for t in (text, after))
        assert has <= had
        assert has.total() <= had.total() - len(clicks)


def test_no_comment_is_too_long_and_no_fingerprint_twice(example: Example) -> None:
    review, _ = example
    marks = [comment.fingerprint for comment in review.comments]
    assert len(marks) == len(set(marks))
    assert all(len(comment.body) <= LONGEST_BODY for comment in review.comments)


@pytest.mark.parametrize("form", FORMATS)
def test_the_report_is_the_same_twice(example: Example, form: str) -> None:
    review, _ = example
    assert render(review, form) == render(review, form) != ""


def test_the_demo_page_shows_every_comment(example: Example, tmp_path: Path) -> None:
    review, _ = example
    page = render(review, "html")
    for comment in review.comments:
        assert comment.finding.rule in page
