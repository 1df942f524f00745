"""The table of benchmarks: one of a pull request at a time, leased, never lost, never doubled."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from bot import upkeep
from bot.bench_work import (
    MOST_QUEUED_SECONDS,
    BenchState,
    Order,
    Progress,
    Quota,
    Refused,
    RunnerState,
    Stage,
    Way,
)
from bot.benches import SAY_SECONDS, Benches
from bot.store import Store
from bot.tables import BenchRow
from bot.work import Bell, Kind, State

ORDER = Order(
    repo="ada/glue", number=7, installation=3, base_sha="b" * 40, head_sha="a" * 40, author="ada",
    comment=11, targets=("gpu_bench/copies.py::ring",), suggestion="all 2 suggestions",
    patch="+x\n", fingerprints=("f1", "f2"), gpu="a100",
)  # fmt: skip
PLAIN = replace(ORDER, gpu="", number=8)


@pytest.fixture
def benches(tmp_path: Path) -> Generator[Benches]:
    store = Store(f"sqlite:///{tmp_path / 'hostside.db'}")
    yield Benches(store)
    store.close()


def ordered(benches: Benches, order: Order = ORDER, key: str = "k") -> BenchState:
    made = benches.order(order, key)
    assert isinstance(made, BenchState)
    return made


def says(benches: Benches) -> list[str]:
    """Bring-up-to-date jobs that somebody should look at now; each is ended here."""
    store, keys = benches.store, list[str]()
    for bell in upkeep.due(store):
        job = store.claim(bell.job)
        assert job is not None
        assert job.kind is Kind.BENCH
        keys.append(job.key)
        store.finish(job, State.DONE, "said")
    return keys


def test_an_order_survives_its_way_through_the_table(benches: Benches) -> None:
    made = ordered(benches)
    assert benches.get(made.id).order == ORDER
    assert (made.stage, made.active, made.has_report) == (Stage.QUEUED, True, False)
    assert benches.by_token(made.token) == made
    assert says(benches) == [f"bench:{made.id}:1"]


def test_the_same_key_is_the_same_benchmark(benches: Benches) -> None:
    assert ordered(benches) == ordered(benches)
    assert len(benches.history()) == 1


def test_a_second_order_of_the_same_pull_request_is_refused_while_the_first_is_active(
    benches: Benches,
) -> None:
    first = ordered(benches)
    second = benches.order(ORDER, "k2")
    assert isinstance(second, Refused)
    assert second.standing == first
    assert "/gpu-bench cancel" in second.why
    assert benches.cancel(first.id, "by ada")
    assert not benches.cancel(first.id, "again")
    assert ordered(benches, key="k2").id != first.id


def test_two_orders_at_once_leave_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'hostside.db'}"
    stores = [Store(url) for _ in range(4)]
    made: list[BenchState | Refused] = []

    def ask(number: int, store: Store) -> None:
        made.append(Benches(store).order(ORDER, f"k{number}"))

    threads = [threading.Thread(target=ask, args=each) for each in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(each, BenchState) for each in made) == 1
    assert len(made) == 4
    for store in stores:
        store.close()


@pytest.mark.parametrize(
    ("quota", "author", "named"),
    [
        pytest.param(Quota(repository=1), "eve", "this repository", id="of the repository"),
        pytest.param(Quota(person=1), "ada", "you had your 1", id="of the person"),
    ],
)
def test_quotas_are_kept_and_named(benches: Benches, quota: Quota, author: str, named: str) -> None:
    first = ordered(benches)
    benches.fail(first.id, "no reason")
    refused = benches.order(replace(ORDER, author=author), "k2", quota)
    assert isinstance(refused, Refused)
    assert named in refused.why
    other = benches.order(replace(ORDER, author="eve", repo="ada/other"), "k3", quota)
    assert isinstance(other, BenchState)


def test_a_cancelled_benchmark_costs_no_quota(benches: Benches) -> None:
    benches.cancel(ordered(benches).id, "by ada")
    assert isinstance(benches.order(ORDER, "k2", Quota(1, 1)), BenchState)


def test_a_machine_gets_the_oldest_order_that_it_can_do_and_nobody_else_does(
    benches: Benches,
) -> None:
    labelled, plain = ordered(benches), ordered(benches, PLAIN, "k2")
    other = benches.claim("box")
    assert other is not None
    assert other.bench.id == plain.id
    assert benches.claim("box") is None
    mine = benches.claim("fast", {"a100", "h100"})
    assert mine is not None
    assert mine.bench.id == labelled.id
    assert mine.bench.stage is Stage.PREPARING
    assert mine.bench.runner == "fast"
    assert benches.claim("fast", {"a100"}) is None


def test_an_order_for_a_workflow_goes_to_no_runner(benches: Benches) -> None:
    made = ordered(benches, replace(PLAIN, way=Way.WORKFLOW))
    assert benches.claim("box") is None
    assert [each.id for each in benches.held_outside()] == [made.id]
    taken = benches.take(made.id, "https://github.example/runs/5", 60, external=5)
    assert taken is not None
    assert benches.get(made.id).external == 5


def test_progress_is_kept_always_and_said_now_and_then(benches: Benches) -> None:
    made = ordered(benches, PLAIN)
    leased = benches.claim("box")
    assert leased is not None
    assert len(says(benches)) == 2  # queued, preparing
    for done in range(5):
        assert benches.beat(made.id, leased.lease, Progress(done, 40, "round 1", 90.0))
    assert len(says(benches)) == 1  # that it runs
    now = benches.get(made.id)
    assert now.stage is Stage.RUNNING
    assert now.progress == Progress(4, 40, "round 1", 90.0)
    with benches.store.engine.begin() as connection:
        connection.execute(update(BenchRow).values(said=time.time() - SAY_SECONDS - 1))
    assert benches.beat(made.id, leased.lease, Progress(5, 40, "round 2", 80.0))
    assert len(says(benches)) == 1


def test_a_report_is_taken_once_and_only_from_whoever_holds_the_lease(benches: Benches) -> None:
    made = ordered(benches, PLAIN)
    leased = benches.claim("box")
    assert leased is not None
    assert not benches.deliver(made.id, "f" * 32, "{}")
    assert not benches.deliver(made.id, "", "{}")
    assert benches.deliver(made.id, leased.lease, '{"a": 1}', {"head.json.gz": b"\x1f\x8b"})
    assert not benches.deliver(made.id, leased.lease, '{"a": 2}')
    assert benches.report(made.id) == '{"a": 1}'
    assert benches.files(made.id) == ("head.json.gz",)
    assert benches.file(made.id, "head.json.gz") == b"\x1f\x8b"
    assert benches.file(made.id, "../secret") is None
    assert benches.get(made.id).has_report
    assert not benches.beat(made.id, leased.lease)


def test_a_machine_hears_of_a_cancellation_at_its_beat(benches: Benches) -> None:
    made = ordered(benches, PLAIN)
    leased = benches.claim("box")
    assert leased is not None
    assert benches.beat(made.id, leased.lease)
    assert benches.cancel_of(PLAIN.repo, PLAIN.number, "a newer push", keep_head="c" * 40)
    assert not benches.beat(made.id, leased.lease, Progress(1, 2))
    assert not benches.give_up(made.id, leased.lease, "it failed")
    assert benches.get(made.id).problem == "a newer push"


def test_a_push_of_the_measured_head_cancels_nothing(benches: Benches) -> None:
    ordered(benches)
    assert not benches.cancel_of(ORDER.repo, ORDER.number, "a newer push", ORDER.head_sha)
    assert not benches.cancel_of(ORDER.repo, 99, "a newer push")


def test_a_lost_machine_gives_its_benchmark_back_once_then_it_is_given_up(benches: Benches) -> None:
    made = ordered(benches, PLAIN)
    assert benches.claim("box", seconds=-1) is not None
    assert benches.upkeep() == (Bell(made.id, "gpu"),)
    assert benches.get(made.id).stage is Stage.QUEUED
    assert benches.claim("box", seconds=-1) is not None
    assert benches.upkeep() == ()
    ended = benches.get(made.id)
    assert ended.stage is Stage.FAILED
    assert "went away 2 times" in ended.problem


def test_an_order_that_nobody_takes_is_given_up_with_the_way_out(benches: Benches) -> None:
    made = ordered(benches)
    assert benches.upkeep() == (Bell(made.id, "gpu.a100"),)
    with benches.store.engine.begin() as connection:
        connection.execute(update(BenchRow).values(created=time.time() - MOST_QUEUED_SECONDS - 1))
    assert benches.upkeep() == ()
    assert "hostside gpu-runner --label a100" in benches.get(made.id).problem


def test_the_hour_begins_anew_when_a_machine_went_away_late(benches: Benches) -> None:
    made = ordered(benches, PLAIN)
    assert benches.claim("box", seconds=-1) is not None
    with benches.store.engine.begin() as connection:
        long_ago = time.time() - MOST_QUEUED_SECONDS - 1
        connection.execute(update(BenchRow).values(created=long_ago, started=long_ago))
    assert benches.upkeep() == (Bell(made.id, "gpu"),)
    assert benches.upkeep() == (Bell(made.id, "gpu"),)  # a machine had taken it


def test_machines_are_remembered_by_name(benches: Benches) -> None:
    benches.seen(RunnerState("box", ("b", "a"), "CPU", 10.0))
    benches.seen(RunnerState("box", ("a",), "H100", 20.0))
    assert benches.runners() == (RunnerState("box", ("a",), "H100", 20.0),)
    assert benches.runners(since=20.0) == ()


def test_the_queue_position_counts_only_what_wants_the_same_kind_of_machine(
    benches: Benches,
) -> None:
    ordered(benches)
    plain = ordered(benches, PLAIN, "k2")
    third = ordered(benches, replace(ORDER, number=9, gpu="h100"), "k3")
    assert benches.ahead(plain) == 1
    assert benches.ahead(third) == 1  # the plain one, which may take the same machine


def test_the_usual_time_is_that_of_finished_benchmarks(benches: Benches) -> None:
    assert benches.usual_seconds(PLAIN.repo) == 0.0
    made = ordered(benches, PLAIN)
    leased = benches.claim("box")
    assert leased is not None
    assert benches.deliver(made.id, leased.lease, "{}")
    with benches.store.engine.begin() as connection:
        connection.execute(update(BenchRow).values(started=100.0, finished=160.0))
    assert benches.usual_seconds(PLAIN.repo) == 60.0
    assert [each.id for each in benches.history(PLAIN.repo, PLAIN.number)] == [made.id]
