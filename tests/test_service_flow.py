"""The whole App as processes, from a webhook to what stands on the pull request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from service_project import (
    CLEAN,
    FAULTY,
    FINDINGS,
    is_reviewed_once,
    marks,
    open_faulty,
    repository,
)
from service_running import Service, serving

from tests.standin.running import Running, running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def github(place: Path) -> Iterator[Running]:
    with running(place / "github") as made:
        repository(made.world)
        yield made


@pytest.fixture(scope="module")
def service(github: Running, place: Path) -> Iterator[Service]:
    with serving(github.world, place) as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_breaks_the_contract(github: Running) -> Iterator[None]:
    yield
    assert github.complaints == []


def test_from_opened_to_all_suggestions_applied(github: Running, service: Service) -> None:
    world = github.world
    pull = open_faulty(world, world.repos["acme/train"])
    service.settle()
    assert is_reviewed_once(world, pull)
    comments = world.comments_on(pull)
    assert all("```suggestion" in comment.body for comment in comments)
    first_head = pull.head_sha

    world.apply(comments, "ada")
    service.settle()
    assert pull.head_sha != first_head
    assert len(world.comments_on(pull)) == FINDINGS
    assert all(c.body.startswith("**Fixed** at ") for c in world.comments_on(pull))
    assert [c.conclusion for c in world.checks_on(pull.head_sha)] == ["success"]
    assert len([r for r in world.reviews_on(pull) if r.body]) == 1
    assert len(world.conversation(pull)) == 1


def test_a_clean_change_gets_a_green_check_and_not_a_word(
    github: Running, service: Service
) -> None:
    world = github.world
    pull = world.open_pull(
        world.repos["acme/train"], {"train.py": CLEAN + "\n\nX = 1\n"}, branch="clean"
    )
    service.settle()
    assert world.comments_on(pull) == []
    assert world.conversation(pull) == []
    assert [c.conclusion for c in world.checks_on(pull.head_sha)] == ["success"]


def test_a_rebase_and_shifted_lines_say_nothing_twice(github: Running, service: Service) -> None:
    world = github.world
    repo = world.repos["acme/train"]
    pull = open_faulty(world, repo)
    service.settle()
    before = marks(world, pull)
    base = repo.git.tip(repo.ref("main"))
    world.push(
        pull, {"train.py": FAULTY.replace("import torch\n", "import torch\n\nX = 3\n")}, base
    )
    service.settle()
    assert marks(world, pull) == before
    assert len(before) == FINDINGS


def test_a_fork_is_reviewed_like_any_other(github: Running, service: Service) -> None:
    world = github.world
    repo = world.repos["acme/train"]
    fork = world.fork(repo, "stranger")
    pull = open_faulty(world, repo, head_repo=fork, author="stranger")
    service.settle()
    assert is_reviewed_once(world, pull)


def test_drafts_wait_until_they_are_ready(github: Running, service: Service) -> None:
    world = github.world
    pull = open_faulty(world, world.repos["acme/train"], draft=True)
    service.settle()
    assert (marks(world, pull), world.checks_on(pull.head_sha)) == ([], [])
    pull.draft = False
    world.emit(pull, "pull_request", "ready_for_review")
    service.settle()
    assert is_reviewed_once(world, pull)


def test_a_closed_pull_request_is_left_and_reviewed_when_reopened(
    github: Running, service: Service
) -> None:
    world = github.world
    deliver, world.deliver = world.deliver, None
    pull = open_faulty(world, world.repos["acme/train"])
    pull.state = "closed"
    world.deliver = deliver
    world.emit(pull, "pull_request", "opened")
    service.settle()
    assert marks(world, pull) == []
    pull.state = "open"
    world.emit(pull, "pull_request", "reopened")
    service.settle()
    assert is_reviewed_once(world, pull)


def test_every_delivery_of_one_push_but_the_newest_is_superseded(
    github: Running, service: Service
) -> None:
    world = github.world
    pull = open_faulty(world, world.repos["acme/train"])
    for turn in range(4):
        world.push(pull, {"note.txt": f"{turn}\n"})
    service.settle()
    assert len(marks(world, pull)) == FINDINGS
    assert [c.conclusion for c in world.checks_on(pull.head_sha)] == ["failure"]


def test_commands_are_seen_done_and_answered(github: Running, service: Service) -> None:
    world = github.world
    pull = open_faulty(world, world.repos["acme/train"])
    service.settle()
    said = [
        world.say(pull, "ada", "Thanks.\n/hostside ignore GPU201 once per run"),
        world.say(pull, "stranger", "/hostside pause"),
        world.say(pull, "stranger", "/hostside explain GPU201"),
        world.say(pull, "ada", "/hostside frobnicate\n> /hostside pause"),
    ]
    service.settle()
    reactions = [[r.content for r in comment.reactions] for comment in said]
    assert reactions == [["eyes", "+1"], ["eyes", "confused"], ["eyes", "+1"], ["eyes", "confused"]]
    answers = [c.body for c in world.conversation(pull) if c.user is world.bot]
    assert sum("needs write access" in text for text in answers) == 1
    assert sum("create-on-cpu-then-move" in text for text in answers) >= 1
    assert sum("There is no command 'frobnicate'" in text for text in answers) == 1
    newest = world.checks_on(pull.head_sha)[-1]
    assert newest.conclusion == "success"


def test_the_button_on_the_check_is_answered(github: Running, service: Service) -> None:
    world = github.world
    pull = open_faulty(world, world.repos["acme/train"])
    service.settle()
    (check,) = world.checks_on(pull.head_sha)
    world.press(check, "benchmark", "ada")
    service.settle()
    said = [c.body for c in world.conversation(pull) if "### GPU benchmark: queued" in c.body]
    assert len(said) == 1
    assert pull.head_sha[:12] in said[0]


def test_a_redelivery_repeats_nothing(github: Running, service: Service) -> None:
    from tests.standin.webhooks import redeliver

    world = github.world
    pull = open_faulty(world, world.repos["acme/train"])
    service.settle()
    before = len(github.calls("POST", "/repos/"))
    redeliver(world, world.deliveries[-1].id)
    assert world.deliveries[-1].status_code == 202
    service.settle()
    assert len(github.calls("POST", "/repos/")) == before
    assert is_reviewed_once(world, pull)


def test_a_broken_configuration_is_answered_on_the_pull_request(
    github: Running, service: Service
) -> None:
    world = github.world
    repo = world.repository(
        "acme/broken", {"train.py": CLEAN, ".github/hostside.toml": "max-coments = 3\n"}
    )
    world.install([repo])
    pull = open_faulty(world, repo)
    service.settle()
    (answer,) = world.conversation(pull)
    assert "did you mean" in answer.body
    assert [c.conclusion for c in world.checks_on(pull.head_sha)] == ["neutral"]


def test_it_is_healthy_and_its_figures_and_logs_are_readable(
    github: Running, service: Service
) -> None:
    assert service.get("/healthz").status_code == 200
    assert service.get("/readyz").text == "ready"
    assert 'hostside_jobs{kind="review",state="done"}' in service.get("/metrics").text
    ended = [line for line in service.lines if line["message"] == "job ended"]
    assert ended
    assert all(line["key"] for line in ended)
    # A benchmark's comment follows its machine and the clock, which no delivery brings.
    asked_for = [line for line in ended if not line["key"].startswith("bench:")]
    assert asked_for
    assert all(line["delivery"] for line in asked_for)
    text = "\n".join(service.raw)
    for secret in ("ghs_", "torch.zeros", "a secret of the tests", "PRIVATE KEY"):
        assert secret not in text
