"""Benchmarks of small repositories, run in the sandbox on the CPU from the gate to the verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench_project import BENCH, GLUE, LIMITS, QUICK, Project, head, needs_bubblewrap, started

from gpu_runner.bench import Progress, run_bench
from gpu_runner.models import BenchReport, BenchRequest
from gpu_runner.records import Backend, Variant, Verdict

pytestmark = [pytest.mark.sandbox, needs_bubblewrap]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return started(tmp_path / "project")


def test_a_whole_run_tells_what_it_measured_and_on_what(project: Project) -> None:
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=GLUE.replace("value * value", "value ** 2"))
    heard: list[Progress] = []
    request = BenchRequest(
        str(project.folder), base, changed, backend=Backend.CPU, protocol=QUICK, limits=LIMITS
    )
    report = run_bench(request, listen=heard.append)
    run = report.run
    assert run.problem is None
    assert [each.name for each in run.benchmarks] == ["gpu_bench/bench_total.py::bench_total"]
    one = run.benchmarks[0]
    assert one.problem is None
    assert [(each.variant, each.passed) for each in one.correctness] == [
        (Variant.BASE, True),
        (Variant.HEAD, True),
    ]
    assert len(one.rounds) in (2, 4)  # repeated if chance made them differ
    assert run.device is not None
    assert run.device.kind == "cpu"
    assert run.environment.sandbox == "bubblewrap"
    assert not run.overlap_measured
    assert "overlap was not measured" in run.notes[0]
    assert BenchReport.from_json(report.to_json()) == report
    assert [each.done for each in heard[:6]] == list(range(6))
    assert heard[0].total == 6
    assert project.git("worktree", "list").count("\n") == 0


def test_a_wrong_result_stops_before_any_speed(project: Project) -> None:
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=GLUE.replace("found = 0.0", "found = 1e-3"))
    report = project.bench(base, changed)
    found = head(report)
    assert found.verdict is Verdict.WRONG_RESULT
    assert found.because.startswith("head: the output is ")
    assert "(tolerance 1e-09)" in found.because
    assert found.interval is None
    assert found.latencies == ()
    assert report.run.benchmarks[0].rounds == ()
    assert report.headline is Verdict.WRONG_RESULT


@pytest.mark.slow
def test_a_suggestion_is_a_third_tree(project: Project) -> None:
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=GLUE.replace("value * value", "value ** 2"))
    project.commit(pkg__glue=GLUE.replace("value * value", "value * value * 1.0"))
    patch = project.git("diff", changed, "HEAD") + "\n"
    report = project.bench(base, changed, patch=patch)
    pairs = [(each.variant, each.baseline) for each in report.comparisons]
    assert (Variant.SUGGESTION, Variant.HEAD) in pairs
    assert len(report.run.benchmarks[0].correctness) == 3
    assert report.run.builds[2].patched


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param("--- a/pkg/none.py\n+++ b/pkg/none.py\n@@ -1 +1 @@\n-a\n+b\n", id="no file"),
        pytest.param(
            "--- a/../../escape.py\n+++ b/../../escape.py\n@@ -0,0 +1 @@\n+b\n", id="outside"
        ),
    ],
)
def test_a_suggestion_that_does_not_apply_drops_only_itself(project: Project, patch: str) -> None:
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=GLUE.replace("value * value", "value ** 2"))
    report = project.bench(base, changed, patch=patch)
    problem = report.run.builds[2].problem
    assert problem is not None
    assert problem.startswith("the suggestion does not apply to the head")
    assert [each.variant for each in report.run.benchmarks[0].correctness] == ["base", "head"]


def test_a_benchmark_that_runs_none_of_the_change_is_left_out(project: Project) -> None:
    more = GLUE + "\ndef other(values):\n    return len(values)\n"
    base = project.commit(pkg__glue=more, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=more.replace("len(values)", "len(values) + 0"))
    run = project.bench(base, changed).run
    assert run.benchmarks == ()
    assert run.problem == "no benchmark executes a changed function; name one"
    assert "bench_total executes no changed function" in run.notes[-1]
    named = project.bench(base, changed, targets=("bench_total",)).run
    assert len(named.benchmarks) == 1


def test_without_a_benchmark_a_ready_made_file_is_offered(project: Project) -> None:
    base = project.commit(pkg__glue=GLUE)
    changed = project.commit(pkg__glue=GLUE.replace("0.0", "0.00"))
    run = project.bench(base, changed).run
    assert run.problem == "the repository has no benchmark"
    assert run.offer is not None
    assert "from pkg.glue import total" in run.offer
    compile(run.offer, "offer", "exec")


def test_a_benchmark_of_the_head_alone_runs_on_the_base_too(project: Project) -> None:
    base = project.commit(pkg__glue=GLUE)
    changed = project.commit(pkg__glue=GLUE.replace("0.0", "0.00"), gpu_bench__bench_total=BENCH)
    run = project.bench(base, changed).run
    assert run.benchmarks[0].correct


def test_parameters_make_cases_of_their_own(project: Project) -> None:
    grid = """
    from gpu_runner.api import bench
    from pkg.glue import total
    params_total = {"n": [1000, 2000]}
    def setup_total(n, seed=0):
        return {"values": [float(i + seed % 7) for i in range(n)]}
    @bench(target="pkg.glue:total", tol=1e-6)
    def bench_total(values):
        return total(values)
    """
    base = project.commit(pkg__glue=GLUE, gpu_bench__grid=grid)
    changed = project.commit(pkg__glue=GLUE.replace("0.0", "0.00"))
    run = project.bench(base, changed).run
    assert [each.name for each in run.benchmarks] == [
        "gpu_bench/grid.py::bench_total[n=1000]",
        "gpu_bench/grid.py::bench_total[n=2000]",
    ]
    assert all(each.correct for each in run.benchmarks)


def test_an_asv_suite_is_used_where_there_is_nothing_else(project: Project) -> None:
    suite = """
    from pkg.glue import total
    class Suite:
        params = [100, 200]
        param_names = ["n"]
        def setup(self, n):
            self.values = [float(i) for i in range(n)]
        def time_total(self, n):
            total(self.values)
    """
    base = project.commit(pkg__glue=GLUE, benchmarks__suite=suite)
    changed = project.commit(pkg__glue=GLUE.replace("0.0", "0.00"))
    run = project.bench(base, changed).run
    assert [(each.source, each.name) for each in run.benchmarks] == [
        ("asv", "benchmarks/suite.py::Suite.time_total[n=100]"),
        ("asv", "benchmarks/suite.py::Suite.time_total[n=200]"),
    ]
    assert all(each.correct for each in run.benchmarks)


@pytest.mark.slow
def test_pytest_benchmark_tests_are_measured_inside_the_test(project: Project) -> None:
    test = """
    import pytest
    from pkg.glue import total
    @pytest.fixture
    def values():
        return [float(i) for i in range(5000)]
    @pytest.mark.parametrize("scale", [1, 2])
    def test_total(benchmark, values, scale):
        assert benchmark(total, values * scale) > 0
    def test_unrelated(values):
        raise AssertionError("never run")
    """
    base = project.commit(pkg__glue=GLUE, tests__test_speed=test)
    changed = project.commit(pkg__glue=GLUE.replace("0.0", "0.00"))
    run = project.bench(base, changed).run
    assert [(each.source, each.name) for each in run.benchmarks] == [
        ("pytest-benchmark", "tests/test_speed.py::test_total[1]"),
        ("pytest-benchmark", "tests/test_speed.py::test_total[2]"),
    ]
    assert [each.problem for each in run.benchmarks] == [None, None]
    assert all(each.correct for each in run.benchmarks)


def test_the_model_backend_calls_everything_modelled(project: Project) -> None:
    schedule = """
    def schedule(gpu, stream):
        for _ in range(4):
            gpu.copy(Work.H2D, 1 << 20, Memory.PINNED, stream)
            gpu.launch("scale", 20_000, stream)
        gpu.synchronize()
    """
    glue = "from gpu_runner.recording import Memory, Work\n" + schedule.replace("\n    ", "\n")
    model = """
    from pkg.glue import schedule
    def model_schedule(gpu):
        schedule(gpu, gpu.stream(blocking=False))
    """
    base = project.commit(pkg__glue=glue, gpu_bench__model=model)
    changed = project.commit(pkg__glue=glue.replace("20_000", "40_000"))
    report = project.bench(base, changed, backend=Backend.MODEL)
    assert report.basis == "modelled"
    assert head(report).verdict is Verdict.SLOWER
    assert report.run.benchmarks[0].source == "model"
    assert {each.variant for each in report.run.benchmarks[0].traces} == {"base", "head"}
    assert report.run.device is not None
    assert "modelled, not measured" in report.run.device.name


# A wait of known length stands for the device: it stays what it is on a busy machine.
WAITING = "import time\n\ndef total(values):\n    time.sleep(0.0050)\n    return sum(values)\n"


@pytest.mark.slow
def test_a_true_tenth_more_time_is_found_slower(project: Project) -> None:
    base = project.commit(pkg__glue=WAITING, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=WAITING.replace("0.0050", "0.0056"))
    protocol = replace(QUICK, rounds=8, most_rounds=12, calls=10, longest_seconds=2.0)
    report = project.bench(base, changed, protocol=protocol)
    assert head(report).verdict is Verdict.SLOWER, head(report).because
    assert report.headline is Verdict.SLOWER
    assert report.run.benchmarks[0].stopped.endswith("confirmed by repetition")


@pytest.mark.slow
def test_twenty_comparisons_of_equal_code_are_called_nothing_else(project: Project) -> None:
    base = project.commit(pkg__glue=WAITING, gpu_bench__bench_total=BENCH)
    changed = project.commit(pkg__glue=WAITING.replace("0.0050", "0.005"))
    protocol = replace(QUICK, rounds=4, most_rounds=4, calls=5, longest_seconds=0.5, seeds=1)
    verdicts = [head(project.bench(base, changed, protocol=protocol)).verdict for _ in range(20)]
    quiet = {Verdict.NO_MEASURABLE_DIFFERENCE, Verdict.INCONCLUSIVE}
    assert set(verdicts) <= quiet, verdicts
