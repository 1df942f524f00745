"""Benchmark files that are odd, wrong or hostile: the report says what is wrong, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_project import GLUE, LIMITS, Project, needs_bubblewrap, started

from bot.reports.bench import markdown, text
from gpu_runner import cases
from gpu_runner.cases import own_cases
from gpu_runner.encode import encode
from gpu_runner.models import BenchReport

pytestmark = [pytest.mark.sandbox, needs_bubblewrap]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return started(tmp_path / "project")


def report(project: Project, body: str) -> BenchReport:
    """The report on a change of `pkg.glue.total` with a benchmark file that imports it."""
    bench = f"from pkg.glue import total\n{body}\n"
    base = project.commit(pkg__glue=GLUE, gpu_bench__odd=bench)
    head = project.commit(pkg__glue=GLUE.replace("0.0", "0.00"))
    return project.bench(base, head, targets=("gpu_bench/odd.py",), limits=LIMITS)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(
            "import os\ndef bench_odd(): os._exit(7)", "stopped with exit code 7", id="it exits"
        ),
        pytest.param("raise SystemExit(3)\ndef bench_odd(): ...", "SystemExit: 3", id="at import"),
        pytest.param(
            "def bench_odd(): return object()", "it returns builtins.object", id="opaque output"
        ),
        pytest.param(
            "setup_odd = 5\ndef bench_odd(): ...", "setup_odd is not a function", id="set-up"
        ),
        pytest.param(
            "params_odd = 5\ndef bench_odd(n): ...", "params_odd is not a dict", id="parameters"
        ),
        pytest.param(
            "import itertools\nparams_odd = {'n': itertools.count()}\ndef bench_odd(n): ...",
            "a parameter has more than 500 values",
            id="endless parameters",
        ),
        pytest.param(
            "params_odd = dict.fromkeys('abc', range(100))\ndef bench_odd(a, b, c): ...",
            "more than the 500 that fit in a run",
            id="too many cases",
        ),
    ],
)
def test_where_nothing_could_be_timed_the_report_says_why_and_claims_nothing(
    project: Project, body: str, said: str
) -> None:
    found = report(project, body)
    assert found.run.problem is not None
    assert said in found.run.problem
    assert said in text(found)
    for shown in (text(found), markdown(found)):
        assert "measured" not in shown.replace("was measured", "").replace("not measured", "")
        assert "outputs equal" not in shown


def test_a_benchmark_that_returns_nothing_is_timed_but_not_called_equal(project: Project) -> None:
    found = report(project, "def bench_odd():\n    total([1.0])")
    assert found.run.problem is None
    assert "it returns nothing, so no results were compared" in text(found)
    assert "outputs equal" not in text(found)


def test_parameters_from_a_generator_are_all_used() -> None:
    module = type(cases)("module")
    exec(
        "params_odd = {'n': (n for n in (1, 2)), 'm': [3]}\ndef bench_odd(n, m): ...", vars(module)
    )
    found = [case.parameters for case in own_cases(module)]
    assert found == [{"n": 1, "m": 3}, {"n": 2, "m": 3}]


@pytest.mark.parametrize("value", [10**10_000, -(10**10_000)], ids=["large", "small"])
def test_whole_numbers_of_any_size_can_be_compared(value: int) -> None:
    assert encode(value)[0] == {"t": "int", "v": hex(value)}
