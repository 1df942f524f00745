"""What the service does beside the talk with runners: bells, lost machines, figures, metrics."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from test_tasks import settings

from bot import tasks
from bot.bench_care import BenchCare
from bot.bench_files import forget, keep
from bot.bench_work import MOST_QUEUED_SECONDS, BenchState, Order, RunnerState, Stage
from bot.benches import MOST_RUN_SECONDS, Benches
from bot.metrics import Metrics
from bot.store import Store
from bot.tables import BenchRow
from bot.work import Bell

ORDER = Order("ada/glue", 7, 3, "b" * 40, "a" * 40, "ada", gpu="a100")


@pytest.fixture
def benches(tmp_path: Path) -> Generator[Benches]:
    store = Store(f"sqlite:///{tmp_path / 'hostside.db'}")
    yield Benches(store)
    store.close()


def ordered(benches: Benches) -> BenchState:
    made = benches.order(ORDER, "k")
    assert isinstance(made, BenchState)
    return made


def online(benches: Benches, seconds_ago: float = 0) -> None:
    benches.seen(RunnerState("box-1", ("a100",), "an A100", time.time() - seconds_ago))


def test_a_bell_is_rung_once_for_each_time_a_benchmark_waits(benches: Benches) -> None:
    rung: list[Bell] = []
    care, made = BenchCare(benches, rung.append), ordered(benches)
    online(benches)
    for _ in range(3):
        care.look()
    assert rung == [Bell(made.id, "gpu.a100")]
    leased = benches.claim("box-1", ("a100",))
    assert leased is not None
    care.look()
    benches.beat(made.id, leased.lease, seconds=-1)  # its machine went away
    care.look()
    care.look()
    assert rung == [Bell(made.id, "gpu.a100")] * 2


@pytest.mark.parametrize("seconds_ago", [None, 120], ids=["never", "long ago"])
def test_no_bell_is_rung_where_no_machine_listens(
    benches: Benches, seconds_ago: float | None
) -> None:
    rung: list[Bell] = []
    care = BenchCare(benches, rung.append)
    ordered(benches)
    if seconds_ago is not None:
        online(benches, seconds_ago)
    care.look()
    assert rung == []
    online(benches)
    care.look()
    assert len(rung) == 1


def test_a_broker_that_is_away_is_no_trouble(benches: Benches) -> None:
    asked: list[Bell] = []

    def refuse(bell: Bell) -> None:
        asked.append(bell)
        raise ConnectionError("refused")

    care, made = BenchCare(benches, refuse), ordered(benches)
    online(benches)
    for _ in range(3):
        care.look()
    assert len(asked) == 1  # every machine asks without a bell
    assert benches.get(made.id).stage is Stage.QUEUED


def test_an_order_that_nobody_takes_for_an_hour_is_given_up_with_the_way_out(
    benches: Benches,
) -> None:
    care, made = BenchCare(benches, lambda _: None), ordered(benches)
    with benches.store.engine.begin() as connection:
        old = time.time() - MOST_QUEUED_SECONDS - 1
        connection.execute(update(BenchRow).values(created=old))
    care.look()
    given_up = benches.get(made.id)
    assert given_up.stage is Stage.FAILED
    assert given_up.problem == (
        "no machine took it within an hour; start `hostside gpu-runner --label a100` and ask again"
    )


def test_a_machine_that_beats_for_ever_does_not_hold_a_benchmark_for_ever(
    benches: Benches,
) -> None:
    care, made = BenchCare(benches, lambda _: None), ordered(benches)
    leased = benches.claim("box-1", ("a100",))
    assert leased is not None
    with benches.store.engine.begin() as connection:
        connection.execute(update(BenchRow).values(started=time.time() - MOST_RUN_SECONDS - 1))
    assert benches.beat(made.id, leased.lease)
    care.look()
    assert not benches.beat(made.id, leased.lease)
    assert benches.get(made.id).problem.startswith("its machine had it for three hours")


def test_after_a_restart_no_machine_is_lost_for_having_found_nobody(benches: Benches) -> None:
    care, made = BenchCare(benches, lambda _: None), ordered(benches)
    leased = benches.claim("box-1", ("a100",), seconds=-5)
    assert leased is not None
    care.start()
    care.look()
    assert benches.get(made.id).stage is Stage.PREPARING
    assert benches.deliver(made.id, leased.lease, "{}")


def test_a_machine_at_work_counts_as_there(benches: Benches) -> None:
    made = ordered(benches)
    leased = benches.claim("box-1", ("a100",))
    assert leased is not None
    online(benches, seconds_ago=600)
    benches.beat(made.id, leased.lease)
    assert [each.name for each in benches.runners(time.time() - 60)] == ["box-1"]


def test_traces_of_old_benchmarks_go_and_their_reports_stay(benches: Benches) -> None:
    made = ordered(benches)
    leased = benches.claim("box-1", ("a100",))
    assert leased is not None
    packed = gzip.compress(b"{}")
    assert keep(benches.store, made.id, leased.lease, "a.json.gz", packed)
    forget(benches.store, time.time() + 60)  # one that runs is not over
    assert benches.files(made.id) == ("a.json.gz",)
    assert benches.deliver(made.id, leased.lease, "{}")
    forget(benches.store, time.time() - 60)
    assert benches.files(made.id) == ("a.json.gz",)
    forget(benches.store, time.time() + 60)
    assert (benches.files(made.id), benches.report(made.id)) == ((), "{}")


def test_the_metrics_count_benchmarks_and_machines(benches: Benches) -> None:
    ordered(benches)
    online(benches)
    text = Metrics(benches.store).text().decode()
    assert 'hostside_benches{stage="queued"} 1.0' in text
    assert "hostside_runners_online 1.0" in text


def test_a_bell_for_a_gpu_is_no_job_of_the_other_workers(tmp_path: Path) -> None:
    ring = tasks.bell(settings(tmp_path))
    for bell in (Bell(1, "review"), Bell(1, "gpu"), Bell(1, "gpu.a100")):
        ring(bell)
    found = {(each["routing"], each["task"]) for each in messages(tmp_path)}
    assert found == {
        ("review", tasks.TASK), ("gpu", tasks.BENCH_TASK), ("gpu.a100", tasks.BENCH_TASK)
    }  # fmt: skip


def messages(directory: Path) -> list[dict[str, Any]]:
    """Whom each message in the folder is for, and what it asks; never more than a number."""
    found: list[dict[str, Any]] = []
    for path in (directory / "bell" / "messages").glob("*.msg"):
        said = json.loads(path.read_text())
        assert json.loads(base64.b64decode(said["body"]))[:2] == [[1], {}]
        routing = said["properties"]["delivery_info"]["routing_key"]
        found.append({"routing": routing, "task": said["headers"]["task"]})
    return found
