"""GitHub fails at each request of a job: nothing lost, nothing twice, the state explained."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from service_project import FINDINGS, marks, open_faulty, repository

from bot import upkeep
from bot.dispatch import Office, work_on
from bot.github import Access
from bot.handlers import review_key
from bot.office import Clients
from bot.pool import run_here
from bot.store import Store, Terms
from bot.work import Bell, Delivery, JobSpec, Kind, State, Work
from tests.standin.model import Pull
from tests.standin.running import Running, running
from tests.standin.world import APP_ID

pytestmark = pytest.mark.slow

# (what goes wrong, whether the request was carried out all the same)
OUTAGES = [
    ("500", False),
    ("502", True),
    ("timeout", True),
    ("drop", True),
    ("garbage", True),
    ("secondary", False),
]
REFUSALS = [("401", False), ("403", False), ("404", False), ("422", False)]


@dataclass
class Scene:
    """The stand-in, a job table, and a worker without processes."""

    github: Running
    store: Store

    @property
    def clients(self) -> Clients:
        world = self.github.world
        return Clients(
            Access(
                api_url=world.url,
                app_id=str(APP_ID),
                private_key=world.private_key,
                timeout=1.0,
                write_gap=0,
                patience=0.3,
            )
        )

    def review(self, pull: Pull, key: str = "") -> tuple[str, str]:
        """Do the review, again and again until the job has ended; its state and outcome."""
        repo, number = pull.repo.full_name, pull.number
        installation = self.github.world.installation_of(pull.repo)
        assert installation is not None
        ends = {"head_sha": pull.head_sha, "base_sha": pull.base_sha}
        key = key or review_key(repo, number, pull.head_sha)
        spec = JobSpec(key, Kind.REVIEW, repo, number, installation.id, ends)
        (bells,) = self.store.accept([Delivery(f"d:{key}", "x", "y", Work((spec,)))])
        (job,) = (bell.job for bell in bells)
        self.drive(job)
        return self.state(job)

    def drive(self, job: int) -> None:
        office = Office(self.store, self.clients, lambda _: None, run_here)
        until = time.monotonic() + 60
        waiting: tuple[Bell, ...] = upkeep.waiting(self.store)
        while waiting:
            assert time.monotonic() < until, self.state(job)
            for bell in waiting:
                work_on(office, bell.job)
            waiting = upkeep.waiting(self.store)
            time.sleep(0.01)

    def state(self, job: int) -> tuple[str, str]:
        from sqlalchemy import select

        from bot.tables import JobRow

        wanted = select(JobRow.state, JobRow.outcome).where(JobRow.id == job)
        with self.store.read() as connection:
            row = connection.execute(wanted).one()
        return row[0], row[1]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    place: Path = tmp_path_factory.mktemp("faults")
    with running(place / "github") as github:
        repository(github.world)
        store = Store(f"sqlite:///{place / 'jobs.db'}", Terms(60, 6, 0.005))
        yield Scene(github, store)
        store.close()


@pytest.fixture(scope="module")
def requests(scene: Scene) -> int:
    """How many requests one review takes."""
    before = len(scene.github.log)
    pull = open_faulty(scene.github.world, scene.github.world.repos["acme/train"])
    assert scene.review(pull)[0] == State.DONE
    _is_right(scene, pull)
    return len(scene.github.log) - before


def _is_right(scene: Scene, pull: Pull) -> None:
    world = scene.github.world
    found = marks(world, pull)
    assert (len(found), len(set(found))) == (FINDINGS, FINDINGS)
    assert len(world.conversation(pull)) == 1
    assert world.checks_on(pull.head_sha)[-1].conclusion == "failure"


def _is_explained(scene: Scene, pull: Pull, state: str) -> None:
    """The check says what is missing, or there was no way to say it."""
    checks = scene.github.world.checks_on(pull.head_sha)
    assert state in (State.PARKED, State.DROPPED) or checks
    assert {check.conclusion for check in checks} <= {"neutral"}


@pytest.mark.parametrize(("kind", "after"), OUTAGES, ids=[kind for kind, _ in OUTAGES])
def test_an_outage_at_any_request_delays_a_review_and_no_more(
    scene: Scene, requests: int, kind: str, after: bool
) -> None:
    world = scene.github.world
    for call in range(1, requests + 1):
        pull = open_faulty(world, world.repos["acme/train"])
        world.faults.clear()
        world.faults.add(kind, call=call, after=after)
        state, outcome = scene.review(pull)
        assert state == State.DONE, (call, outcome)
        _is_right(scene, pull)
        assert len(world.checks_on(pull.head_sha)) == 1
    world.faults.clear()


@pytest.mark.parametrize(("kind", "after"), REFUSALS, ids=[kind for kind, _ in REFUSALS])
def test_a_refusal_at_any_request_is_explained_and_the_review_can_be_had_later(
    scene: Scene, requests: int, kind: str, after: bool
) -> None:
    world = scene.github.world
    for call in range(1, requests + 1):
        pull = open_faulty(world, world.repos["acme/train"])
        world.faults.clear()
        world.faults.add(kind, call=call, after=after)
        state, outcome = scene.review(pull)
        assert outcome, (call, state)
        found = marks(world, pull)
        assert len(found) == len(set(found)), (call, state)
        world.faults.clear()
        if state != State.DONE or not found:
            _is_explained(scene, pull, state)
            assert scene.review(pull, f"again:{pull.number}")[0] == State.DONE
        _is_right(scene, pull)


def test_an_installation_that_was_removed_is_left_in_peace(scene: Scene) -> None:
    world = scene.github.world
    repo = world.repository("acme/gone", {"train.py": "x = 1\n"})
    installation = world.install([repo])
    pull = open_faulty(world, repo)
    number = installation.id
    spec = JobSpec(
        "gone", Kind.REVIEW, repo.full_name, pull.number, number, {"head_sha": pull.head_sha}
    )
    (bells,) = scene.store.accept([Delivery("gone", "x", "y", Work((spec,)))])
    del world.installations[number]
    scene.drive(bells[0].job)
    state, outcome = scene.state(bells[0].job)
    assert state in (State.DROPPED, State.PARKED)
    assert outcome


def test_a_token_that_expires_meanwhile_is_renewed(scene: Scene) -> None:
    world = scene.github.world
    pull = open_faulty(world, world.repos["acme/train"])
    clients = scene.clients
    office = Office(scene.store, clients, lambda _: None, run_here)
    installation = world.installation_of(pull.repo)
    assert installation is not None
    for turn in range(2):
        ends = {"head_sha": pull.head_sha, "base_sha": pull.base_sha}
        spec = JobSpec(
            f"token:{turn}", Kind.REVIEW, pull.repo.full_name, pull.number, installation.id, ends
        )
        (bells,) = scene.store.accept([Delivery(f"token:{turn}", "x", "y", Work((spec,)))])
        world.expire_tokens()
        until = time.monotonic() + 30
        while scene.state(bells[0].job)[0] == State.QUEUED and time.monotonic() < until:
            work_on(office, bells[0].job)
        assert scene.state(bells[0].job)[0] == State.DONE
    _is_right(scene, pull)
