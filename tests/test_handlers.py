from __future__ import annotations

import json
from typing import Any

import pytest
import service_events as events

from bot.handlers import CLOSED, REMOVED, SUPERSEDED, Event, work
from bot.payloads import parse
from bot.work import NOTHING, Drop, Kind, Work


def worked(name: str, body: dict[str, Any], allowed_bots: tuple[int, ...] = ()) -> Work:
    return work(Event("d-1", name, parse(name, json.dumps(body).encode()), allowed_bots))


@pytest.mark.parametrize("action", ["opened", "reopened", "synchronize", "ready_for_review"])
def test_a_head_to_review_is_one_job_that_replaces_older_ones(action: str) -> None:
    found = worked("pull_request", events.pull_request(action))
    (job,) = found.jobs
    assert (job.key, job.kind, job.number, job.installation) == (
        f"review:acme/train#1@{events.HEAD}",
        Kind.REVIEW,
        1,
        5,
    )
    assert dict(job.arguments) == {"head_sha": events.HEAD, "base_sha": events.BASE}
    assert found.drops == (Drop(SUPERSEDED, 5, "acme/train", 1, "2026-01-01T00:00:01Z"),)


@pytest.mark.parametrize("action", ["edited", "unlabeled"])
def test_what_kept_a_review_away_may_be_gone_and_what_was_reviewed_is_not_reviewed_again(
    action: str,
) -> None:
    (job,) = worked("pull_request", events.pull_request(action)).jobs
    assert (job.key, job.anew) == (f"review:acme/train#1@{events.HEAD}", False)
    assert worked("pull_request", events.pull_request(action, state="closed")) == NOTHING


def test_another_base_is_another_review() -> None:
    moved = events.pull_request("edited") | {"changes": {"base": {"ref": {"from": "next"}}}}
    (job,) = worked("pull_request", moved).jobs
    assert job.key == f"review:acme/train#1@{events.HEAD}:{events.BASE}"
    assert job.anew  # it may have been the base before


def test_a_push_is_reviewed_even_when_its_head_was_reviewed_before() -> None:
    (job,) = worked("pull_request", events.pull_request("synchronize")).jobs
    assert job.anew


@pytest.mark.parametrize(
    ("name", "body"),
    [
        pytest.param("pull_request", events.pull_request("labeled"), id="another action"),
        pytest.param("star", events.pull_request("created"), id="another event"),
        pytest.param("check_run", events.check_run("completed"), id="a check that ended"),
        pytest.param(
            "check_run", events.check_run("requested_action", "other"), id="another App's button"
        ),
        pytest.param(
            "check_run", events.check_run("rerequested", name="lint"), id="another App's check"
        ),
        pytest.param("issue_comment", events.issue_comment("nice!"), id="no command"),
        pytest.param(
            "issue_comment", events.issue_comment("/hostside review", "edited"), id="an edit"
        ),
        pytest.param(
            "issue_comment",
            events.issue_comment("/hostside review", on_pull=False),
            id="a comment of an issue",
        ),
        pytest.param(
            "issue_comment",
            events.issue_comment("/hostside review", user=events.ROBOT),
            id="a bot",
        ),
        pytest.param(
            "issue_comment", events.issue_comment("/gpu-bench", "edited"), id="a benchmark, edited"
        ),
        pytest.param(
            "issue_comment",
            events.issue_comment("/gpu-bench", user=events.ROBOT),
            id="a benchmark, by a bot",
        ),
        pytest.param(
            "issue_comment", events.issue_comment("> /gpu-bench\n\nWhy?"), id="a benchmark, quoted"
        ),
        pytest.param(
            "issue_comment",
            events.issue_comment("```\n/gpu-bench\n```"),
            id="a benchmark, in a code block",
        ),
    ],
)
def test_what_is_not_ours_asks_for_nothing(name: str, body: dict[str, Any]) -> None:
    assert worked(name, body) == NOTHING


def test_a_listed_bot_is_heard() -> None:
    body = events.issue_comment("/hostside review", user=events.ROBOT)
    assert len(worked("issue_comment", body, (22,)).jobs) == 1


@pytest.mark.parametrize(
    ("name", "body", "on_line"),
    [
        ("issue_comment", events.issue_comment("Hm.\n/hostside review\n/x"), False),
        ("pull_request_review_comment", events.line_comment("/hostside review"), True),
    ],
    ids=["in the conversation", "in a thread"],
)
def test_a_comment_with_commands_is_one_job_that_holds_nothing_else_of_it(
    name: str, body: dict[str, Any], on_line: bool
) -> None:
    (job,) = worked(name, body).jobs
    assert job.kind is Kind.COMMAND
    assert job.arguments["lines"] == ["/hostside review"]
    assert job.arguments["author"] == "ada"
    assert job.arguments["on_line"] is on_line
    assert "Hm" not in job.text


def test_what_a_comment_is_about_comes_with_it_as_far_as_github_says() -> None:
    talk = events.issue_comment("/gpu-bench")
    talk["comment"]["created_at"] = "2026-01-01T00:00:02Z"
    (job,) = worked("issue_comment", talk).jobs
    said = job.arguments
    assert (said["created"], said["head"], said["reply_to"]) == ("2026-01-01T00:00:02Z", "", 0)
    line = events.line_comment("/gpu-bench")
    line["comment"] |= {"in_reply_to_id": 70}
    (job,) = worked("pull_request_review_comment", line).jobs
    assert (job.arguments["head"], job.arguments["reply_to"]) == (events.HEAD, 70)


@pytest.mark.parametrize(
    ("changed", "number"),
    [
        pytest.param({}, 1, id="listed"),
        pytest.param(
            {"pull_requests": [], "external_id": "hostside:7:ab12"}, 7, id="head in a fork"
        ),
    ],
)
def test_the_button_is_the_command_at_the_checked_commit(
    changed: dict[str, Any], number: int
) -> None:
    (job,) = worked("check_run", events.check_run("requested_action", **changed)).jobs
    assert job.number == number
    assert job.arguments["lines"] == [f"/gpu-bench sha={events.HEAD}"]


def test_a_check_asked_for_again_is_a_review_of_its_own() -> None:
    (job,) = worked("check_run", events.check_run("rerequested")).jobs
    assert (job.kind, job.number, job.key) == (Kind.REVIEW, 1, "rerun:d-1#1")


def test_a_suite_asked_for_again_reviews_each_of_its_pull_requests() -> None:
    suite = {"head_sha": events.HEAD, "pull_requests": [{"number": 1}, {"number": 2}]}
    body = events.check_run("rerequested") | {"check_suite": suite}
    assert [job.number for job in worked("check_suite", body).jobs] == [1, 2]


def test_what_is_closed_or_removed_is_not_worked_on() -> None:
    closed = worked("pull_request", events.pull_request("closed"))
    (end,) = closed.jobs
    assert (end.kind, end.number, dict(end.arguments)) == (Kind.BENCH, 1, {})
    assert closed.drops == (Drop(CLOSED, 5, "acme/train", 1, "2026-01-01T00:00:01Z"),)
    installation = {"action": "deleted", "installation": {"id": 5}, "sender": events.ADA}
    assert worked("installation", installation).drops == (Drop(REMOVED, 5),)
    fewer = installation | {"action": "removed", "repositories_removed": [events.REPO]}
    assert worked("installation_repositories", fewer).drops == (Drop(REMOVED, 5, "acme/train"),)
