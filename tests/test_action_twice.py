"""Two runs on one pull request end with one review, whatever comes between them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bot.github import Access, connect
from bot.github_marks import mark, review_mark
from bot.github_turns import MemoryTurns, Turn
from bot.pulls import NewComment, Plan, Posted, PullRef
from tests.action_scene import Stage, stage
from tests.github_scene import CLEAN, HEAD
from tests.standin.model import Review

ROOT = Path(__file__).parents[1]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_runs_at_the_same_moment_end_with_one_review(opened: Stage, count: int) -> None:
    running: list[subprocess.Popen[str]] = []
    for _ in range(count):
        told = opened.environment("pull_request", {"fail-on": "never"})
        running.append(
            subprocess.Popen(
                [sys.executable, "-m", "bot", "action"],
                cwd=ROOT, env=os.environ | told, stdout=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
        opened.runs.append(None)  # type: ignore[arg-type]  # each has files of its own
    logs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * count, logs
    assert (len(opened.comments), len(opened.reviews), len(opened.summaries)) == (2, 1, 1)


@pytest.mark.slow
def test_a_path_that_no_encoding_knows_ends_no_run(tmp_path: Path) -> None:
    with stage(tmp_path, head={"b\udcffd.py": HEAD, "train.py": HEAD}) as made:
        told = made.environment("pull_request", {"fail-on": "never"})
        done = subprocess.run(
            [sys.executable, "-m", "bot", "action"],
            cwd=ROOT, env=os.environ | told, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "file=train.py" in done.stdout
        assert "b\\udcffd.py" in done.stdout


def plan(*fingerprints: str, summary: str = "") -> Plan:
    comments = tuple(
        NewComment("train.py", f"about {f}\n\n{mark(f)}", f, line=6) for f in fingerprints
    )
    return Plan(review_body="2 new findings.", comments=comments, summary=summary)


ONE, TWO = "1" * 16, "2" * 16


def post(opened: Stage, todo: Plan, turns: MemoryTurns | None = None) -> Posted:
    access = Access(api_url=opened.github.world.url, write_gap=0.002, turns=turns or MemoryTurns())
    client = connect(access, token=opened.token(), repository="acme/train")
    try:
        return client.post(ref(opened), todo)
    finally:
        client.close()


def ref(opened: Stage) -> PullRef:
    pull = opened.github.pull
    return PullRef("acme", "train", pull.number, pull.base_sha, pull.head_sha)


def draft(opened: Stage, body: str, *, by_us: bool = True) -> Review:
    """What a run leaves that died between the draft and its submission."""
    world, pull = opened.github.world, opened.github.pull
    user = opened.bot if by_us else world.user("lead")
    left = Review(next(world.ids), pull, user, body, "PENDING", pull.head_sha)
    world.reviews.append(left)
    return left


def test_a_draft_of_this_head_that_a_dead_run_left_is_finished(opened: Stage) -> None:
    left = draft(opened, f"2 new findings.\n\n{review_mark(opened.github.pull.head_sha)}")
    post(opened, plan(ONE))
    assert left.state == "COMMENTED"
    assert all(review.startswith("COMMENTED") for review in opened.reviews)


def test_a_draft_of_an_older_head_is_taken_away(opened: Stage) -> None:
    left = draft(opened, f"old\n\n{review_mark('a' * 40)}")
    posted = post(opened, plan(ONE))
    assert posted.comments == 1
    assert left not in opened.github.world.reviews
    assert len(opened.reviews) == 1


def test_a_draft_of_an_older_head_is_taken_away_when_nothing_new_is_to_be_said(
    opened: Stage,
) -> None:
    left = draft(opened, f"old\n\n{review_mark('a' * 40)}")
    theirs = draft(opened, "somebody's own words")
    opened.github.world.push(opened.github.pull, {"train.py": CLEAN})
    done = opened.act()
    assert (done.code, done.outputs["conclusion"]) == (0, "success")
    assert left not in opened.github.world.reviews  # or no tool of this account could review
    assert theirs in opened.github.world.reviews


def test_a_draft_that_another_tool_writes_is_waited_for_and_never_touched(opened: Stage) -> None:
    left = draft(opened, "somebody's own words")
    with pytest.raises(Exception, match="another unfinished review of the same account"):
        post(opened, plan(ONE))
    assert left.state == "PENDING"
    assert opened.comments == []


def test_a_draft_of_somebody_else_is_no_matter(opened: Stage) -> None:
    draft(opened, "somebody's own words", by_us=False)
    assert post(opened, plan(ONE)).comments == 1


def test_a_github_that_lists_the_comments_of_a_draft_loses_no_review(
    opened: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = opened.github.world
    monkeypatch.setattr(
        world, "comments_on", lambda pull: [c for c in world.line_comments if c.pull is pull]
    )
    assert post(opened, plan(ONE)).comments == 1
    assert [review.partition(":")[0] for review in opened.reviews] == ["COMMENTED"]


def test_only_what_nobody_said_yet_is_said(opened: Stage) -> None:
    post(opened, plan(ONE))
    assert post(opened, plan(ONE, TWO)).comments == 1
    assert len(opened.comments) == 2


def test_the_oldest_of_two_summaries_stays(opened: Stage) -> None:
    post(opened, plan(summary="first"))
    world, pull = opened.github.world, opened.github.pull
    again = world.say(pull, "github-actions[bot]", f"second\n\n{mark('summary')}")
    assert again.user is opened.bot
    post(opened, plan(summary="third"))
    (left,) = opened.summaries
    assert left.startswith("third")
    assert again not in world.issue_comments


class Meanwhile(MemoryTurns):
    """Lets something happen just before one of our writes."""

    def __init__(self, number: int, happen: Callable[[], object]) -> None:
        super().__init__()
        self.left, self.happen = number, happen

    def take(self, key: str, patience: float) -> AbstractContextManager[Turn]:
        self.left -= 1
        if not self.left:
            self.happen()
        return super().take(key, patience)


@pytest.mark.parametrize("refused", [False, True], ids=["at lines", "on files"])
@pytest.mark.parametrize("write", range(1, 6), ids="before write {}".format)
def test_a_whole_other_run_between_any_two_writes_doubles_nothing(
    opened: Stage, write: int, refused: bool
) -> None:
    if refused:
        opened.github.world.faults.add("422", method="POST", path="reviews$", times=99)
    todo = plan(ONE, TWO, summary="both")
    post(opened, todo, Meanwhile(write, lambda: post(opened, todo)))
    assert len(opened.comments) == 2
    assert len(opened.summaries) == 1
    assert [review.partition(":")[0] for review in opened.reviews] == ["COMMENTED"] * (not refused)
