"""GitHub fails at each request in turn: nothing is lost, nothing is said twice.

A review is a job: what raises TryAgainError is done again from the start, as the queue would do.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.github_errors import GitHubError, GoneError, TryAgainError
from bot.github_marks import SUMMARY, marks
from tests.github_scene import Scene, quiet_scene, scene

TRIES = 4


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Scene]:
    with quiet_scene(tmp_path) as made:
        yield made


def as_a_job(made: Scene) -> int:
    """Review until it succeeds; how many times it took."""
    for attempt in range(1, TRIES + 1):
        try:
            made.review()
            return attempt
        except TryAgainError:
            made.access.turns.__init__()  # time passes
    raise AssertionError("the job never succeeded")


def wanted(made: Scene) -> None:
    """Exactly the right review is there."""
    assert len(made.comments) == 2
    assert len(made.world.reviews_on(made.pull)) == 1
    sticky = [c for c in made.world.conversation(made.pull) if SUMMARY in marks(c.body)]
    assert len(sticky) == 1
    checks = [c for c in made.world.checks_on(made.pull.head_sha) if c.status == "completed"]
    assert len(checks) == 1
    assert len(checks[0].annotations) == 2


def requests_of_a_review(directory: Path) -> list[tuple[str, str]]:
    with scene(directory) as made:
        made.review()
        return [(call.method, call.path) for call in made.running.log]


KINDS = [
    pytest.param("500", False, id="500"),
    pytest.param("502", True, id="502 although it was done"),
    pytest.param("timeout", True, id="an answer that comes too late"),
    pytest.param("drop", True, id="a connection that breaks off"),
    pytest.param("garbage", True, id="half an answer"),
    pytest.param("secondary", False, id="secondary limit"),
    pytest.param("primary", False, id="primary limit"),
    pytest.param("abuse", False, id="422 abuse"),
    pytest.param("401", False, id="a token that was revoked"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "after"), KINDS)
def test_a_fault_at_any_request_loses_nothing_and_doubles_nothing(
    tmp_path: Path, kind: str, after: bool
) -> None:
    logging.disable(logging.CRITICAL)
    calls = requests_of_a_review(tmp_path / "plain")
    for number, (method, path) in enumerate(calls, 1):
        with scene(tmp_path / str(number)) as made:
            made.access = type(made.access)(**{**vars(made.access), "timeout": 1.0})
            made.world.faults.add(kind, call=number, after=after)
            attempts = as_a_job(made)
            wanted(made)
            assert attempts <= 2, (method, path)
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        pytest.param("502", True, id="502 although it was done"),
        pytest.param("502", False, id="502 and it was not done"),
        pytest.param("drop", True, id="a connection that breaks off"),
        pytest.param("garbage", True, id="half an answer"),
    ],
)
@pytest.mark.parametrize("path", ["reviews$", "issues/.*/comments$", "check-runs$"])
def test_a_post_whose_answer_is_lost_is_not_sent_twice(
    opened: Scene, path: str, kind: str, after: bool
) -> None:
    opened.world.faults.add(kind, method="POST", path=path, after=after)
    as_a_job(opened)
    wanted(opened)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("secondary", id="403 with retry-after"),
        pytest.param("primary", id="403 with nothing left"),
        pytest.param("abuse", id="422 abuse"),
    ],
)
def test_a_limit_at_the_review_is_waited_out_in_place(opened: Scene, kind: str) -> None:
    opened.world.faults.add(kind, method="POST", path="reviews$")
    if kind == "abuse":  # names no time: a minute at least, so the queue has to wait
        with pytest.raises(TryAgainError) as caught:
            opened.review()
        assert caught.value.after >= 59
        return
    opened.review()
    wanted(opened)
    posts = [c for c in opened.running.calls("POST") if c.path.endswith("/reviews")]
    assert [call.status for call in posts] == [403, 200]
    assert posts[1].at - posts[0].at >= 0.9


def test_a_long_limit_is_left_to_the_queue_and_stops_the_other_writers(opened: Scene) -> None:
    opened.world.faults.add("secondary", method="POST", path="reviews$", retry_after=120)
    with pytest.raises(TryAgainError) as caught:
        opened.review()
    assert 110 < caught.value.after <= 120
    client = opened.client()
    with pytest.raises(TryAgainError):
        client.reply(opened.ref, "hello", "k")
    client.close()
    assert opened.world.conversation(opened.pull) == []


def test_an_outage_is_reported_as_worth_another_try(opened: Scene) -> None:
    opened.world.faults.add("502", times=1000)
    with pytest.raises(TryAgainError, match="502"):
        opened.review()


def test_a_server_that_is_not_there_is_worth_another_try(opened: Scene) -> None:
    client = opened.client(api_url="http://127.0.0.1:1")
    with pytest.raises(TryAgainError, match="cannot be reached"):
        client.pull(opened.ref)
    client.close()


@pytest.mark.parametrize("removed", [True, False], ids=["removed", "suspended"])
def test_an_installation_that_is_gone_ends_the_job(opened: Scene, removed: bool) -> None:
    if removed:
        opened.world.installations.clear()
    else:
        opened.installation.suspended = True
    with pytest.raises(GoneError):
        opened.review()
    assert opened.comments == []


def test_an_installation_removed_in_the_middle_ends_the_job(opened: Scene) -> None:
    client = opened.client()
    client.changed_files(opened.ref)
    opened.world.installations.clear()
    opened.world.expire_tokens()
    with pytest.raises(GoneError):
        client.earlier(opened.ref)
    client.close()


def test_a_token_that_expires_in_the_middle_is_renewed(opened: Scene) -> None:
    client = opened.client()
    client.pull(opened.ref)
    opened.world.expire_tokens()
    assert client.pull(opened.ref).open
    assert len(opened.running.calls("POST", "/access_tokens")) == 2
    client.close()


def test_one_token_serves_many_jobs(opened: Scene) -> None:
    for _ in range(3):
        client = opened.client()
        client.pull(opened.ref)
        client.close()
    assert len(opened.running.calls("POST", "/access_tokens")) == 1


def test_a_refused_review_is_put_on_its_files_instead(opened: Scene) -> None:
    opened.world.faults.add("422", method="POST", path="reviews$")
    _, _, posted = opened.review()
    assert (posted.comments, posted.files, posted.lost) == (0, 2, ())
    assert all(comment.whole_file for comment in opened.comments)
    _, _, again = opened.review()
    assert again.files == 0


def test_what_github_takes_nowhere_is_named(opened: Scene) -> None:
    opened.world.faults.add("422", method="POST", path="(reviews|pulls/1/comments)$", times=9)
    review, _, posted = opened.review()
    assert sorted(posted.lost) == sorted(c.fingerprint for c in review.comments)
    assert opened.comments == []


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        pytest.param("checks", "checks: write", id="checks"),
        pytest.param("pull_requests", "pull_requests: write", id="pull requests"),
    ],
)
def test_a_missing_permission_is_named(opened: Scene, lacking: str, said: str) -> None:
    del opened.installation.permissions[lacking]
    with pytest.raises(GitHubError, match=said):
        opened.review()


def test_the_token_is_narrowed_to_the_repository_and_what_is_used(opened: Scene) -> None:
    opened.installation.permissions |= {"contents": "write", "actions": "write"}
    opened.world.repository("acme/secret", {"a.py": "1\n"})
    opened.installation.repos.append(opened.world.repos["acme/secret"])
    client = opened.client()
    client.pull(opened.ref)
    client.close()
    token = next(t for t in opened.world.tokens.values() if t.installation)
    assert [repo.full_name for repo in token.repos or []] == ["acme/train"]
    assert token.permissions == {
        "checks": "write",
        "contents": "read",
        "metadata": "read",
        "pull_requests": "write",
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"private_key": "not a key"}, "HOSTSIDE_PRIVATE_KEY", id="a broken key"),
        pytest.param({"app_id": "1"}, "HOSTSIDE_APP_ID", id="another App"),
    ],
)
def test_a_wrong_identity_is_explained(opened: Scene, changes: dict[str, str], said: str) -> None:
    client = opened.client(**changes)
    with pytest.raises(GitHubError, match=said):
        client.pull(opened.ref)
    client.close()
