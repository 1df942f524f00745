"""`kill -9` at random moments: every pull request ends with exactly the right review."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from service_project import FAULTY, is_reviewed_once, marks, open_faulty, repository
from service_running import Service, children, serving, wait_until
from service_servers import redis

from tests.standin.model import Pull
from tests.standin.running import running
from tests.standin.world import World

pytestmark = pytest.mark.slow

# HOSTSIDE_TEST_DELIVERIES=300 makes it the long one, with 20 kills.
DELIVERIES = int(os.environ.get("HOSTSIDE_TEST_DELIVERIES", "45"))
KILLS = int(os.environ.get("HOSTSIDE_TEST_KILLS", str(max(DELIVERIES // 15, 3))))
PUSHES = 3  # of each pull request
SEED = int(os.environ.get("HOSTSIDE_TEST_SEED", "7"))


class Killer:
    """Ends processes of the service at random, and starts the service again where it has to."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.chance = random.Random(SEED)
        self.killed: list[str] = []

    def strike(self) -> None:
        """Kill the web, the worker, or one of the processes that do its jobs."""
        assert self.service.process is not None
        web = self.service.process.pid
        workers = children(web)
        pool = [child for worker in workers for child in children(worker)]
        targets = {"web": [web], "worker": workers, "job": pool}
        kind = self.chance.choice([name for name, pids in targets.items() if pids])
        self.killed.append(kind)
        with suppress(ProcessLookupError):
            os.kill(self.chance.choice(targets[kind]), signal.SIGKILL)
        if kind == "web":
            self.service.process.wait()
            time.sleep(self.chance.random())
            self.service.start()


def test_no_kill_loses_or_doubles_a_review_on_the_embedded_default(tmp_path: Path) -> None:
    _survives(tmp_path)


def test_no_kill_loses_or_doubles_a_review_on_redis(tmp_path: Path) -> None:
    with redis(tmp_path) as url:
        _survives(tmp_path, BROKER_URL=url)


def _survives(directory: Path, **settings: str) -> None:
    with running(directory / "github", checked=False) as github:
        repo = repository(github.world)
        # Deliveries that the dead web missed are asked for again by the sweep.
        with serving(github.world, directory, SWEEP_SECONDS="1", **settings) as service:
            killer = Killer(service)
            pulls = _deliver(github.world, repo, killer)
            killer.strike()
            service.settle(patience=1800)
            wait_until(lambda: not _missed(github.world), "the sweep found all", 600)
            service.settle(patience=600)
            assert "parked" not in service.counts(), service.raw[-20:]
        wrong = {
            p.number: marks(github.world, p) for p in pulls if not is_reviewed_once(github.world, p)
        }
        assert wrong == {}, killer.killed
        assert len(killer.killed) == KILLS + 1
        print(f"{len(pulls)} pull requests, {DELIVERIES} deliveries, killed: {killer.killed}")


def _deliver(world: World, repo: object, killer: Killer) -> list[Pull]:
    """Open pull requests and push to them, with a kill now and then."""
    pulls: list[Pull] = []
    when = set(killer.chance.sample(range(DELIVERIES), KILLS))
    for number in range(DELIVERIES):
        if number % PUSHES == 0:
            pulls.append(open_faulty(world, repo))
        else:
            world.push(pulls[-1], {"train.py": FAULTY, "note.txt": f"{number}\n"})
        time.sleep(killer.chance.random() / 2)
        if number in when:
            killer.strike()
    return pulls


def _missed(world: World) -> list[str]:
    accepted = {d.guid for d in world.deliveries if 200 <= d.status_code < 300}
    return [d.guid for d in world.deliveries if d.guid not in accepted]
