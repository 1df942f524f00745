"""The stand-in refuses what GitHub refuses, with GitHub's words."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from tests.standin import webhooks
from tests.standin.contract import Contract
from tests.standin.model import Delivery, LineComment, Pull, RefusedError, Repo
from tests.standin.running import served
from tests.standin.server import create_app
from tests.standin.world import APP_ID, World

BEFORE = "".join(f"line {n}\n" for n in range(1, 61))
AFTER = BEFORE.replace("line 5\n", "line five\n").replace("line 40\n", "line forty\nmore\n")


@dataclass
class Place:
    """One pull request and a way to ask about it."""

    world: World
    repo: Repo
    pull: Pull
    http: httpx.Client
    token: str
    contract: Contract

    def ask(self, method: str, below: str, body: Any = None, **headers: str) -> httpx.Response:
        sent = {"Authorization": f"token {self.token}"} | headers
        return self.http.request(method, f"/repos/acme/train/{below}", json=body, headers=sent)

    def review(self, *comments: dict[str, Any], **more: Any) -> httpx.Response:
        body = {"event": "COMMENT", "body": "words", "comments": list(comments)} | more
        return self.ask("POST", "pulls/1/reviews", body)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    world = World(tmp_path / "w")
    repo = world.repository("acme/train", {"a.py": BEFORE, "gone.py": "x\n"})
    repo.roles["lead"] = "write"
    world.user("lead")
    pull = world.open_pull(repo, {"a.py": AFTER, "gone.py": None, "new.py": "y\n"})
    contract = Contract()
    app = create_app(world, contract if Contract.available() else None)
    with served(app) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as http:
        yield Place(world, repo, pull, http, world.token_of(world.bot), contract)
    assert contract.complaints == []
    assert app.state.broken == []


def at(line: int | None, start: int | None = None, path: str = "a.py", **more: Any) -> dict:
    said = {"path": path, "body": "b", "side": "RIGHT", **more}
    said |= {"line": line} if line is not None else {}
    return said | ({"start_line": start, "start_side": "RIGHT"} if start is not None else {})


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        pytest.param(at(5), "", id="an added line"),
        pytest.param(at(2), "", id="the first line of a hunk"),
        pytest.param(at(8), "", id="the last line of a hunk"),
        pytest.param(at(41, 38), "", id="a range in one hunk"),
        pytest.param(at(5, side="LEFT"), "", id="a removed line"),
        pytest.param(at(1, path="new.py"), "", id="a new file"),
        pytest.param(at(1), "line must be part of the diff", id="before a hunk"),
        pytest.param(at(9), "line must be part of the diff", id="after a hunk"),
        pytest.param(at(20), "hunk can't be blank", id="between hunks"),
        pytest.param(at(40, 5), "must be part of the same hunk", id="two hunks"),
        pytest.param(at(5, 5), "must precede the end line", id="a range of one line"),
        pytest.param(at(5, 7), "must precede the end line", id="a range backwards"),
        pytest.param(at(1, path="other.py"), "Path could not be resolved", id="another file"),
        pytest.param(at(1, path="gone.py"), "line must be part of the diff", id="a deleted file"),
        pytest.param(at(5) | {"body": "x" * 65_537}, "too long", id="a body that is too long"),
    ],
)
def test_a_comment_needs_a_line_of_the_diff(place: Place, comment: dict, words: str) -> None:
    if comment["body"] == "x" * 65_537:
        place.contract.check = lambda *_: None  # type: ignore[method-assign]  # refused by both
    done = place.review(comment)
    assert done.status_code == (422 if words else 200)
    assert words in str(done.json().get("errors", ""))


def test_one_bad_comment_loses_the_whole_review(place: Place) -> None:
    assert place.review(at(5), at(20)).status_code == 422
    assert place.world.line_comments == []
    assert place.world.reviews == []


def test_a_review_without_an_event_is_pending_and_seen_by_nobody(place: Place) -> None:
    assert place.ask("POST", "pulls/1/reviews", {"comments": [at(5)]}).json()["state"] == "PENDING"
    assert place.ask("GET", "pulls/1/comments").json() == []
    second = place.review(at(5))
    assert second.status_code == 422
    assert "one pending review" in str(second.json())


def test_a_comment_on_a_file_says_line_one(place: Place) -> None:
    body = {"path": "a.py", "body": "b", "subject_type": "file", "commit_id": place.pull.head_sha}
    said = place.ask("POST", "pulls/1/comments", body).json()
    assert (said["subject_type"], said["line"]) == ("file", 1)


def test_a_comment_moves_with_its_line_until_the_line_is_touched(place: Place) -> None:
    place.review(at(41, 40))
    place.world.push(place.pull, {"a.py": "top\n" + AFTER})
    (said,) = place.ask("GET", "pulls/1/comments").json()
    assert (said["start_line"], said["line"]) == (41, 42)
    place.world.push(place.pull, {"a.py": AFTER.replace("more\n", "less\n")})
    (said,) = place.ask("GET", "pulls/1/comments").json()
    assert said["line"] is None


def test_a_diff_over_the_limit_is_refused_and_the_list_of_files_is_not(place: Place) -> None:
    place.world.files_limit = 2
    diff = place.ask("GET", "pulls/1", Accept="application/vnd.github.diff")
    assert diff.status_code == 406
    assert diff.json()["errors"][0]["code"] == "too_large"
    place.pull.hidden.add("a.py")
    files = {f["filename"]: f for f in place.ask("GET", "pulls/1/files").json()}
    assert set(files) == {"a.py", "gone.py", "new.py"}
    assert "patch" not in files["a.py"]
    assert files["new.py"]["patch"] == "@@ -0,0 +1 @@\n+y"
    assert place.review(at(5)).status_code == 422


def test_lists_come_page_by_page(place: Place) -> None:
    for number in range(5):
        place.world.say(place.pull, "dev", f"words {number}")
    first = place.ask("GET", "issues/1/comments?per_page=2")
    assert len(first.json()) == 2
    assert 'rel="next"' in first.headers["link"]
    assert 'rel="last"' in first.headers["link"]
    last = place.ask("GET", "issues/1/comments?per_page=2&page=3")
    assert len(last.json()) == 1
    assert 'rel="next"' not in last.headers["link"]


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        pytest.param({}, 200, id="right"),
        pytest.param({"iat": 30, "exp": 300}, 401, id="issued in the future"),
        pytest.param({"exp": 700}, 401, id="valid for too long"),
        pytest.param({"exp": -1}, 401, id="run out"),
        pytest.param({"iss": "1"}, 404, id="another App"),
    ],
)
def test_the_apps_signature_is_checked(place: Place, claims: dict[str, Any], status: int) -> None:
    now = int(time.time())
    times = {"iat": claims.get("iat", -60) + now, "exp": claims.get("exp", 500) + now}
    signed = jwt.encode(
        times | {"iss": claims.get("iss", str(APP_ID))}, place.world.private_key, "RS256"
    )
    done = place.http.get("/app", headers={"Authorization": f"Bearer {signed}"})
    assert done.status_code == status


def test_a_token_of_an_installation_does_what_it_was_given_for_an_hour(place: Place) -> None:
    made = place.world.install([place.repo], {"metadata": "read", "pull_requests": "read"})
    now = int(time.time())
    signed = jwt.encode(
        {"iss": str(APP_ID), "iat": now, "exp": now + 300}, place.world.private_key, "RS256"
    )
    bearer = {"Authorization": f"Bearer {signed}"}
    where = f"/app/installations/{made.id}/access_tokens"
    refused = place.http.post(where, json={"permissions": {"checks": "write"}}, headers=bearer)
    assert refused.status_code == 422
    place.token = place.http.post(where, headers=bearer).json()["token"]
    assert len(place.token) > 40
    assert place.ask("GET", "pulls/1").status_code == 200
    assert place.review(at(5)).json()["message"] == "Resource not accessible by integration"
    place.world.expire_tokens()
    assert place.ask("GET", "pulls/1").status_code == 401


@pytest.mark.parametrize(
    ("login", "role", "permission"),
    [
        pytest.param("acme", "admin", "admin", id="owner"),
        pytest.param("keeper", "maintain", "write", id="maintain is folded into write"),
        pytest.param("sorter", "triage", "read", id="triage is folded into read"),
        pytest.param("dev", "", "read", id="anybody in a public repository"),
        pytest.param("hostside[bot]", "", "none", id="an App"),
    ],
)
def test_permissions_are_folded(place: Place, login: str, role: str, permission: str) -> None:
    place.world.user(login)
    if role:
        place.repo.roles[login] = role
    said = place.ask("GET", f"collaborators/{login}/permission").json()
    assert said["permission"] == permission


def test_writes_in_quick_succession_meet_the_secondary_limit(place: Place) -> None:
    place.world.gap = 0.5
    assert place.ask("POST", "issues/1/comments", {"body": "one"}).status_code == 201
    refused = place.ask("POST", "issues/1/comments", {"body": "two"})
    assert (refused.status_code, refused.headers["retry-after"]) == (403, "1")


def test_the_second_reaction_of_a_kind_changes_nothing(place: Place) -> None:
    comment = place.world.say(place.pull, "dev", "/hostside review")
    path = f"issues/comments/{comment.id}/reactions"
    assert place.ask("POST", path, {"content": "eyes"}).status_code == 201
    assert place.ask("POST", path, {"content": "eyes"}).status_code == 200


def test_a_large_file_comes_as_a_blob(place: Place) -> None:
    text = b"x = 1\n" * 200_000
    place.world.push(place.pull, {"big.py": text})
    said = place.ask("GET", f"contents/big.py?ref={place.pull.head_sha}").json()
    assert (said["encoding"], said["content"]) == ("none", "")
    blob = place.ask("GET", f"git/blobs/{said['sha']}").json()
    assert base64.b64decode(blob["content"]) == text


def annotations(count: int) -> list[dict[str, Any]]:
    note = {"path": "a.py", "start_line": 1, "end_line": 1, "message": "m"}
    return [note | {"annotation_level": "notice"} for _ in range(count)]


def test_annotations_add_up_in_batches(place: Place) -> None:
    made = place.world.install([place.repo])
    token = place.world.tokens[place.token]
    token.installation = made
    output = {"title": "t", "summary": "s"}
    body = {
        "name": "Hostside", "head_sha": place.pull.head_sha, "conclusion": "neutral",
        "status": "completed", "output": output | {"annotations": annotations(50)},
    }  # fmt: skip
    run = place.ask("POST", "check-runs", body).json()
    more = {"output": output | {"annotations": annotations(3)}}
    done = place.ask("PATCH", f"check-runs/{run['id']}", more).json()
    assert done["output"]["annotations_count"] == 53


def comment_on(place: Place, body: str, line: int, start: int | None = None) -> LineComment:
    place.review(at(line, start) | {"body": body})
    return place.world.line_comments[-1]


@pytest.mark.parametrize(
    ("body", "line", "start", "text"),
    [
        pytest.param("```suggestion\nnew\n```", 5, None, "new\n", id="one line for one"),
        pytest.param("```suggestion\na\nb\n```", 5, None, "a\nb\n", id="two lines for one"),
        pytest.param("```suggestion\n```", 5, None, "", id="no line: deleted"),
        pytest.param("```suggestion\n\n```", 5, None, "\n", id="a blank line"),
        pytest.param("````suggestion\n```\n````", 5, None, "```\n", id="a fence in the text"),
        pytest.param("words\n\n```suggestion\n  x\n```\nmore", 6, 5, "  x\n", id="a range"),
    ],
)
def test_a_suggestion_replaces_its_lines(
    place: Place, body: str, line: int, start: int | None, text: str
) -> None:
    comment = comment_on(place, body, line, start)
    head = place.world.apply([comment], "lead")
    found = place.repo.git.blob(head, "a.py")
    rest = BEFORE.replace("line 40\n", "line forty\nmore\n")
    old = "line 5\nline 6\n" if start else "line 5\n"
    assert found is not None
    assert found[1].decode() == rest.replace(old, text, 1)
    assert comment.resolved
    assert "Co-authored-by: hostside[bot]" in place.repo.git.text("log", "-1", "--format=%B", head)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(lambda p, c: p.world.close(p.pull), "closed", id="closed"),
        pytest.param(
            lambda p, c: p.world.push(p.pull, {"a.py": BEFORE}), "outdated", id="outdated"
        ),
        pytest.param(lambda p, c: p.world.resolve(c), "resolved", id="resolved"),
        pytest.param(lambda p, c: setattr(c, "side", "LEFT"), "deleted", id="deleted lines"),
        pytest.param(lambda p, c: setattr(c, "body", "words"), "no suggestion", id="only words"),
        pytest.param(
            lambda p, c: setattr(c, "body", "```suggestion\nline five\n```"), "no changes",
            id="no change",
        ),
    ],
)  # fmt: skip
def test_a_suggestion_is_refused(place: Place, spoil: Any, words: str) -> None:
    comment = comment_on(place, "```suggestion\nnew\n```", 5)
    spoil(place, comment)
    with pytest.raises(RefusedError, match=words):
        place.world.apply([comment], "lead")


def test_a_batch_takes_one_suggestion_for_a_line(place: Place) -> None:
    one = comment_on(place, "```suggestion\nnew\n```", 6, 5)
    two = comment_on(place, "```suggestion\nother\n```", 6)
    with pytest.raises(RefusedError, match="one suggestion per line"):
        place.world.apply([one, two], "lead")


def test_only_people_who_can_write_apply_a_suggestion(place: Place) -> None:
    comment = comment_on(place, "```suggestion\nnew\n```", 5)
    with pytest.raises(RefusedError, match="write"):
        place.world.apply([comment], "dev")


def test_webhooks_are_signed_and_delivered_again_under_the_same_name(place: Place) -> None:
    seen: list[Delivery] = []

    def listen(delivery: Delivery) -> int:
        seen.append(delivery)
        return 500 if len(seen) == 1 else 202

    place.world.deliver = listen
    place.world.install([place.repo])
    place.world.push(place.pull, {"z.py": "z\n"})
    sent = webhooks.headers(seen[0], "secret")
    assert sent["X-GitHub-Event"] == "pull_request"
    assert len(sent["X-Hub-Signature-256"]) == len("sha256=") + 64
    webhooks.redeliver(place.world, seen[0].id)
    assert seen[1].guid == seen[0].guid
    assert seen[1].id != seen[0].id
    assert [d.status_code for d in place.world.deliveries] == [500, 202]


def test_resolving_a_thread_needs_more_than_writing_comments(place: Place) -> None:
    comment = comment_on(place, "words", 5)
    place.world.tokens[place.token].permissions["contents"] = "read"
    query = (
        f'mutation {{ resolveReviewThread(input: {{threadId: "T{comment.id}"}}) '
        "{ clientMutationId } }"
    )
    done = place.http.post(
        "/graphql", json={"query": query}, headers={"Authorization": f"token {place.token}"}
    )
    assert "not accessible" in str(done.json()["errors"])
    assert not comment.resolved
