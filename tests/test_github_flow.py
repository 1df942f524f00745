"""The life of a review, from the opened pull request to the merged fix, on the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.config import RepoConfig
from bot.github_errors import SupersededError
from bot.github_marks import FIXED, marks
from bot.lifecycle import plan
from bot.review import build_review
from tests.github_scene import BASE, CLEAN, HEAD, Scene, scene
from tests.standin.suggestions import blocks


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Scene]:
    with scene(tmp_path) as made:
        yield made


def fixed(made: Scene) -> list[bool]:
    return [FIXED in marks(comment.body) for comment in made.comments]


def test_suggestions_are_posted_applied_in_a_batch_and_marked_fixed(opened: Scene) -> None:
    review, _, posted = opened.review()
    assert posted.comments == 2
    (posted_review,) = opened.world.reviews_on(opened.pull)
    assert posted_review.state == "COMMENTED"
    assert posted_review.commit_id == opened.pull.head_sha
    assert [len(blocks(comment.body)) for comment in opened.comments] == [1, 1]
    assert opened.world.checks_on(opened.pull.head_sha)[0].conclusion == "failure"

    head = opened.world.apply(opened.comments, "lead")
    assert opened.repo.git.blob(head, "train.py")[1].decode() == CLEAN  # type: ignore[index]

    review, _, posted = opened.review()
    assert review.comments == ()
    assert (posted.comments, posted.review, posted.edits) == (0, 0, 2)
    assert fixed(opened) == [True, True]
    assert [check.conclusion for check in opened.world.checks_on(head)] == ["success"]
    assert len(opened.world.reviews_on(opened.pull)) == 1
    assert len(opened.world.conversation(opened.pull)) == 1


def test_a_fix_by_hand_is_marked_in_the_comment_itself(opened: Scene) -> None:
    opened.review()
    opened.world.push(opened.pull, {"train.py": CLEAN})
    _, _, posted = opened.review()
    assert (posted.comments, posted.edits) == (0, 2)
    assert fixed(opened) == [True, True]
    assert all(comment.body.startswith("**Fixed** at ") for comment in opened.comments)
    assert all(blocks(comment.body) == [] for comment in opened.comments)
    before = [comment.body for comment in opened.comments]
    opened.world.push(opened.pull, {"other.py": "x = 1\n"})
    _, _, posted = opened.review()
    assert posted.edits == 0
    assert [comment.body for comment in opened.comments] == before


def test_nothing_is_posted_twice_for_one_head(opened: Scene) -> None:
    opened.review()
    _, todo, posted = opened.review()
    assert todo.comments == ()
    assert posted.comments == 0
    assert len(opened.comments) == 2
    assert len(opened.world.checks_on(opened.pull.head_sha)) == 1
    assert len(opened.world.conversation(opened.pull)) == 1


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("# one more line\n" + HEAD, id="lines move down"),
        pytest.param(HEAD.replace("def evaluate", "def measure"), id="another line changes"),
    ],
)
def test_a_push_that_leaves_the_findings_repeats_nothing(opened: Scene, head: str) -> None:
    opened.review()
    opened.world.push(opened.pull, {"train.py": head})
    _, _, posted = opened.review()
    assert (posted.comments, posted.edits) == (0, 0)
    assert len(opened.comments) == 2


def test_a_rebase_and_force_push_repeats_nothing(opened: Scene) -> None:
    opened.review()
    opened.repo.git.commit(opened.repo.ref("main"), {"new.py": "y = 2\n"})
    base = opened.repo.git.tip(opened.repo.ref("main")) or ""
    opened.world.push(opened.pull, {"train.py": HEAD}, parent=base)
    _, _, posted = opened.review()
    assert (posted.comments, posted.edits, len(opened.comments)) == (0, 0, 2)


def test_a_renamed_file_repeats_nothing(opened: Scene) -> None:
    opened.review()
    opened.world.push(opened.pull, {"train.py": None, "loop.py": HEAD})
    _, _, posted = opened.review()
    assert (posted.comments, posted.edits, len(opened.comments)) == (0, 0, 2)


def test_what_comes_back_is_said_again_in_its_old_comment(opened: Scene) -> None:
    opened.review()
    opened.world.push(opened.pull, {"train.py": CLEAN + "\n# a note\n"})
    opened.review()
    opened.world.push(opened.pull, {"train.py": HEAD})
    opened.review()
    assert fixed(opened).count(False) == 2
    texts = [c.body for c in opened.comments if FIXED not in marks(c.body)]
    assert all("GPU201" in text for text in texts)


def test_a_reverted_file_is_no_longer_in_the_change(opened: Scene) -> None:
    opened.review()
    opened.world.push(opened.pull, {"train.py": BASE, "other.py": "x = 1\n"})
    _, _, posted = opened.review()
    assert posted.edits == 2
    assert opened.comments[0].body.startswith("**No longer in the change** at ")


def test_a_resolved_thread_and_a_thumb_down_by_a_writer_are_respected(opened: Scene) -> None:
    opened.review()
    first, second = opened.comments
    opened.world.resolve(first)
    opened.world.react(second, "lead", "-1")
    opened.world.push(opened.pull, {"other.py": "x = 1\n"})
    _, _, posted = opened.review()
    assert posted.comments == 0
    (check,) = opened.world.checks_on(opened.pull.head_sha)
    assert (check.conclusion, check.annotations) == ("success", [])
    assert "2 findings dismissed by people" in (check.summary or "")


def test_a_thumb_down_by_a_passer_by_changes_nothing(opened: Scene) -> None:
    opened.review()
    for comment in opened.comments:
        opened.world.react(comment, "stranger", "-1")
    opened.world.push(opened.pull, {"other.py": "x = 1\n"})
    opened.review()
    (check,) = opened.world.checks_on(opened.pull.head_sha)
    assert check.conclusion == "failure"


def test_a_strangers_copy_of_our_words_does_not_silence_a_finding(opened: Scene) -> None:
    opened.review()
    copied = opened.comments
    for comment in copied:
        comment.user = opened.world.user("stranger")
    for comment in opened.world.conversation(opened.pull):
        comment.user = opened.world.user("stranger")
    _, _, posted = opened.review()
    assert posted.comments == 2
    assert len(opened.world.conversation(opened.pull)) == 2


def test_a_clean_pull_request_is_left_in_peace(tmp_path: Path) -> None:
    with scene(tmp_path, head={"train.py": CLEAN}) as made:
        made.review()
        assert made.comments == []
        assert made.world.conversation(made.pull) == []
        assert [c.conclusion for c in made.world.checks_on(made.pull.head_sha)] == ["success"]


def test_a_file_that_cannot_be_judged_keeps_its_comments_and_makes_the_check_neutral(
    opened: Scene,
) -> None:
    opened.review()
    opened.world.push(opened.pull, {"train.py": HEAD + "\ndef broken(:\n"})
    _, _, posted = opened.review()
    assert posted.edits == 0
    assert fixed(opened) == [False, False]
    (check,) = opened.world.checks_on(opened.pull.head_sha)
    assert check.conclusion == "neutral"
    (sticky,) = opened.world.conversation(opened.pull)
    assert "Not judged" in sticky.body


def test_a_fork_is_reviewed_at_its_own_head(tmp_path: Path) -> None:
    with scene(tmp_path) as made:
        fork = made.world.fork(made.repo, "guest")
        made.pull = made.world.open_pull(made.repo, {"train.py": HEAD}, "guest", fork, "patch-1")
        client = made.client()
        assert client.pull(made.ref).ref.from_fork
        _, _, posted = made.review()
        assert posted.comments == 2
        client.close()


def test_a_deleted_fork_is_still_reviewed(tmp_path: Path) -> None:
    with scene(tmp_path) as made:
        fork = made.world.fork(made.repo, "guest")
        made.pull = made.world.open_pull(made.repo, {"train.py": HEAD}, "guest", fork, "patch-1")
        made.pull.head_repo = None
        assert made.review()[2].comments == 2


def test_a_review_of_an_old_head_is_dropped(opened: Scene) -> None:
    old = opened.ref
    opened.world.push(opened.pull, {"other.py": "x = 1\n"})
    with pytest.raises(SupersededError, match="moved from"):
        opened.review(old)
    assert opened.comments == []


def test_a_head_that_moves_while_analysing_is_not_written_to(opened: Scene) -> None:
    client, ref = opened.client(), opened.ref
    review = build_review(client.changed_files(ref), RepoConfig())
    todo = plan(review, client.earlier(ref), ref)
    opened.world.push(opened.pull, {"other.py": "x = 1\n"})
    with pytest.raises(SupersededError):
        client.post(ref, todo)
    client.close()
    assert (opened.comments, opened.world.checks) == ([], [])


def test_a_pull_request_closed_meanwhile_is_not_written_to(opened: Scene) -> None:
    opened.world.close(opened.pull)
    with pytest.raises(SupersededError, match="was closed"):
        opened.review()
    assert [call for call in opened.running.log if call.method == "PATCH"] == []


def test_the_configuration_is_read_from_the_base(tmp_path: Path) -> None:
    project = "[tool.hostside]\nignore = ['GPU201']\n"
    head = {"train.py": HEAD, "pyproject.toml": project}
    with scene(tmp_path, head=head) as made:
        assert made.review()[2].comments == 2
    base = {"train.py": BASE, "pyproject.toml": project}
    with scene(tmp_path / "second", base=base) as made:
        assert made.review()[2].comments == 0


SHAPES = [
    pytest.param(HEAD.replace("\n", "\r\n"), 0, id="CRLF: no button"),
    pytest.param(HEAD.replace("model(mask)", "model(mask)  # ```"), 2, id="a fence nearby"),
    pytest.param(
        HEAD.replace("16).cuda()", "16).cuda()  # ``` and ````"), 2, id="a fence in the line"
    ),
    pytest.param(HEAD.replace("train(model, steps)", "train(modèle, steps)"), 2, id="accents"),
]


@pytest.mark.parametrize(("head", "buttons"), SHAPES)
def test_a_button_does_exactly_what_was_proven(tmp_path: Path, head: str, buttons: int) -> None:
    with scene(tmp_path, head={"train.py": head}) as made:
        made.review()
        assert len(made.comments) == 2
        found = [comment for comment in made.comments if blocks(comment.body)]
        assert len(found) == buttons
        if not buttons:
            return
        commit = made.world.apply(found, "lead")
        expected = head.replace("16).cuda()", '16, device="cuda")').replace(
            "ones(64).cuda()", 'ones(64, device="cuda")'
        )
        blob = made.repo.git.blob(commit, "train.py")
        assert blob is not None
        assert blob[1].decode() == expected
