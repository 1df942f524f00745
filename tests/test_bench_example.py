"""The example repository of `hostside bench`, with each of its changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bench_project import QUICK, Project, head, needs_bubblewrap

from gpu_runner.records import Backend, Protocol, Variant, Verdict

EXAMPLE = Path(__file__).parents[1] / "examples" / "bench-repo"
pytestmark = [pytest.mark.sandbox, needs_bubblewrap]


@pytest.fixture
def example(tmp_path: Path) -> Project:
    """The example as a repository with one commit."""
    folder = tmp_path / "bench-repo"
    shutil.copytree(EXAMPLE, folder)
    made = Project(folder)
    made.git("init", "-q", "-b", "main")
    made.commit()
    return made


def changed(example: Project, name: str) -> tuple[str, str]:
    """The commits before and after one of the changes."""
    base = example.git("rev-parse", "HEAD")
    example.git("apply", f"changes/{name}.patch")
    return base, example.commit()


def test_the_wrong_change_is_stopped(example: Project) -> None:
    found = head(example.bench(*changed(example, "wrong")))
    assert found.verdict is Verdict.WRONG_RESULT


@pytest.mark.slow
def test_the_slower_change_is_found_on_a_quiet_machine_and_never_called_faster(
    example: Project,
) -> None:
    protocol = Protocol(warm_up_seconds=0.05, seconds=0.2, calls=20, longest_seconds=1.0)
    found = head(example.bench(*changed(example, "slower"), protocol=protocol))
    assert found.verdict in (Verdict.SLOWER, Verdict.INCONCLUSIVE), found.because
    assert found.interval is not None
    assert found.interval.high > 0.05


@pytest.mark.slow
def test_the_suggestion_is_correct_and_compared_with_the_head(example: Project) -> None:
    base = example.git("rev-parse", "HEAD")
    patch = (EXAMPLE / "changes" / "faster.patch").read_text()
    report = example.bench(base, base, patch=patch, protocol=QUICK)
    pairs = [(each.variant, each.baseline) for each in report.comparisons]
    assert (Variant.SUGGESTION, Variant.HEAD) in pairs
    assert report.run.benchmarks[0].correct


def test_its_program_runs_on_the_model(example: Project) -> None:
    base = example.git("rev-parse", "HEAD")
    report = example.bench(base, base, backend=Backend.MODEL, targets=("model_schedule",))
    assert report.basis == "modelled"
    assert head(report).verdict is Verdict.NO_MEASURABLE_DIFFERENCE
    assert report.run.benchmarks[0].traces[0].pinned_share == 0.0
