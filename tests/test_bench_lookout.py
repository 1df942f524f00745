"""Looks at workflow runs are queued when there is something to see, and only then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.bench_lookout import Lookout
from bot.bench_outside import SENDING, OutsideBenches
from bot.bench_work import BenchState, Order, Way, watch_key
from bot.handlers import EVENTS, Event, work
from bot.payloads import parse
from bot.store import Store
from bot.work import Kind, State

ORDER = Order(
    repo="acme/train", number=7, installation=3, base_sha="b" * 40, head_sha="a" * 40, author="ada",
    way=Way.WORKFLOW, workflow="gpu-bench.yml",
)  # fmt: skip
TOKEN = "0123456789abcdef" * 2


@pytest.fixture
def benches(tmp_path: Path) -> Iterator[OutsideBenches]:
    store = Store(f"sqlite:///{tmp_path / 'hostside.db'}")
    yield OutsideBenches(store)
    store.close()


def ordered(benches: OutsideBenches, order: Order = ORDER) -> BenchState:
    made = benches.order(order, f"key-{order.number}-{order.way}")
    assert isinstance(made, BenchState)
    return made


def looked(benches: OutsideBenches, lookout: Lookout) -> list[str]:
    """The looks that are queued; each ends as one does that saw nothing new."""
    keys: list[str] = []
    for bell in lookout.due():
        job = benches.store.claim(bell.job)
        assert job is not None
        assert job.kind is Kind.WATCH
        keys.append(job.key)
        benches.store.finish(job, State.DROPPED, "its run goes on")
    return keys


def test_a_new_order_is_looked_at_at_once_and_then_at_a_pace(benches: OutsideBenches) -> None:
    bench, lookout = ordered(benches), Lookout(benches.store, 1_000.0)
    assert looked(benches, lookout) == [watch_key(bench.token)]
    assert looked(benches, lookout) == []
    assert looked(benches, Lookout(benches.store, 0.0)) == [watch_key(bench.token)]


def test_a_cancelled_one_is_looked_at_at_once(benches: OutsideBenches) -> None:
    bench, lookout = ordered(benches), Lookout(benches.store, 1_000.0)
    looked(benches, lookout)
    benches.note(bench, SENDING)
    benches.cancel(bench.id, "enough")
    assert looked(benches, lookout) == [watch_key(bench.token)]
    benches.note(benches.get(bench.id), 0)
    assert looked(benches, Lookout(benches.store, 0.0)) == []


def test_what_another_machine_measures_is_none_of_its_business(benches: OutsideBenches) -> None:
    ordered(benches, replace(ORDER, way=Way.RUNNER, workflow=""))
    assert Lookout(benches.store, 0.0).due() == ()


def test_one_that_nobody_started_waits_for_longer_than_a_machine_may_take(
    benches: OutsideBenches, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = ordered(benches)
    monkeypatch.setattr("bot.benches.MOST_QUEUED_SECONDS", -1.0)
    benches.upkeep()
    assert benches.get(bench.id).active


def test_somebody_elses_look_comes_too_late(benches: OutsideBenches) -> None:
    bench = ordered(benches)
    assert benches.note(bench, SENDING)
    assert not benches.note(bench, SENDING)
    assert benches.take(bench.id, "x", 60.0) is not None
    assert not benches.note(benches.get(bench.id), SENDING)  # it has begun


def webhook(action: str, title: str, **more: object) -> list[tuple[str, str]]:
    import json

    body = {
        "action": action,
        "workflow_run": {"id": 1, "display_title": title, "name": None} | more,
        "repository": {"id": 1, "full_name": "acme/train"},
        "installation": {"id": 3},
    }
    payload = parse("workflow_run", json.dumps(body).encode())
    return [(j.kind, j.key) for j in work(Event("d", "workflow_run", payload)).jobs]


def test_githubs_word_that_a_run_ended_is_a_reason_to_look() -> None:
    assert "workflow_run" in EVENTS
    for action in ("in_progress", "completed"):
        assert webhook(action, f"hostside gpu-bench {TOKEN}") == [(Kind.WATCH, watch_key(TOKEN))]


@pytest.mark.parametrize(
    ("action", "title"),
    [
        ("requested", f"hostside gpu-bench {TOKEN}"),
        ("completed", "Build"),
        ("completed", f"hostside gpu-bench {TOKEN}\n"),
        ("completed", f"hostside gpu-bench {TOKEN.upper()}"),
        ("completed", f"xhostside gpu-bench {TOKEN}"),
    ],
    ids=["too early", "another workflow", "a line end", "capitals", "a longer title"],
)
def test_any_other_run_is_none(action: str, title: str) -> None:
    assert webhook(action, title) == []
