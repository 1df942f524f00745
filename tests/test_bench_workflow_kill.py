"""The service is killed while a workflow run measures: no second run, and no lost result."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bot.bench_outside import OutsideBenches
from bot.bench_work import BenchState, Stage
from tests.bench_outside_scene import Outside, honest, outside
from tests.service_running import Service, serving, wait_until
from tests.standin.faults import Fault

CONFIG: dict[str, str | bytes | None] = {".github/hostside.toml": '[bench]\nway = "workflow"\n'}


def latest(service: Service) -> BenchState | None:
    """The only benchmark, from outside."""
    store = service.store()
    try:
        return next(iter(OutsideBenches(store).history()), None)
    finally:
        store.close()


def stage(service: Service) -> Stage | None:
    found = latest(service)
    return found.stage if found else None


def again(service: Service) -> None:
    service.kill()
    service.start()


def comments(github: Outside) -> list[str]:
    world = github.world
    ours = [c.body for c in world.conversation(github.pull) if c.user is world.bot]
    return [body for body in ours if "<!-- hostside:bench -->" in body]


@pytest.mark.slow
def test_a_service_that_is_killed_again_and_again_measures_once(tmp_path: Path) -> None:
    with (
        outside(tmp_path / "github", files=CONFIG) as github,
        serving(github.world, tmp_path, WATCH_SECONDS="0.3") as service,
    ):
        github.world.emit(github.pull, "pull_request", "opened")
        service.settle()
        # GitHub starts the run and its answer comes late: the service dies before it hears of it.
        late = Fault("timeout", method="POST", path="dispatches", after=True)
        github.world.faults.laid.append(late)
        asked = github.world.say(github.pull, "ada", "/gpu-bench")
        wait_until(
            lambda: bool(github.actions.runs), "a run was started", detail=lambda: latest(service)
        )
        again(service)
        (run,) = github.actions.runs
        wait_until(lambda: (latest(service) or _never()).external == run.id, "it was found")
        run.status = "in_progress"
        wait_until(lambda: stage(service) in (Stage.PREPARING, Stage.RUNNING), "it is measured")
        again(service)
        bench = latest(service)
        assert bench is not None
        github.actions.upload(run, {"report.json": honest(bench).to_json().encode()})
        run.end()
        again(service)
        wait_until(lambda: stage(service) is Stage.DONE, "its report was taken")
        wait_until(lambda: any("FASTER" in body for body in comments(github)), "it is shown")
        service.settle()
        assert len(github.actions.runs) == 1
        assert len(comments(github)) == 1
        assert [r.content for r in asked.reactions] == ["eyes", "+1"]


def _never() -> BenchState:
    raise AssertionError("there is no benchmark")


@contextmanager
def under_way(tmp_path: Path) -> Generator[Outside]:
    """A benchmark whose run was started, watched by the App."""
    with (
        outside(tmp_path / "github", files=CONFIG) as github,
        serving(github.world, tmp_path, WATCH_SECONDS="0.3") as service,
    ):
        github.world.emit(github.pull, "pull_request", "opened")
        service.settle()
        github.world.say(github.pull, "ada", "/gpu-bench")
        wait_until(lambda: bool(github.actions.runs), "a run was started")
        yield github


@pytest.mark.slow
def test_cancelling_it_in_a_comment_stops_the_run(tmp_path: Path) -> None:
    with under_way(tmp_path) as github:
        github.world.say(github.pull, "ada", "/gpu-bench cancel")
        (run,) = github.actions.runs
        wait_until(lambda: run.conclusion == "cancelled", "the run was stopped")
        wait_until(lambda: any("cancelled" in body for body in comments(github)), "it is said")


@pytest.mark.slow
def test_a_push_stops_the_run(tmp_path: Path) -> None:
    with under_way(tmp_path) as github:
        github.world.push(github.pull, {"train.py": "4\n"})
        (run,) = github.actions.runs
        wait_until(lambda: run.conclusion == "cancelled", "the run was stopped")
