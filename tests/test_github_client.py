"""Everything else the client does: checks, replies, reactions, people, other servers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import respx

from bot.errors import BotError, ConfigError
from bot.github import NEWEST, OLDER, Access, connect, connect_app
from bot.github_errors import DeniedError, GitHubError, TryAgainError
from bot.pulls import Annotation, Check, Edit, NewComment, Plan, PullRef
from tests.github_scene import Scene, scene
from tests.standin.model import Delivery

NOTE = Annotation("train.py", 1, 1, "notice", "t", "m", 5, 2)
REF = PullRef("o", "r", 1, "b" * 40, "a" * 40)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Scene]:
    with scene(tmp_path) as made:
        yield made


def check(count: int, conclusion: str = "neutral") -> Check:
    return Check(conclusion, "title", "summary", (NOTE,) * count, benchmark=True)


@pytest.mark.parametrize("count", [0, 1, 50, 51, 120])
def test_annotations_go_out_in_batches_of_fifty(opened: Scene, count: int) -> None:
    client = opened.client()
    client.post(opened.ref, Plan(check=check(count)))
    (made,) = opened.world.checks_on(opened.pull.head_sha)
    assert len(made.annotations) == count
    assert (made.status, made.conclusion) == ("completed", "neutral")
    assert [action["identifier"] for action in made.actions] == ["benchmark"]
    assert len(opened.running.calls("PATCH", "/check-runs/")) == max(0, (count - 1) // 50)
    client.close()


def test_annotations_go_on_where_they_stopped(opened: Scene) -> None:
    client, plan = opened.client(), Plan(check=check(120))
    opened.world.faults.add("500", method="PATCH", path="check-runs", call=2, times=9)
    with pytest.raises(TryAgainError):
        client.post(opened.ref, plan)
    opened.world.faults.clear()
    client.post(opened.ref, plan)
    (made,) = opened.world.checks_on(opened.pull.head_sha)
    assert len(made.annotations) == 120
    client.close()


def test_a_running_check_is_shown_once_and_completed(opened: Scene) -> None:
    client = opened.client()
    assert client.start_check(opened.ref) == client.start_check(opened.ref)
    (made,) = opened.world.checks_on(opened.pull.head_sha)
    assert made.status == "in_progress"
    assert client.post(opened.ref, Plan(check=check(2))).check == made.id
    assert made.status == "completed"
    client.close()


def test_another_outcome_for_the_same_head_is_another_check_run(opened: Scene) -> None:
    client = opened.client()
    client.post(opened.ref, Plan(check=check(2)))
    client.post(opened.ref, Plan(check=check(0, "success")))
    runs = opened.world.checks_on(opened.pull.head_sha)
    assert [(run.conclusion, len(run.annotations)) for run in runs] == [
        ("neutral", 2),
        ("success", 0),
    ]
    client.close()


def test_two_pull_requests_of_one_head_have_their_own_checks(opened: Scene) -> None:
    client, ref = opened.client(), opened.ref
    client.post(ref, Plan(check=check(1)))
    second = opened.world.open_pull(opened.repo, {"z.py": "z = 1\n"}, branch="other")
    opened.world.moved(second, opened.pull.head_sha)
    other = PullRef("acme", "train", second.number, ref.base_sha, ref.head_sha, ref.installation)
    client.post(other, Plan(check=check(1)))
    assert len(opened.world.checks_on(ref.head_sha)) == 2
    client.close()


def test_a_reply_is_given_once_for_each_key(opened: Scene) -> None:
    client = opened.client()
    first = client.reply(opened.ref, "hello", "command:1")
    assert client.reply(opened.ref, "hello", "command:1") == first
    assert client.reply(opened.ref, "hello", "command:2") != first
    assert len(opened.world.conversation(opened.pull)) == 2
    client.close()


def test_reactions_reach_both_kinds_of_comments(opened: Scene) -> None:
    client = opened.client()
    talk = opened.world.say(opened.pull, "dev", "/hostside review")
    opened.review()
    line = opened.comments[0]
    client.react(opened.ref, talk.id, "eyes")
    client.react(opened.ref, talk.id, "eyes")
    client.react(opened.ref, line.id, "+1", on_line=True)
    assert [r.content for r in talk.reactions] == ["eyes"]
    assert [r.content for r in line.reactions] == ["+1"]
    client.close()


def test_permission_is_asked_of_github_each_time(opened: Scene) -> None:
    client = opened.client()
    found = [client.permission(opened.ref, who) for who in ("lead", "dev", "nobody")]
    assert found == ["write", "read", "none"]
    opened.repo.roles["lead"] = "read"
    assert client.permission(opened.ref, "lead") == "read"
    client.close()


def test_the_sticky_summary_is_edited_in_place(opened: Scene) -> None:
    client = opened.client()
    one = client.post(opened.ref, Plan(summary="one")).summary
    two = client.post(opened.ref, Plan(summary="two")).summary
    (sticky,) = opened.world.conversation(opened.pull)
    assert (one, two) == (sticky.id, sticky.id)
    assert sticky.body.startswith("two")
    client.post(opened.ref, Plan(summary="two"))
    assert len(sticky.edits) == 1
    client.close()


def test_what_is_too_long_is_cut_and_keeps_its_mark(opened: Scene) -> None:
    client = opened.client()
    client.post(opened.ref, Plan(summary="x" * 70_000))
    client.post(opened.ref, Plan(summary="x" * 70_000))
    (sticky,) = opened.world.conversation(opened.pull)
    assert len(sticky.body) <= 65_000
    assert sticky.body.endswith("<!-- hostside:summary -->")
    client.close()


def test_editing_a_comment_that_was_deleted_is_no_problem(opened: Scene) -> None:
    client = opened.client()
    assert client.post(opened.ref, Plan(edits=(Edit(999_999, "words"),))).edits == 0
    client.close()


def test_comments_of_many_pages_are_all_known(opened: Scene) -> None:
    client = opened.client()
    comments = tuple(
        NewComment("train.py", f"n {n}\n\n<!-- hostside:{n:016x} -->", f"{n:016x}", 6)
        for n in range(130)
    )
    for start in range(0, 130, 65):
        client.post(opened.ref, Plan("b", comments[start : start + 65]))
    assert len(client.earlier(opened.ref).comments) == 130
    assert client.post(opened.ref, Plan("b", comments)).comments == 0
    client.close()


def test_an_answer_by_a_person_is_noticed(opened: Scene) -> None:
    opened.review()
    opened.world.answer(opened.comments[0], "dev", "on purpose")
    client = opened.client()
    assert [c.replied for c in client.earlier(opened.ref).comments] == [True, False]
    client.close()


def test_writes_keep_the_pause_that_github_asks_for(opened: Scene) -> None:
    opened.world.gap = 0.1
    opened.access = type(opened.access)(**{**vars(opened.access), "write_gap": 0.15})
    opened.review()
    writes = [c for c in opened.running.log if c.method in ("POST", "PATCH") and "/repos" in c.path]
    gaps = [b.at - a.at for a, b in itertools.pairwise(writes)]
    assert len(writes) == 4  # the draft of the review, its submission, the summary, the check
    assert {c.status for c in writes} <= {200, 201}
    assert min(gaps) >= 0.1


def test_a_token_works_without_the_app_and_cannot_write_checks(opened: Scene) -> None:
    token = opened.world.token_of(opened.world.user("github-actions[bot]", "Bot"))
    client = connect(opened.access, token=token, repository="acme/train")
    assert client.pull(opened.ref).open
    assert client.reply(opened.ref, "hello", "k")
    with pytest.raises(DeniedError):
        client.start_check(opened.ref)
    client.close()


def test_failed_deliveries_are_found_and_asked_for_again(opened: Scene) -> None:
    answers = [500, 202, 500, 202]
    opened.world.deliver = lambda _: answers.pop(0)
    for number in range(3):
        opened.world.push(opened.pull, {"z.py": f"z = {number}\n"})
    app = connect_app(opened.access)
    assert app.slug() == "hostside"
    failed = app.failed(time.time() - 60)
    assert [d.status_code for d in failed] == [500, 500]
    assert app.again(failed[0])
    left = app.failed(time.time() - 60)
    assert [d.guid for d in left] == [failed[1].guid]
    assert app.failed(time.time() + 60) == ()
    made: Delivery = opened.world.deliveries[-1]
    assert (made.guid, made.redelivery) == (failed[0].guid, True)


def test_nobody_to_sign_in_as_is_said() -> None:
    with pytest.raises(ConfigError, match="HOSTSIDE_APP_ID"):
        connect(Access())


VERSIONS = [
    pytest.param("https://api.github.com", "", NEWEST, id="github.com"),
    pytest.param("https://api.acme.ghe.com", "", NEWEST, id="data residency"),
    pytest.param("https://git.acme.example/api/v3", "", OLDER, id="a server of one's own"),
    pytest.param("https://api.github.com", OLDER, OLDER, id="by setting"),
]


@pytest.mark.parametrize(("url", "setting", "version"), VERSIONS)
def test_each_server_hears_the_version_it_knows(url: str, setting: str, version: str) -> None:
    pull = {"number": 1, "state": "open", "head": {"sha": "a"}, "base": {"sha": "b"}}
    with respx.mock(assert_all_called=True) as net:
        route = net.get(f"{url}/repos/o/r/pulls/1").respond(json=pull)
        client = connect(Access(api_url=url, api_version=setting), token="t", repository="o/r")
        assert client.pull(REF).ref.head_sha == "a"
        client.close()
    sent = route.calls[0].request.headers
    assert sent["X-GitHub-Api-Version"] == version
    assert sent["Authorization"] == "token t"


@pytest.mark.parametrize(
    ("url", "graphql"),
    [
        pytest.param("https://api.github.com", "https://api.github.com/graphql", id="github.com"),
        pytest.param(
            "https://git.acme.example/api/v3/", "https://git.acme.example/api/graphql",
            id="a server of one's own",
        ),
    ],
)  # fmt: skip
def test_graphql_is_where_each_server_has_it(url: str, graphql: str) -> None:
    base = url.rstrip("/")
    viewer = {"data": {"viewer": {"login": "me", "databaseId": 1}}}
    with respx.mock(assert_all_called=True) as net:
        net.post(graphql).respond(json=viewer)
        said = {"id": 5, "user": {"id": 1, "login": "me"}, "body": "x\n\n<!-- hostside:reply:k -->"}
        net.get(f"{base}/repos/o/r/issues/1/comments").respond(json=[said])
        client = connect(Access(api_url=url), token="t", repository="o/r")
        assert client.reply(REF, "x", "k") == 5
        client.close()


def test_a_next_page_on_another_server_is_not_followed() -> None:
    url = "https://api.github.com/repos/o/r/issues/1/comments"
    link = {"Link": '<https://evil.example/page2>; rel="next"'}
    with respx.mock() as net:
        net.get(url).respond(json=[], headers=link)
        client = connect(Access(), token="secret", repository="o/r")
        with pytest.raises(GitHubError, match=r"another server \(evil.example\)"):
            client.reply(REF, "x", "k")
        client.close()


def test_the_token_goes_to_no_other_server_by_a_redirection() -> None:
    with respx.mock(assert_all_called=True) as net:
        away = {"Location": "https://evil.example/pulls/1"}
        net.get("https://api.github.com/repos/o/r/pulls/1").respond(302, headers=away)
        route = net.get("https://evil.example/pulls/1").respond(json={"state": "open"})
        client = connect(Access(), token="secret", repository="o/r")
        with pytest.raises(BotError, match="not the pullrequest"):
            client.pull(REF)
        client.close()
    assert all("Authorization" not in call.request.headers for call in route.calls)
    assert "secret" not in str([call.request.headers.raw for call in route.calls])


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(httpx.Response(200, json={"state": "open"}), id="fields are missing"),
        pytest.param(httpx.Response(200, text="<html>"), id="a page"),
        pytest.param(httpx.Response(200, json=[1]), id="a list"),
        pytest.param(httpx.Response(204), id="nothing"),
    ],
)
def test_an_answer_of_another_shape_is_one_sentence(answer: httpx.Response) -> None:
    with respx.mock() as net:
        net.get("https://api.github.com/repos/o/r/pulls/1").mock(return_value=answer)
        client = connect(Access(), token="t", repository="o/r")
        with pytest.raises(BotError, match="not the pullrequest"):
            client.pull(REF)
        client.close()


GRAPHQL = [
    pytest.param({"errors": [{"type": "RATE_LIMITED", "message": "m"}]}, "limits", id="limit"),
    pytest.param({"errors": [{"message": "Something went wrong"}]}, "Something", id="broken"),
    pytest.param({"data": None}, "who we are", id="nothing"),
    pytest.param(
        {"data": None, "errors": [{"type": "FORBIDDEN", "message": "no"}]}, "who we are",
        id="forbidden",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "said"), GRAPHQL)
def test_a_refused_question_is_one_sentence(answer: dict[str, object], said: str) -> None:
    comment = {"id": 5, "user": {"id": 1, "login": "me"}, "body": "<!-- hostside:reply:k -->"}
    with respx.mock() as net:
        net.post("https://api.github.com/graphql").respond(json=answer)
        net.get("https://api.github.com/repos/o/r/issues/1/comments").respond(json=[comment])
        client = connect(Access(write_gap=0.001), token="t", repository="o/r")
        with pytest.raises(BotError, match=said):
            client.reply(REF, "x", "k")
        client.close()


def test_without_graphql_the_app_knows_itself_by_its_name(opened: Scene) -> None:
    opened.world.faults.add("404", method="POST", path="^/graphql$", times=99)
    _, _, posted = opened.review()
    assert posted.comments == 2
    _, _, again = opened.review()
    assert again.comments == 0
    client = opened.client()
    assert not client.earlier(opened.ref).complete
    client.close()
