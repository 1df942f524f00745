"""`/gpu-bench` through the shipped workflows, from comment to report, on a scripted runner."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot import upkeep
from bot.bench_lookout import Lookout
from bot.bench_work import BenchState, Stage
from bot.dispatch import Office, work_on
from bot.github import connect, connect_workflows
from bot.handlers import Event, work
from bot.payloads import parse
from bot.pool import run_here
from bot.store import Store
from bot.work import Delivery
from tests.bench_outside_scene import WORKFLOW, Outside, outside
from tests.bench_project import needs_bubblewrap
from tests.standin.actions import Run
from tests.standin.model import Delivery as Delivered
from tests.standin.model import IssueComment
from tests.standin.webhooks import payload
from tests.workflow_expressions import Expressions
from tests.workflow_runner import ROOT, Runner, shipped

SLOW = """\
def total(values):
    found = 0.0
    for value in values:
        found += value * value
    return found
"""
FAST = """\
def total(values):
    return float(sum(value * value for value in values))
"""
BENCH = """\
import random
from glue import total

def setup_total(seed=0):
    source = random.Random(seed)
    return ([source.random() for _ in range(5_000)],)

def bench_total(values):
    return total(values)
"""
FILES: dict[str, str | bytes | None] = {
    "glue.py": SLOW,
    "gpu_bench/bench_glue.py": BENCH,
    ".github/hostside.toml": '[bench]\nway = "workflow"\n',
}
COMMENT_WORKFLOW = "gpu-bench-comment.yml"
MODELLED = """\
def model_ring(gpu):
    gpu.launch("k", {})
    gpu.synchronize()
"""


class Scene:
    """The App beside the stand-in, one step at a time, and a machine with a runner."""

    def __init__(self, github: Outside, folder: Path) -> None:
        self.github, self.folder = github, folder
        self.lookout = Lookout(github.store, 0.0)
        github.world.deliver = self.receive
        github.world.emit(github.pull, "pull_request", "opened")

    def receive(self, delivery: Delivered) -> int:
        said = parse(delivery.event, delivery.body)
        todo = work(Event(delivery.guid, delivery.event, said))
        self.github.store.accept([Delivery(delivery.guid, delivery.event, said.action, todo)])
        return 202

    @property
    def store(self) -> Store:
        return self.github.store

    @property
    def latest(self) -> BenchState:
        return self.github.benches.history(most=1)[0]

    @property
    def sticky(self) -> str:
        return sticky(self.github, self.github.world.bot.login)

    def settle(self) -> None:
        """Do every job that waits."""
        installation, repo = self.github.installation.id, self.github.repo.full_name
        client = connect(self.github.access, installation, repository=repo)
        office = Office(
            self.store, lambda _: client, lambda _: None, run_here,
            open_workflows=lambda job: connect_workflows(
                self.github.access, job.installation, repository=job.repo
            ),
        )  # fmt: skip
        for _ in range(20):
            bells = {b.job for b in (*upkeep.due(self.store), *upkeep.waiting(self.store))}
            for job in sorted(bells):
                work_on(office, job)
            if not bells:
                client.close()
                return
        raise AssertionError("the jobs do not come to an end")

    def look(self) -> None:
        """What the caretaker does every few seconds, and what follows from it."""
        self.lookout.due()
        self.settle()

    def runner(self, **environment: str) -> Runner:
        named = {f"HOSTSIDE_BENCH_{name.upper()}": value for name, value in environment.items()}
        return Runner(self.github.world, self.github.repo, self.folder / "runner", named)


def sticky(github: Outside, login: str) -> str:
    """The one comment about benchmarks."""
    found = [
        c.body for c in github.world.conversation(github.pull)
        if c.user.login == login and "<!-- hostside:bench -->" in c.body
    ]  # fmt: skip
    assert len(found) == 1, found
    return found[0]


def reactions(comment: IssueComment) -> list[str]:
    return [reaction.content for reaction in comment.reactions]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with outside(tmp_path, files=FILES, head={"glue.py": FAST}) as github:
        yield Scene(github, tmp_path)


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize("backend", ["cpu", "model"])
def test_a_comment_becomes_a_report_through_the_dispatched_workflow(
    tmp_path: Path, backend: str
) -> None:
    program = "gpu_bench/program.py"
    files = FILES | {program: MODELLED.format(2_000)} if backend == "model" else FILES
    head = {program: MODELLED.format(1_000)} if backend == "model" else {"glue.py": FAST}
    with outside(tmp_path, files=files, head=dict(head)) as github:
        scene = Scene(github, tmp_path)
        asked = github.world.say(github.pull, "ada", "/gpu-bench rounds=2 suggestion=none")
        scene.settle()
        assert reactions(asked) == ["eyes"]
        assert "queued, position 1" in scene.sticky

        scene.look()
        (run,) = github.actions.runs
        scene.look()
        run.status = "in_progress"
        scene.look()
        assert "preparing on [an Actions runner](" in scene.sticky
        scene.look()
        assert "running on [an Actions runner](" in scene.sticky

        runner = scene.runner(backend=backend)
        assert runner.work(run) == {"measure": "success"}, "".join(runner.log)
        github.actions.tell(run, "completed")  # GitHub's webhook, before the next look
        scene.settle()
        assert scene.latest.stage is Stage.DONE, scene.latest.problem
        assert reactions(asked) == ["eyes", "+1"]
        assert "GPU benchmark" in scene.sticky
        assert {"cpu": "total", "model": "ring"}[backend] in scene.sticky
        assert str(tmp_path) not in scene.sticky + github.benches.report(scene.latest.id)
        if backend == "model":
            assert github.benches.files(scene.latest.id)
            assert "modelled" in scene.sticky
        assert runner.labels == [["self-hosted", "gpu"]]


def comment_run(github: Outside, folder: Path, body: str) -> tuple[Run, Path, IssueComment]:
    """Somebody comments where there is no server: the run that GitHub starts, and its event."""
    asked = github.world.say(github.pull, "ada", body)
    event = folder / "event.json"
    event.write_bytes(
        payload(github.world, github.pull, "issue_comment", "created", {"comment": asked})
    )
    run = Run(next(github.world.ids), github.repo, COMMENT_WORKFLOW, "", "main", {})
    run.event = "issue_comment"
    github.actions.runs.append(run)
    return run, event, asked


@pytest.mark.slow
@needs_bubblewrap
def test_a_comment_becomes_a_report_without_a_server(tmp_path: Path) -> None:
    with outside(
        tmp_path, files=FILES | shipped(COMMENT_WORKFLOW), head={"glue.py": FAST}
    ) as github:
        run, event, asked = comment_run(github, tmp_path, "/gpu-bench rounds=2 gpu=h200")
        runner = Runner(github.world, github.repo, tmp_path / "runner")
        ended = runner.work(run, event)
        log = "".join(runner.log)
        assert ended == {"gate": "success", "measure": "success", "report": "success"}, log
        assert reactions(asked) == ["eyes", "+1"]
        shown = sticky(github, "github-actions[bot]")
        assert "GPU benchmark" in shown
        assert "gpu_bench/bench_glue.py" in shown
        assert "failed" not in shown
        assert runner.labels == ["ubuntu-latest", ["self-hosted", "gpu", "h200"], "ubuntu-latest"]


@pytest.mark.slow
def test_without_a_server_a_machine_without_a_python_says_so(tmp_path: Path) -> None:
    with outside(tmp_path, files=FILES | shipped(COMMENT_WORKFLOW)) as github:
        run, event, asked = comment_run(github, tmp_path, "/gpu-bench")
        environment = {"HOSTSIDE_BENCH_PYTHON": str(tmp_path / "none")}
        runner = Runner(github.world, github.repo, tmp_path / "runner", environment)
        ended = runner.work(run, event)
        assert ended == {"gate": "success", "measure": "failure", "report": "success"}
        assert reactions(asked) == ["eyes", "confused"]
        assert "is not a Python that starts" in sticky(github, "github-actions[bot]")


@pytest.mark.slow
def test_a_comment_by_a_reader_ends_at_the_gate(tmp_path: Path) -> None:
    with outside(tmp_path, files=FILES | shipped(COMMENT_WORKFLOW)) as github:
        github.repo.roles["ada"] = "read"
        run, event, asked = comment_run(github, tmp_path, "/gpu-bench")
        ended = Runner(github.world, github.repo, tmp_path / "runner").work(run, event)
        assert ended == {"gate": "success", "measure": "skipped", "report": "skipped"}
        assert reactions(asked) == ["eyes", "confused"]


# --- the files themselves


def jobs(name: str) -> dict[str, dict[str, object]]:
    """The jobs of a shipped workflow."""
    return yaml.safe_load((ROOT / "deploy" / "workflows" / name).read_text())["jobs"]


def test_both_workflows_measure_by_the_same_steps() -> None:
    alone, commented = jobs(WORKFLOW)["measure"], jobs(COMMENT_WORKFLOW)["measure"]
    said = json.dumps(commented["steps"]).replace("needs.gate.outputs.", "inputs.")
    assert json.loads(said) == alone["steps"]


def test_the_measuring_job_may_only_read() -> None:
    for name in (WORKFLOW, COMMENT_WORKFLOW):
        measure = jobs(name)["measure"]
        assert measure["permissions"] == {"contents": "read"}
        assert "secrets." not in json.dumps(measure)
        assert "github.token" not in json.dumps(measure)


@pytest.mark.parametrize(
    ("label", "labels"),
    [
        ("", ["self-hosted", "gpu"]),
        ("h200", ["self-hosted", "gpu", "h200"]),
        ('x", "ubuntu-latest', ["self-hosted", "gpu", 'x", "ubuntu-latest']),
    ],
    ids=["none", "one", "one that tries to be two"],
)
def test_a_label_is_one_more_that_the_machine_must_have(label: str, labels: list[str]) -> None:
    runs_on = str(jobs(WORKFLOW)["measure"]["runs-on"])
    assert Expressions({"inputs": {"gpu": label}}).fill(runs_on) == labels


@pytest.mark.slow
def test_the_install_step_makes_a_hostside_that_runs(tmp_path: Path) -> None:
    steps: Any = jobs(COMMENT_WORKFLOW)["gate"]["steps"]
    script = steps[0]["run"]
    temp = tmp_path / "a temp"
    temp.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HOSTSIDE_")} | {
        "RUNNER_TEMP": str(temp),
        "REQUIREMENT": f"hostside[app] @ {ROOT.as_uri()}",
    }
    line = ["bash", "-eo", "pipefail", "-c", script]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("needs a package index")
    assert done.returncode == 0, done.stderr
    command = [str(temp / "hostside" / "bin" / "hostside"), "bench", "gate"]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (ended.returncode, "GITHUB_EVENT_PATH is not set" in ended.stderr) == (2, True)
