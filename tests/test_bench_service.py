"""Benchmarks end to end: the service, a runner in processes of its own, and kills in between."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from bench_project import needs_bubblewrap
from runner_running import (
    SLOW,
    TOKEN,
    measuring,
    open_benched,
    order_of,
    put_in,
    state,
    table,
    until,
)
from service_running import Service, serving, wait_until
from test_service_kill import redis

from bot.bench_work import BenchState, Stage
from gpu_runner.models import BenchReport
from tests.standin.running import running

LENDING = {"RUNNER_TOKEN": TOKEN, "LEASE_SECONDS": "9"}
pytestmark = [pytest.mark.slow, pytest.mark.sandbox, needs_bubblewrap]


def test_a_runner_that_only_asks_measures_on_the_cpu_in_a_sandbox(tmp_path: Path) -> None:
    with running(tmp_path / "github", checked=False) as github:
        pull = open_benched(github.world)
        with (
            serving(github.world, tmp_path, **LENDING) as service,
            measuring(service, tmp_path, "--backend", "cpu", "--name", "box-1") as runner,
        ):
            bench = put_in(service, order_of(github.world, pull))
            done = until(service, bench, Stage.DONE, Stage.FAILED)
            assert (done.stage, done.problem) == (Stage.DONE, ""), runner.lines
            assert (done.runner, done.attempts) == ("box-1", 1)
            with table(service) as benches:
                report = BenchReport.from_json(benches.report(bench.id))
    assert report.run.request.repository == "acme/glue"
    assert (report.run.request.base, report.run.request.head) == (pull.base_sha, pull.head_sha)
    assert report.run.environment.sandbox == "bubblewrap"
    assert [each.name for each in report.run.benchmarks] == [
        "gpu_bench/bench_total.py::bench_total"
    ]
    assert report.run.benchmarks[0].correct


def test_a_bell_on_redis_brings_a_modelled_result_with_its_traces(tmp_path: Path) -> None:
    with (
        redis(tmp_path) as url,
        running(tmp_path / "github", checked=False) as github,
        serving(github.world, tmp_path, **LENDING, BROKER_URL=url) as service,
        measuring(
            service, tmp_path, "--backend", "model", "--label", "a100", BROKER_URL=url
        ) as runner,
    ):
        pull = open_benched(github.world)
        asked = order_of(github.world, pull, gpu="a100", targets=("model_copies",))
        done = until(service, put_in(service, asked), Stage.DONE, Stage.FAILED)
        assert (done.stage, done.problem) == (Stage.DONE, ""), runner.lines
        with table(service) as benches:
            report = BenchReport.from_json(benches.report(done.id))
            files = {name: benches.file(done.id, name) for name in benches.files(done.id)}
    assert report.basis == "modelled"
    assert sorted(files) == [
        "gpu_bench-model_copies-model_copies.base.1.json.gz",
        "gpu_bench-model_copies-model_copies.head.1.json.gz",
    ]
    trace = files["gpu_bench-model_copies-model_copies.head.1.json.gz"]
    assert trace is not None
    assert json.loads(gzip.decompress(trace))["traceName"] == "modelled, not measured"


def test_the_bell_of_the_embedded_broker_is_enough(tmp_path: Path) -> None:
    data = {"BROKER_URL": "filesystem://", "DATA_DIR": str(tmp_path / "data")}
    options = ("--backend", "model", "--every", "3600", "--name", "box-1")
    with (
        running(tmp_path / "github", checked=False) as github,
        serving(github.world, tmp_path, **LENDING) as service,
        measuring(service, tmp_path, *options, **data) as runner,
    ):
        pull = open_benched(github.world)
        wait_until(lambda: runner.said("asked, and nothing waits"), "it asked once", 60)
        asked = order_of(github.world, pull, targets=("model_copies",))
        done = until(service, put_in(service, asked), Stage.DONE, Stage.FAILED)
        assert (done.stage, done.problem) == (Stage.DONE, ""), runner.lines


def test_a_runner_killed_in_mid_run_is_replaced_and_a_second_death_ends_it(tmp_path: Path) -> None:
    with (
        running(tmp_path / "github", checked=False) as github,
        serving(github.world, tmp_path, **LENDING) as service,
    ):
        bench = put_in(service, order_of(github.world, open_benched(github.world, SLOW)))
        for name in ("box-1", "box-2"):
            with measuring(service, tmp_path, "--backend", "cpu", "--name", name) as runner:
                wait_until(lambda name=name: _runs(service, bench, name), "it runs", 120)
                boxes = runner.boxes()
                assert boxes
                runner.kill()
                wait_until(lambda boxes=boxes: not _alive(boxes), "its processes are gone")
        lost = until(service, bench, Stage.FAILED)
        assert lost.attempts == 2
        assert "the machine that measured it went away 2 times; ask again" in lost.problem
        with table(service) as benches:
            assert benches.report(bench.id) == ""


def test_what_a_killed_runner_had_is_finished_by_the_next(tmp_path: Path) -> None:
    with (
        running(tmp_path / "github", checked=False) as github,
        serving(github.world, tmp_path, **LENDING) as service,
    ):
        bench = put_in(service, order_of(github.world, open_benched(github.world, SLOW)))
        with measuring(service, tmp_path, "--backend", "cpu", "--name", "box-1") as runner:
            wait_until(lambda: _runs(service, bench, "box-1"), "it runs", 120)
            runner.kill()
        with measuring(service, tmp_path, "--backend", "cpu", "--name", "box-2") as runner:
            done = until(service, bench, Stage.DONE, Stage.FAILED)
            assert (done.stage, done.problem) == (Stage.DONE, ""), runner.lines
            assert (done.runner, done.attempts) == ("box-2", 2)
            left = [each.name for each in (tmp_path / "runner").iterdir()]
            assert not [name for name in left if name.startswith("hostside-bench-")]


def test_a_service_killed_in_mid_run_gets_the_result_all_the_same(tmp_path: Path) -> None:
    with (
        running(tmp_path / "github", checked=False) as github,
        serving(github.world, tmp_path, **LENDING) as service,
        measuring(service, tmp_path, "--backend", "cpu", "--name", "box-1") as runner,
    ):
        bench = put_in(service, order_of(github.world, open_benched(github.world, SLOW)))
        wait_until(lambda: _runs(service, bench, "box-1"), "it runs", 120)
        port = service.url.rpartition(":")[2]
        service.kill()
        wait_until(lambda: runner.said("the service is away"), "the result waits", 180)
        service.start("--port", port)
        done = until(service, bench, Stage.DONE, Stage.FAILED)
        assert (done.stage, done.problem) == (Stage.DONE, ""), runner.lines
        assert (done.runner, done.attempts) == ("box-1", 1)


def test_a_cancelled_run_is_killed_at_once_and_the_next_begins(tmp_path: Path) -> None:
    with (
        running(tmp_path / "github", checked=False) as github,
        serving(github.world, tmp_path, **LENDING) as service,
        measuring(service, tmp_path, "--backend", "cpu", "--name", "box-1") as runner,
    ):
        slow, quick = (open_benched(github.world, SLOW), open_benched(github.world, name="acme/b"))
        bench = put_in(service, order_of(github.world, slow))
        wait_until(lambda: _runs(service, bench, "box-1"), "it runs", 120)
        boxes = runner.boxes()
        with table(service) as benches:
            assert benches.cancel(bench.id, "cancelled by ada")
        wait_until(lambda: not _alive(boxes), "its processes are gone", 60)
        following = put_in(service, order_of(github.world, quick), "k2")
        done = until(service, following, Stage.DONE, Stage.FAILED)
        assert (done.stage, done.problem) == (Stage.DONE, ""), runner.lines
        assert state(service, bench).problem == "cancelled by ada"
        assert runner.said("cancelled by ada")


def test_a_stopped_runner_leaves_its_benchmark_to_another(tmp_path: Path) -> None:
    with (
        running(tmp_path / "github", checked=False) as github,
        serving(github.world, tmp_path, **LENDING) as service,
    ):
        bench = put_in(service, order_of(github.world, open_benched(github.world, SLOW)))
        with measuring(service, tmp_path, "--backend", "cpu", "--name", "box-1") as runner:
            wait_until(lambda: _runs(service, bench, "box-1"), "it runs", 120)
            boxes = runner.boxes()
            runner.terminate()
            assert runner.wait() == 0
            assert not _alive(boxes)
            assert list((tmp_path / "runner").iterdir()) == []
        assert until(service, bench, Stage.QUEUED).problem == ""


def test_once_measures_what_waits_and_ends(tmp_path: Path) -> None:
    with (
        running(tmp_path / "github", checked=False) as github,
        serving(github.world, tmp_path, **LENDING) as service,
    ):
        asked = order_of(github.world, open_benched(github.world), targets=("model_copies",))
        bench = put_in(service, asked)
        with measuring(service, tmp_path, "--backend", "model", "--once") as runner:
            assert runner.wait(180) == 0, runner.lines
        assert state(service, bench).stage is Stage.DONE


def test_a_force_push_before_the_fetch_is_told_in_the_benchmark(tmp_path: Path) -> None:
    with (
        running(tmp_path / "github", checked=False) as github,
        serving(github.world, tmp_path, **LENDING) as service,
    ):
        asked = order_of(github.world, open_benched(github.world), head_sha="1" * 40)
        bench = put_in(service, asked)
        with measuring(service, tmp_path, "--backend", "model", "--once") as runner:
            assert runner.wait(180) == 0, runner.lines
        gone = state(service, bench)
        assert gone.stage is Stage.FAILED
        assert "as after a force push; ask again for the new head" in gone.problem


def test_an_app_that_was_removed_is_told_in_the_benchmark(tmp_path: Path) -> None:
    with (
        running(tmp_path / "github", checked=False) as github,
        serving(github.world, tmp_path, **LENDING) as service,
    ):
        bench = put_in(service, order_of(github.world, open_benched(github.world)))
        github.world.installations.clear()
        with measuring(service, tmp_path, "--backend", "model", "--once") as runner:
            assert runner.wait(180) == 0, runner.lines
        assert "install the App there again" in state(service, bench).problem


def test_the_source_is_fetched_with_a_token_that_can_only_read(tmp_path: Path) -> None:
    with (
        running(tmp_path / "github", checked=False) as github,
        serving(github.world, tmp_path, **LENDING) as service,
    ):
        asked = order_of(github.world, open_benched(github.world), targets=("model_copies",))
        put_in(service, asked)
        with measuring(service, tmp_path, "--backend", "model", "--once") as runner:
            assert runner.wait(180) == 0, runner.lines
        reading = [t.permissions for t in github.world.tokens.values() if t.user is None
                   or t.user is github.world.bot]  # fmt: skip
        assert {"contents": "read", "metadata": "read", "pull_requests": "read"} in reading


def test_on_redis_a_busy_machine_leaves_the_bell_to_an_idle_one_and_stops_when_told(
    tmp_path: Path,
) -> None:
    with (
        redis(tmp_path) as url,
        running(tmp_path / "github", checked=False) as github,
        serving(github.world, tmp_path, **LENDING, BROKER_URL=url) as service,
    ):
        slow, quick = (open_benched(github.world, SLOW), open_benched(github.world, name="acme/b"))
        options = ("--backend", "cpu", "--every", "3600")
        with measuring(service, tmp_path, *options, "--name", "box-1", BROKER_URL=url) as busy:
            first = put_in(service, order_of(github.world, slow, rounds=40))
            wait_until(lambda: _runs(service, first, "box-1"), "it runs", 120)
            options = ("--backend", "model", "--every", "3600")
            with measuring(service, tmp_path, *options, "--name", "box-2", BROKER_URL=url) as idle:
                wait_until(lambda: idle.said("asked, and nothing waits"), "it asked once", 60)
                asked = order_of(github.world, quick, targets=("model_copies",))
                second = until(service, put_in(service, asked, "k2"), Stage.DONE, Stage.FAILED)
                assert (second.stage, second.runner) == (Stage.DONE, "box-2"), idle.lines
                assert _runs(service, first, "box-1")
                idle.terminate()
                assert idle.wait() == 0
            boxes = busy.boxes()
            busy.terminate()
            assert busy.wait() == 0
            assert boxes
            assert not _alive(boxes)
        assert until(service, first, Stage.QUEUED).attempts == 1


def _runs(service: Service, bench: BenchState, name: str) -> bool:
    now = state(service, bench)
    return now.stage is Stage.RUNNING and now.runner == name and now.progress.total > 0


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if _is_running(pid)]


def _is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
