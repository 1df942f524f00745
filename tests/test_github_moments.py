"""Between a review's draft and its submission, and on a head that comes back, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from bot.github_errors import GitHubError, SupersededError
from bot.github_marks import mark, review_mark
from bot.github_turns import MemoryTurns, Turn
from bot.pulls import NewComment, Plan, Posted
from tests.github_scene import CLEAN, HEAD, Scene, quiet_scene, scene
from tests.standin.model import LineComment, Review

ONE, TWO, OTHER = "1" * 16, "2" * 16, "3" * 16


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Scene]:
    with quiet_scene(tmp_path) as made:
        yield made


def plan(*fingerprints: str) -> Plan:
    comments = tuple(
        NewComment("train.py", f"about {f}\n\n{mark(f)}", f, line=6) for f in fingerprints
    )
    return Plan(review_body="new findings.", comments=comments)


class Before(MemoryTurns):
    """Lets something happen just before one of our writes."""

    def __init__(self, write: int, happen: Callable[[], object]) -> None:
        super().__init__()
        self.left, self.happen = write, happen

    def take(self, key: str, patience: float) -> AbstractContextManager[Turn]:
        self.left -= 1
        if not self.left:
            self.happen()
        return super().take(key, patience)


def post(made: Scene, todo: Plan, turns: MemoryTurns | None = None) -> Posted:
    client = made.client(turns=turns or MemoryTurns())
    try:
        return client.post(made.ref, todo)
    finally:
        client.close()


def states(made: Scene) -> list[str]:
    return [review.state for review in made.world.reviews_on(made.pull)]


def left_behind(made: Scene, head: str, *fingerprints: str) -> Review:
    """What a run leaves that died between the draft and its submission."""
    world, pull = made.world, made.pull
    left = Review(next(world.ids), pull, world.bot, f"x\n\n{review_mark(head)}", "PENDING", head)
    world.reviews.append(left)
    for name in fingerprints:
        comment = LineComment(
            next(world.ids), pull, world.bot, f"about {name}\n\n{mark(name)}", "train.py",
            pull.head_sha, 6, None, "RIGHT", None, "@@ -1 +1 @@",
        )  # fmt: skip
        comment.review = left.id
        world.line_comments.append(comment)
    return left


@pytest.mark.parametrize("kind", ["422", "403", "404"])
def test_a_draft_that_github_will_not_show_is_taken_away(opened: Scene, kind: str) -> None:
    opened.world.faults.add(kind, method="POST", path="/events$")
    with nullcontext() if kind == "422" else pytest.raises(GitHubError):
        post(opened, plan(ONE, TWO))
    # Gone, as the fault says, it cannot be taken away: the next attempt finishes it.
    assert ("PENDING" in states(opened)) is (kind == "404")
    opened.world.faults.clear()
    post(opened, plan(ONE, TWO))
    assert len(opened.comments) == 2
    assert "PENDING" not in states(opened)


def test_a_finding_whose_thread_was_closed_is_said_again_when_its_head_comes_back(
    opened: Scene,
) -> None:
    opened.review()
    old = opened.pull.head_sha
    opened.world.push(opened.pull, {"train.py": CLEAN})
    opened.review()
    for comment in opened.comments:
        opened.world.resolve(comment)
    opened.world.moved(opened.pull, old)
    for _ in range(2):
        opened.review()
        there = [c for c in opened.comments if not c.body.startswith("**Fixed**")]
        assert len(there) == 2


def test_a_draft_of_this_head_is_taken_away_when_nothing_is_to_be_said_any_more(
    tmp_path: Path,
) -> None:
    with scene(tmp_path, head={"train.py": CLEAN}) as made:
        left_behind(made, made.pull.head_sha, ONE)
        made.review()
        assert states(made) == []


def test_a_draft_of_this_head_with_other_words_loses_none_of_ours(opened: Scene) -> None:
    left_behind(opened, opened.pull.head_sha, OTHER)
    post(opened, plan(ONE, TWO))
    assert {ONE, TWO} <= {c.body[6:22] for c in opened.comments}
    assert "PENDING" not in states(opened)


@pytest.mark.parametrize("kind", ["502", "drop"])
def test_a_lost_answer_beside_another_runs_draft_loses_nothing(opened: Scene, kind: str) -> None:
    left_behind(opened, opened.pull.head_sha, OTHER)
    opened.world.faults.add(kind, method="POST", path="/reviews$")
    post(opened, plan(ONE, TWO))
    assert {ONE, TWO} <= {c.body[6:22] for c in opened.comments}


def test_a_draft_of_a_newer_head_is_not_taken_from_its_run(opened: Scene) -> None:
    newer: list[Review] = []

    def push() -> None:
        head = opened.world.push(opened.pull, {"train.py": HEAD + "\n\nX = 1\n"})
        newer.append(left_behind(opened, head, OTHER))

    client, ref = opened.client(turns=Before(1, push)), opened.ref
    with pytest.raises(SupersededError):
        client.post(ref, plan(ONE))
    assert newer[0] in opened.world.reviews


def test_a_push_between_draft_and_submission_leaves_no_draft(opened: Scene) -> None:
    def push() -> None:
        opened.world.push(opened.pull, {"train.py": CLEAN}, parent=opened.pull.base_sha)

    post(opened, plan(ONE), Before(2, push))
    opened.review()
    assert states(opened) == ["COMMENTED"]
    assert all(c.body.startswith("**Fixed**") for c in opened.comments)
