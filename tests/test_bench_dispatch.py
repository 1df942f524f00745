"""A benchmark through a workflow run: started once, watched, stopped, its answer taken or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from bot import bench_dispatch
from bot.bench_dispatch import SURE_SECONDS
from bot.bench_outside import NOTHING, SENDING, SENT
from bot.bench_work import MOST_QUEUED_SECONDS, BenchState, Stage
from bot.tables import BenchRow
from gpu_runner.models import BenchReport
from gpu_runner.records import Verdict
from tests.bench_outside_scene import GRANTED, GZIP, WORKFLOW, Outside, honest, outside


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Outside]:
    with outside(tmp_path) as made:
        yield made


def later(scene: Outside, bench: BenchState, seconds: float) -> None:
    """Let this much time have passed since its run was asked for."""
    earlier = update(BenchRow).where(BenchRow.id == bench.id)
    with scene.store.engine.begin() as connection:
        connection.execute(earlier.values(started=BenchRow.started - seconds))


def test_a_benchmark_goes_from_its_order_to_its_report(scene: Outside) -> None:
    bench = scene.order(targets=("gpu_bench/a.py", "bench_*"), rounds=4, patch="+x\n" * 50)
    run = scene.started(bench)
    assert run.inputs == {
        "bench": bench.token, "pr": "1", "base": scene.pull.base_sha, "head": scene.pull.head_sha,
        "targets": "gpu_bench/a.py 'bench_*'", "rounds": "4", "gpu": "",
        "patch": run.inputs["patch"], "paths": "",
    }  # fmt: skip
    assert scene.benches.get(bench.id).stage is Stage.QUEUED

    run.status = "in_progress"
    scene.look(bench)
    now = scene.benches.get(bench.id)
    assert now.stage is Stage.PREPARING
    assert now.runner.endswith(f"/actions/runs/{run.id}")
    scene.look(bench)
    assert scene.benches.get(bench.id).stage is Stage.RUNNING

    result = {"report.json": scene.result(bench), "a.head.1.json.gz": GZIP}
    scene.actions.upload(run, result)
    run.end()
    assert scene.look(bench).settled
    done = scene.benches.get(bench.id)
    assert (done.stage, done.problem, done.has_report) == (Stage.DONE, "", True)
    assert BenchReport.from_json(scene.benches.report(bench.id)).headline is Verdict.FASTER
    assert scene.benches.file(bench.id, "a.head.1.json.gz") == GZIP
    assert scene.benches.unsettled() == ()


def test_the_other_server_gets_no_token(scene: Outside) -> None:
    bench = scene.order()
    run = scene.started(bench)
    scene.actions.upload(run, {"report.json": scene.result(bench)})
    run.end()
    scene.look(bench)
    assert scene.benches.get(bench.id).stage is Stage.DONE
    (headers,) = scene.blob_headers
    assert "authorization" not in headers
    assert not any("ghs_" in value for value in headers.values())


def test_the_token_for_it_can_do_nothing_else(scene: Outside) -> None:
    scene.started(scene.order())
    tokens = [t for t in scene.world.tokens.values() if t.installation]
    assert {tuple(sorted(t.permissions.items())) for t in tokens} == {
        (("actions", "write"), ("metadata", "read"))
    }


def test_a_github_that_names_the_run_needs_no_search(scene: Outside) -> None:
    bench = scene.order()
    scene.look(bench, scene.workflows(api_version="2026-03-10"))
    assert scene.benches.get(bench.id).external == scene.actions.runs[0].id
    assert not scene.running.calls("GET", "/runs")


def test_a_run_that_the_lists_do_not_show_yet_is_waited_for_and_not_started_again(
    scene: Outside,
) -> None:
    scene.actions.lag = 2
    bench = scene.order()
    scene.look(bench)
    assert scene.benches.get(bench.id).external == SENT
    for _ in range(2):
        assert "not to be seen" in scene.look(bench).words
    scene.look(bench)
    assert scene.benches.get(bench.id).external == scene.actions.runs[0].id
    assert len(scene.actions.runs) == 1


@pytest.mark.parametrize("kind", ["timeout", "500", "garbage", "drop"])
def test_a_lost_answer_starts_no_second_run(scene: Outside, kind: str) -> None:
    scene.world.faults.add(kind, method="POST", path="dispatches", after=True)
    bench = scene.order()
    scene.look(bench, scene.workflows(timeout=0.5))
    scene.started(bench)
    assert len(scene.actions.runs) == 1


def test_a_process_that_dies_before_sending_is_made_up_for(scene: Outside) -> None:
    bench = scene.order()
    scene.benches.note(bench, SENDING)  # and here it was killed
    assert "not to be seen" in scene.look(bench).words
    assert scene.actions.runs == []
    later(scene, bench, SURE_SECONDS + 1)
    scene.look(bench)
    scene.started(bench)


def test_a_process_that_dies_after_sending_is_followed(scene: Outside) -> None:
    bench = scene.order()
    scene.look(bench)
    scene.benches.note(scene.benches.get(bench.id), SENDING)  # the answer was never noted
    later(scene, bench, SURE_SECONDS + 1)
    scene.look(bench)
    assert scene.benches.get(bench.id).external == scene.actions.runs[0].id


def test_a_run_of_another_branch_is_not_taken_for_ours(scene: Outside) -> None:
    bench = scene.order()
    scene.benches.note(bench, SENDING)
    run = scene.actions.start(scene.repo, WORKFLOW, "feature", {
        "bench": bench.token, "pr": "1", "base": "b", "head": "h",
    })  # fmt: skip
    assert run.title.endswith(bench.token)
    assert "not to be seen" in scene.look(bench).words


def test_benchmarks_for_one_machine_are_started_one_after_the_other(scene: Outside) -> None:
    first = scene.order()
    other = scene.world.open_pull(scene.repo, {"x.py": "1\n"}, branch="other")
    second = scene.order(number=other.number, head_sha=other.head_sha, gpu="a100")
    scene.look(first)
    assert "measured first" in scene.look(second).words
    scene.benches.cancel(first.id, "enough")
    scene.look(first)
    scene.look(second)
    assert len(scene.actions.runs) == 2


def test_cancelling_the_benchmark_stops_its_run(scene: Outside) -> None:
    bench = scene.order()
    run = scene.started(bench)
    scene.benches.cancel(bench.id, "it was cancelled by ada")
    assert [b.id for b in scene.benches.unsettled()] == [bench.id]
    assert scene.look(bench).settled
    assert run.conclusion == "cancelled"
    assert scene.benches.unsettled() == ()


def test_a_run_that_is_not_known_yet_is_stopped_once_it_is(scene: Outside) -> None:
    scene.actions.lag = 1
    bench = scene.order()
    scene.look(bench)
    scene.benches.cancel(bench.id, "it was cancelled by ada")
    assert not scene.look(bench).settled
    assert scene.look(bench).settled
    assert scene.actions.runs[0].conclusion == "cancelled"


def test_a_run_that_ended_before_it_could_be_stopped_is_left_alone(scene: Outside) -> None:
    bench = scene.order()
    run = scene.started(bench)
    run.end()
    scene.benches.cancel(bench.id, "it was cancelled by ada")
    assert scene.look(bench).settled
    assert run.conclusion == "success"


def test_a_run_that_nobody_takes_is_given_up_after_an_hour(scene: Outside) -> None:
    bench = scene.order(gpu="h200")
    run = scene.started(bench)
    later(scene, bench, MOST_QUEUED_SECONDS + 1)
    scene.look(bench)
    failed = scene.benches.get(bench.id)
    assert failed.stage is Stage.FAILED
    assert "no self-hosted runner with the labels `self-hosted`, `gpu`, `h200`" in failed.problem
    scene.look(bench)
    assert run.conclusion == "cancelled"


def test_an_outage_is_waited_out(scene: Outside) -> None:
    bench = scene.order()
    scene.started(bench)
    scene.world.faults.add("502", path="/actions/runs/", times=20)
    assert not scene.look(bench).settled
    assert scene.benches.get(bench.id).active


def ends(scene: Outside, bench: BenchState) -> str:
    """The sentence after the next look; nothing is left to be watched."""
    scene.look(bench)
    if scene.benches.unsettled():
        scene.look(bench)
    now = scene.benches.get(bench.id)
    assert now.stage is Stage.FAILED
    assert scene.benches.unsettled() == ()
    assert "\n" not in now.problem
    return now.problem


@pytest.mark.parametrize(
    ("conclusion", "words"),
    [
        ("cancelled", "was cancelled on GitHub"),
        ("timed_out", "ran out of time; name fewer benchmarks"),
        ("startup_failure", "could not start"),
        ("action_required", "waits for an approval"),
        ("failure", "failed on the machine"),
        ("success", "left no result (artifact `hostside-bench`)"),
        ("stale", "failed on the machine"),
    ],
)
def test_a_run_without_a_result_is_said_with_its_way_out(
    scene: Outside, conclusion: str, words: str
) -> None:
    bench = scene.order()
    scene.started(bench).end(conclusion)
    assert words in ends(scene, bench)


def test_a_run_that_was_deleted_is_said(scene: Outside) -> None:
    bench = scene.order()
    scene.started(bench)
    scene.actions.runs.clear()
    assert "was deleted" in ends(scene, bench)


def test_a_machine_may_say_why_it_has_no_result(scene: Outside) -> None:
    bench = scene.order()
    run = scene.started(bench)
    scene.actions.upload(
        run, {"problem.json": json.dumps({"problem": "git is\nmissing."}).encode()}
    )
    run.end("failure")
    assert ends(scene, bench) == "git is missing"


def test_an_expired_artifact_is_said(scene: Outside) -> None:
    bench = scene.order()
    run = scene.started(bench)
    scene.actions.upload(run, {"report.json": scene.result(bench)}).expired = True
    run.end()
    assert "has expired" in ends(scene, bench)


@pytest.mark.parametrize("size", [1 << 40, None], ids=["by its listed size", "by what comes"])
def test_an_artifact_that_is_too_large_is_not_taken(
    scene: Outside, monkeypatch: pytest.MonkeyPatch, size: int | None
) -> None:
    bench = scene.order()
    run = scene.started(bench)
    made = scene.actions.upload(run, {"report.json": scene.result(bench)})
    made.said_size = 10 if size is None else size
    if size is None:
        monkeypatch.setattr("bot.bench_artifact.LARGEST_ZIP", 100)
    run.end()
    assert "MiB; name fewer benchmarks" in ends(scene, bench)


def other_head(bench: BenchState) -> bytes:
    return honest(bench).to_json().replace(bench.order.head_sha, "9" * 40).encode()


def other_token(bench: BenchState) -> bytes:
    return honest(bench).to_json().replace(bench.token, "9" * 32).encode()


def other_thresholds(bench: BenchState) -> bytes:
    text = honest(bench).to_json()
    assert '"relevant_effect": 0.02' in text
    return text.replace('"relevant_effect": 0.02', '"relevant_effect": 0.9').encode()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(other_head, "another head", id="another head"),
        pytest.param(other_token, "another identifier", id="another benchmark"),
        pytest.param(other_thresholds, "another protocol", id="another protocol"),
        pytest.param(lambda _: b"not JSON", "malformed", id="not JSON"),
        pytest.param(lambda _: b"[" * 100_000, "malformed", id="deeply nested"),
        pytest.param(lambda _: b"{}", "malformed", id="another JSON"),
        pytest.param(lambda _: b"\xff\xfe", "malformed", id="no text"),
    ],
)
def test_an_answer_to_another_question_is_refused(
    scene: Outside, make: Callable[[BenchState], bytes], words: str
) -> None:
    bench = scene.order()
    run = scene.started(bench)
    scene.actions.upload(run, {"report.json": make(bench)})
    run.end()
    said = ends(scene, bench)
    assert words in said
    assert len(said) < 400


def test_a_machine_that_praises_itself_is_not_believed(scene: Outside) -> None:
    bench = scene.order()
    run = scene.started(bench)
    lies = honest(bench, head_ns=1_200_000.0).to_json()
    lies = lies.replace('"headline": "SLOWER"', '"headline": "FASTER"')
    assert '"headline": "FASTER"' in lies
    scene.actions.upload(run, {"report.json": lies.encode()})
    run.end()
    scene.look(bench)
    assert BenchReport.from_json(scene.benches.report(bench.id)).headline is Verdict.SLOWER


def test_a_workflow_that_is_not_there_is_said(tmp_path: Path) -> None:
    with outside(tmp_path, workflow="") as scene:
        said = ends(scene, scene.order())
    assert "there is no `.github/workflows/gpu-bench.yml` on the branch `main`" in said


def test_a_workflow_that_is_disabled_is_said(scene: Outside) -> None:
    scene.actions.disabled.add(WORKFLOW)
    assert "is disabled; enable it" in ends(scene, scene.order())


@pytest.mark.parametrize(
    "workflow",
    [
        "name: x\non: push\njobs: {}\n",
        "name: x\non:\n  workflow_dispatch:\n    inputs:\n      other: {type: string}\njobs: {}\n",
    ],
    ids=["another trigger", "other inputs"],
)
def test_a_workflow_that_is_not_ours_is_said(tmp_path: Path, workflow: str) -> None:
    with outside(tmp_path, workflow=workflow) as scene:
        assert "is not Hostside's" in ends(scene, scene.order())


@pytest.mark.parametrize(
    "permissions",
    [
        {k: v for k, v in GRANTED.items() if k != "actions"},
        {**GRANTED, "actions": "read"},
    ],
    ids=["none", "only read"],
)
def test_a_missing_permission_is_named(tmp_path: Path, permissions: dict[str, str]) -> None:
    with outside(tmp_path, permissions=permissions) as scene:
        assert "permission `actions: write`" in ends(scene, scene.order())


def test_a_suggestion_that_no_input_can_hold_is_said(scene: Outside) -> None:
    import random

    noise = "".join(random.Random(1).choices("0123456789abcdef", k=200_000))
    said = ends(scene, scene.order(patch=noise))
    assert "`suggestion=none`" in said
    assert not scene.running.calls("POST", "dispatches")


def test_a_failure_of_our_own_ends_in_a_sentence(
    scene: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = scene.order()
    scene.started(bench).end()
    monkeypatch.setattr(bench_dispatch, "left_by", lambda *_: 1 / 0)
    assert "internal error" in ends(scene, bench)


def test_nothing_is_known_of_a_benchmark_that_does_not_exist(scene: Outside) -> None:
    bench = scene.order()
    seen = bench_dispatch.look(scene.benches, scene.workflows(), "f" * 32)
    assert seen.settled
    assert scene.benches.get(bench.id).external == NOTHING
