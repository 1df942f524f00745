"""A small git repository with one benchmark, for tests of whole benchmark runs."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gpu_runner.bench import run_bench
from gpu_runner.models import BenchReport, BenchRequest, Comparison
from gpu_runner.records import Backend, Limits, Protocol, Variant

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="needs bubblewrap: apt-get install bubblewrap"
)

QUICK = Protocol(
    rounds=2,
    most_rounds=2,
    warm_up_calls=1,
    warm_up_seconds=0.0,
    calls=4,
    seconds=0.02,
    longest_seconds=0.15,
    trace_passes=0,
)
LIMITS = Limits(process_seconds=60.0, memory_bytes=600 << 20, scratch_bytes=64 << 20)

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

    def bench(self, base: str, head: str, **more: Any) -> BenchReport:
        """The report on two commits, with the quick protocol unless told otherwise."""
        blank = BenchRequest(str(self.folder), base, head, backend=Backend.CPU)
        return run_bench(replace(blank, **{"protocol": QUICK, "limits": LIMITS, **more}))


def head(report: BenchReport) -> Comparison:
    """The comparison of head against base."""
    return next(each for each in report.comparisons if each.variant is Variant.HEAD)


def started(folder: Path) -> Project:
    """An empty repository in that folder."""
    folder.mkdir()
    made = Project(folder)
    made.git("init", "-q", "-b", "main")
    return made
