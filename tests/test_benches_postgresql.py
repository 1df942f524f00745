"""The table of benchmarks on a real PostgreSQL: ordered, lost, delivered with files, remembered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import pytest
from service_servers import postgresql
from sqlalchemy import inspect
from test_bench_report import made
from test_benches import PLAIN

from bot.bench_files import forget, keep
from bot.bench_outside import OutsideBenches
from bot.bench_work import BenchState, Progress, Quota, Refused, RunnerState, Stage, Way
from bot.benches import Benches
from bot.store import Store
from bot.tables import Base
from bot.work import Bell

pytestmark = pytest.mark.slow


@pytest.fixture
def benches() -> Iterator[Benches]:
    with postgresql() as url:
        store = Store(url)
        yield Benches(store)
        store.close()


def ordered(benches: Benches, number: int, way: Way = Way.RUNNER) -> BenchState:
    state = benches.order(replace(PLAIN, number=number, way=way), f"key {number}")
    assert isinstance(state, BenchState)
    return state


def test_processes_that_start_together_on_an_empty_database_all_start() -> None:
    context = get_context("spawn")
    with postgresql() as url, ProcessPoolExecutor(6, mp_context=context) as pool:
        assert list(pool.map(tables_of, [url] * 6)) == [True] * 6


def tables_of(url: str) -> bool:
    """Whether a service that starts here finds every table."""
    store = Store(url)
    complete = set(Base.metadata.tables) <= set(inspect(store.engine).get_table_names())
    store.close()
    return complete


def test_a_benchmark_is_lost_measured_and_remembered(benches: Benches) -> None:
    first = ordered(benches, 1)
    assert isinstance(benches.order(replace(PLAIN, number=1), "another key"), Refused)
    assert isinstance(benches.order(replace(PLAIN, number=2), "x", Quota(1, 0)), Refused)
    assert benches.claim("box-1", seconds=-1) is not None
    assert benches.upkeep() == (Bell(first.id, "gpu"),)
    leased = benches.claim("box-2")
    assert leased is not None
    assert benches.beat(first.id, leased.lease, Progress(1, 2, "timing head", 3.0))
    assert keep(benches.store, first.id, leased.lease, "head.1.json.gz", b"\x1f\x8btrace")
    assert benches.deliver(first.id, leased.lease, made().to_json())
    assert benches.delivered(first.id, leased.lease)
    assert benches.counts() == {Stage.DONE: 1}
    assert benches.usual_seconds(PLAIN.repo) > 0
    assert benches.file(first.id, "head.1.json.gz") == b"\x1f\x8btrace"
    forget(benches.store, time.time() + 1)
    assert benches.files(first.id) == ()
    assert benches.report(first.id) == made().to_json()


def test_positions_machines_and_runs_elsewhere_are_known(benches: Benches) -> None:
    first, second = ordered(benches, 1), ordered(benches, 2)
    elsewhere = ordered(benches, 3, Way.WORKFLOW)
    assert (benches.ahead(second), benches.behind(first)) == (1, (second.id,))
    assert [each.id for each in OutsideBenches(benches.store).unsettled()] == [elsewhere.id]
    for labels in (("a100",), ("a100", "fast")):
        benches.seen(RunnerState("box", labels, "A GPU", time.time()))
    assert [each.labels for each in benches.runners()] == [("a100", "fast")]
    assert benches.cancel_of(PLAIN.repo, 1, "it was cancelled by ada")
    assert [run.stage for run in benches.history(PLAIN.repo, 1)] == [Stage.CANCELLED]
