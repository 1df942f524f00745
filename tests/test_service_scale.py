"""The same App on several machines' servers, by address alone: PostgreSQL, Redis, RabbitMQ."""

from __future__ import annotations

import itertools
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from service_project import is_reviewed_once, open_faulty, repository
from service_running import serving
from service_servers import postgresql, rabbitmq, redis

from bot.github_errors import TryAgainError
from bot.github_turns import Governor
from bot.store import Store
from bot.turns import TableTurns
from tests.standin.running import running

pytestmark = pytest.mark.slow


@contextmanager
def bundled(directory: Path) -> Iterator[str]:
    """Nothing to be named: the folder that the service brings along."""
    yield ""


@contextmanager
def _rabbitmq(directory: Path) -> Iterator[str]:
    with rabbitmq() as url:
        yield url


BROKERS = [
    pytest.param(bundled, id="a folder"),
    pytest.param(redis, id="Redis"),
    pytest.param(_rabbitmq, id="RabbitMQ"),
]


@pytest.mark.parametrize("broker", BROKERS)
def test_a_worker_of_its_own_does_what_the_web_side_took_by_addresses_alone(
    tmp_path: Path, broker: Callable[[Path], AbstractContextManager[str]]
) -> None:
    with (
        postgresql() as database,
        broker(tmp_path) as bell,
        running(tmp_path / "github") as github,
        serving(
            github.world, tmp_path, "--no-worker", DATABASE_URL=database, BROKER_URL=bell
        ) as service,
    ):
        world = github.world
        pull = open_faulty(world, repository(world))
        command = [sys.executable, "-m", "bot", "worker"]
        root = Path(__file__).parents[1]
        worker = subprocess.Popen(
            command, env=service.environment, cwd=root, stderr=subprocess.PIPE, text=True
        )
        try:
            service.settle()
            assert is_reviewed_once(world, pull)
            world.apply(world.comments_on(pull), "ada")
            service.settle()
            assert [c.conclusion for c in world.checks_on(pull.head_sha)] == ["success"]
        finally:
            worker.terminate()
            _, said = worker.communicate(timeout=30)
        assert '"job ended"' in said
        assert "Traceback" not in said
        assert not list((tmp_path / "data").glob("*.db"))
        assert service.get("/readyz").text == "ready"
        assert github.complaints == []


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgresql() as url:
        yield "postgresql+psycopg:" + url.partition(":")[2]


def _write_lines(url: str, log: str) -> None:
    store = Store(url)
    master = Governor(TableTurns(store), gap=0.05)
    for _ in range(5):
        master.write("k", lambda: _note(log))
    store.close()


def _note(log: str) -> None:
    with open(log, "a") as file:
        file.write(f"{time.time()}\n")


def test_processes_that_share_a_database_share_their_turns(database: str, tmp_path: Path) -> None:
    Store(database).close()  # the tables are there before both want to make them
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write_lines, args=(database, str(log))) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    times = [float(line) for line in log.read_text().split()]
    assert len(times) == 10
    assert min(after - before for before, after in itertools.pairwise(times)) >= 0.045


def test_a_turn_that_another_process_keeps_is_waited_for_only_so_long(database: str) -> None:
    holder, waiter = Store(database), Store(database)
    with TableTurns(holder).take("held", 1.0) as turn:
        turn.next = 17.0
        with pytest.raises(TryAgainError, match="waiting for a turn"):
            Governor(TableTurns(waiter), 0.0, patience=0.2).write("held", lambda: None)
    with TableTurns(waiter).take("held", 1.0) as turn:
        assert turn.next == 17.0
    holder.close()
    waiter.close()


def _fail_in(turns: TableTurns) -> None:
    with turns.take("k2", 1.0) as turn:
        turn.strikes = 2
        raise ValueError("broken")


def test_a_turn_is_free_again_when_its_holder_failed(database: str) -> None:
    store = Store(database)
    turns = TableTurns(store)
    with pytest.raises(ValueError, match="broken"):
        _fail_in(turns)
    with TableTurns(store).take("k2", 1.0) as turn:
        assert turn.strikes == 2
    store.close()
