"""Odd changes and odd moments through the whole App: every one ends in a stated way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_project import CLEAN, FAULTY, FINDINGS, is_reviewed_once, marks, open_faulty
from service_project import repository as reviewed
from service_running import Service, serving, wait_until

from tests.standin.model import Repo
from tests.standin.running import Running, running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("changes")


@pytest.fixture(scope="module")
def github(place: Path) -> Iterator[Running]:
    with running(place / "github", checked=False) as made:  # 400 files take the contract long
        reviewed(made.world)
        yield made


@pytest.fixture(scope="module")
def service(github: Running, place: Path) -> Iterator[Service]:
    with serving(github.world, place) as made:
        yield made


@pytest.fixture(autouse=True)
def no_fault_stays(github: Running) -> Iterator[None]:
    yield
    github.world.faults.clear()


@pytest.fixture
def repo(github: Running) -> Iterator[Repo]:
    yield github.world.repos["acme/train"]
    assert github.complaints == []


def test_a_change_of_400_files_is_reviewed_with_git(
    github: Running, service: Service, repo: Repo
) -> None:
    files = {f"part/m{n}.py": f"x = {n}\n" for n in range(400)} | {"train.py": FAULTY}
    pull = github.world.open_pull(repo, files, branch="large")
    service.settle(patience=180)
    assert len(marks(github.world, pull)) == FINDINGS
    assert [c.conclusion for c in github.world.checks_on(pull.head_sha)] == ["failure"]
    assert [c.status for c in github.calls("GET", f"/pulls/{pull.number}")].count(406) == 1


def test_binary_and_large_files_do_not_keep_the_others_from_being_reviewed(
    github: Running, service: Service, repo: Repo
) -> None:
    files: dict[str, str | bytes | None] = {
        "weights.bin": bytes(range(256)) * 40,
        "table.py": "x = 1\n" * 170_000,  # above 1 MB
        "torn.py": "import torch\nx = torch.ones(4).cuda(\n",
        "train.py": FAULTY,
    }
    pull = github.world.open_pull(repo, files, branch="binary")
    service.settle(patience=180)
    assert len(marks(github.world, pull)) == FINDINGS
    (summary,) = github.world.conversation(pull)
    assert "torn.py" in summary.body


def test_a_renamed_file_says_nothing_twice(github: Running, service: Service, repo: Repo) -> None:
    world = github.world
    pull = open_faulty(world, repo)
    service.settle()
    before = marks(world, pull)
    shifted = FAULTY.replace("import torch\n", "import torch\n\nX = 3\n", 1)
    world.push(pull, {"train.py": None, "loop.py": shifted})
    service.settle()
    assert marks(world, pull) == before
    assert not any(c.body.startswith("**Fixed**") for c in world.comments_on(pull))


def test_a_force_push_back_to_a_reviewed_head_takes_fixed_back(
    github: Running, service: Service, repo: Repo
) -> None:
    world = github.world
    pull = open_faulty(world, repo)
    service.settle()
    assert is_reviewed_once(world, pull)
    old = pull.head_sha
    world.push(pull, {"train.py": CLEAN + "\n\nX = 1\n"})
    service.settle()
    assert all(c.body.startswith("**Fixed**") for c in world.comments_on(pull))
    repo.git.move(repo.ref(pull.head_ref), old)
    world.moved(pull, old)
    service.settle()
    open_again = [c for c in world.comments_on(pull) if not c.body.startswith("**Fixed**")]
    assert len(open_again) == FINDINGS
    assert [c.conclusion for c in world.checks_on(pull.head_sha)] == ["failure"]


def test_a_token_revoked_in_mid_review_is_replaced(
    github: Running, service: Service, repo: Repo
) -> None:
    world = github.world
    world.faults.add("401", method="POST", path=r"/pulls/\d+/reviews", times=1)
    pull = open_faulty(world, repo)
    service.settle()
    assert is_reviewed_once(world, pull)


def test_an_installation_that_was_removed_is_left_in_peace_and_said_so(
    github: Running, service: Service
) -> None:
    world = github.world
    repo = world.repository("acme/gone", {"train.py": CLEAN})
    world.install([repo])
    world.faults.add("404", method="POST", path="/access_tokens", times=99)
    pull = open_faulty(world, repo)
    service.settle()
    assert (marks(world, pull), world.conversation(pull)) == ([], [])

    def ended() -> list[dict[str, Any]]:
        lines = (line for line in service.lines if line["message"] == "job ended")
        return [line for line in lines if "acme/gone" in line["key"]]

    wait_until(lambda: bool(ended()), "the end is in the log", 30)  # written after the table
    assert ended()[-1]["state"] == "dropped"
    assert "no longer installed" in ended()[-1]["outcome"]


def test_a_label_keeps_the_review_away_until_it_is_taken_off(
    github: Running, service: Service
) -> None:
    world = github.world
    config = 'skip-labels = ["wip"]\n'
    repo = world.repository("acme/labels", {"train.py": CLEAN, ".github/hostside.toml": config})
    world.install([repo])
    pull = open_faulty(world, repo, labels=["wip"])
    service.settle()
    assert marks(world, pull) == []
    pull.labels = []
    world.emit(pull, "pull_request", "unlabeled")
    service.settle()
    assert is_reviewed_once(world, pull)
