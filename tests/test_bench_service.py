"""Benchmarks end to end: the service, a runner in processes of its own, and kills in between."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from bench_project import needs_bubblewrap
from runner_running import TOKEN, measuring, open_benched, order_of, put_in, table, until
from service_running import serving
from test_service_kill import redis

from bot.bench_work import Stage
from gpu_runner.models import BenchReport
from tests.standin.running import running

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, needs_bubblewrap]


def test_a_runner_that_only_asks_measures_on_the_cpu_in_a_sandbox(tmp_path: Path) -> None:
    with running(tmp_path / "github", checked=False) as github:
        pull = open_benched(github.world)
        with (
            serving(github.world, tmp_path, RUNNER_TOKEN=TOKEN) as service,
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
        serving(github.world, tmp_path, RUNNER_TOKEN=TOKEN, BROKER_URL=url) as service,
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
