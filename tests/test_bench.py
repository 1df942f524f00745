"""Benchmarks of small repositories, run in the sandbox on the CPU from the gate to the verdict."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gpu_runner.bench import Progress, run_bench
from gpu_runner.models import BenchReport, BenchRequest, Comparison
from gpu_runner.records import Backend, Limits, Protocol, Variant

QUICK = Protocol(
    rounds=2,
    most_rounds=2,
    warm_up_calls=1,
    warm_up_seconds=0.0,
    calls=4,
    seconds=0.02,
    longest_seconds=1.0,
    trace_passes=0,
)
LIMITS = Limits(process_seconds=60.0, memory_bytes=600 << 20, scratch_bytes=64 << 20)

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(
        shutil.which("bwrap") is None, reason="needs bubblewrap: apt-get install bubblewrap"
    ),
]

GLUE = """
def total(values):
    found = 0.0
    for value in values:
        found += value * value
    return found
"""
BENCH = """
import random
from pkg.glue import total

def setup_total(seed=0):
    source = random.Random(seed)
    return ([source.random() for _ in range(20_000)],)

def bench_total(values):
    return total(values)
"""


@dataclass(frozen=True)
class Project:
    """A repository made for one test."""

    folder: Path

    def commit(self, **files: str) -> str:
        """Writes the files (dots in the name of a keyword are `__`), commits, gives the hash."""
        for name, text in files.items():
            path = self.folder / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "a change")
        return self.git("rev-parse", "HEAD")

    def git(self, *words: str) -> str:
        """What git prints."""
        who = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
        line = ["git", "-C", str(self.folder), *who, *words]
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()

    def bench(self, base: str, head: str, **more: object) -> BenchReport:
        """The report on two commits, with the quick protocol unless told otherwise."""
        blank = BenchRequest(str(self.folder), base, head, backend=Backend.CPU)
        return run_bench(replace(blank, **{"protocol": QUICK, "limits": LIMITS, **more}))  # pyright: ignore[reportArgumentType]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    made = Project(folder)
    made.git("init", "-q", "-b", "main")
    return made


def head(report: BenchReport) -> Comparison:
    """The comparison of head against base."""
    return next(each for each in report.comparisons if each.variant is Variant.HEAD)


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
    assert len(one.rounds) == 2
    assert run.device is not None
    assert run.device.kind == "cpu"
    assert run.environment.sandbox == "bubblewrap"
    assert not run.overlap_measured
    assert "overlap was not measured" in run.notes[0]
    assert BenchReport.from_json(report.to_json()) == report
    assert [each.done for each in heard] == list(range(6))
    assert heard[0].total == 6
    assert project.git("worktree", "list").count("\n") == 0
