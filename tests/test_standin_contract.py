"""The stand-in's answers are GitHub's: they fit its description and githubkit's typed models."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from githubkit_schemas.latest import models
from pydantic import BaseModel, TypeAdapter

from tests.standin import app_shapes, shapes
from tests.standin.contract import Contract
from tests.standin.hunks import changed
from tests.standin.model import CheckRun, Delivery, IssueComment, LineComment, Reaction, Review
from tests.standin.running import served
from tests.standin.server import create_app
from tests.standin.world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("w") / "w")
    repo = made.repository("acme/train", {"a.py": "1\n"})
    made.install([repo])
    made.open_pull(repo, {"a.py": "2\n"}, labels=["bug"])
    return made


def sample(world: World, name: str) -> object:
    pull, repo, bot = world.pulls[0], world.repos["acme/train"], world.bot
    comment = LineComment(7, pull, bot, "b", "a.py", pull.head_sha, 1, hunk="@@ -1 +1 @@\n-1\n+2")
    check = CheckRun(9, repo, "Hostside", pull.head_sha, "x", "completed", "neutral", "t", "s")
    delivery = Delivery(5, "guid", "pull_request", "opened", b"{}", 1.0, 202, False, 3, 4)
    made = {
        "pull": shapes.pull(world, pull),
        "review": shapes.review(world, Review(8, pull, bot, "b", "COMMENTED", pull.head_sha)),
        "comment": shapes.line_comment(world, comment),
        "said": shapes.issue_comment(world, IssueComment(6, repo, 1, bot, "b")),
        "reaction": shapes.reaction(world, Reaction(4, bot, "eyes")),
        "check": app_shapes.check_run(world, check),
        "app": app_shapes.app(world),
        "installation": app_shapes.installation(world, next(iter(world.installations.values()))),
        "repository": shapes.repository(world, repo),
        "delivery": app_shapes.delivery(delivery),
    }
    return made[name]


@pytest.mark.parametrize(
    ("name", "model"),
    [
        pytest.param("pull", models.PullRequest, id="pull request"),
        pytest.param("review", models.PullRequestReview, id="review"),
        pytest.param("comment", models.PullRequestReviewComment, id="review comment"),
        pytest.param("said", models.IssueComment, id="issue comment"),
        pytest.param("reaction", models.Reaction, id="reaction"),
        pytest.param("check", models.CheckRun, id="check run"),
        pytest.param("app", models.Integration, id="app"),
        pytest.param("installation", models.Installation, id="installation"),
        pytest.param("repository", models.FullRepository, id="repository"),
        pytest.param("delivery", models.HookDeliveryItem, id="delivery"),
    ],
)
def test_an_answer_parses_in_githubkits_typed_model(
    world: World, name: str, model: type[BaseModel]
) -> None:
    said = json.dumps(sample(world, name))
    if name == "repository":
        said = json.dumps(sample(world, name) | {"network_count": 0, "subscribers_count": 0})  # type: ignore[operator]
    parsed = TypeAdapter(model).validate_json(said)
    assert parsed.model_dump(exclude_unset=True)


CALLS = [
    pytest.param("POST", "pulls/1/reviews", {"event": "COMMENT", "body": "b"}, "", id="right"),
    pytest.param(
        "POST", "pulls/1/reviews", {"event": "COMMENT", "body": "b", "bodies": 1}, "bodies",
        id="a stray key",
    ),
    pytest.param(
        "POST", "pulls/1/reviews", {"event": "COMMENT", "body": 5}, "body", id="a wrong type",
    ),
    pytest.param(
        "POST", "issues/1/comments", {"body": "b" * 65_537}, "body", id="a body that is too long",
    ),
    pytest.param("GET", "pulls/1/coments", None, "NotFound", id="a mistyped path"),
]  # fmt: skip


@pytest.mark.skipif(not Contract.available(), reason="GitHub's API description is not here")
@pytest.mark.parametrize(("method", "path", "body", "complaint"), CALLS)
def test_a_request_that_github_does_not_know_is_noticed(
    world: World, method: str, path: str, body: object, complaint: str
) -> None:
    contract = Contract()
    headers = {"Authorization": f"token {world.token_of(world.bot)}"}
    with served(create_app(world, contract)) as port:
        address = f"http://127.0.0.1:{port}/repos/acme/train/{path}"
        httpx.request(method, address, json=body, headers=headers)
    said = "\n".join(contract.complaints)
    assert complaint in said
    assert bool(said) is bool(complaint)


def test_the_diff_shows_what_git_shows(world: World, tmp_path: Path) -> None:
    repo = world.repository("acme/shapes", {"a.py": "1\n2\n", "old.py": "x\n" * 9, "b.bin": b"\0"})
    store = repo.git
    base = store.tip(repo.ref("main")) or ""
    head = store.commit(
        "refs/heads/t",
        {"a.py": "1\n", "old.py": None, "new.py": "x\n" * 9, "b.bin": b"\0\1", "c é.py": "1\n"},
        parent=base,
    )
    found = {f.path: (f.status, f.binary, len(f.pieces)) for f in changed(store, base, head)}
    assert found == {
        "a.py": ("modified", False, 1),
        "new.py": ("renamed", False, 0),
        "b.bin": ("modified", True, 0),
        "c é.py": ("added", False, 1),
    }
