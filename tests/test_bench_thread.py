"""A comment on a pull request, measured by a real worker and a real runner, and what then stands
there: everything between GitHub's stand-in and the sandbox is processes of their own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from bench_project import needs_bubblewrap
from runner_running import BENCH, FASTER, GLUE, MODEL, TOKEN, measuring, table, until
from service_project import CLEAN, FAULTY
from service_running import Service, serving, wait_until
from test_service_kill import redis

from bot.bench_work import BenchState, Stage
from gpu_runner.models import BenchReport
from tests.standin.model import IssueComment, Pull
from tests.standin.running import running
from tests.standin.world import World

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, needs_bubblewrap]

PATIENCE = 500.0  # seconds: other work may share the machine


def opened(world: World) -> Pull:
    """A pull request with a benchmark of what it changes, and with two suggestions."""
    files: dict[str, str | bytes | None] = {
        "pkg/__init__.py": "", "pkg/glue.py": GLUE, "train.py": CLEAN,
        "gpu_bench/bench_total.py": BENCH, "gpu_bench/model_copies.py": MODEL,
    }  # fmt: skip
    repo = world.repository("acme/glue", files)
    repo.roles["ada"] = "write"
    world.install([repo])
    return world.open_pull(repo, {"pkg/glue.py": FASTER, "train.py": FAULTY})


def sticky(world: World, pull: Pull) -> IssueComment:
    ours = [c for c in world.conversation(pull) if c.user is world.bot]
    (found,) = [c for c in ours if c.body.rstrip().endswith("<!-- hostside:bench -->")]
    return found


def latest(service: Service, pull: Pull) -> BenchState | None:
    with table(service) as benches:
        return next(iter(benches.history(pull.repo.full_name, pull.number)), None)


def asked(service: Service, pull: Pull, body: str) -> tuple[IssueComment, BenchState]:
    """A comment that was looked at, and the benchmark that it ordered."""
    comment = service.world.say(pull, "ada", body)
    wait_until(lambda: latest(service, pull) is not None, "it is ordered", PATIENCE)
    made = latest(service, pull)
    assert made is not None
    return comment, made


def headings(comment: IssueComment) -> list[str]:
    """The stages that were shown in this one comment, each once."""
    said = [body.splitlines()[0] for body in (*comment.edits, comment.body)]
    words = [re.sub(r"### GPU benchmark: (\w+).*", r"\1", line) for line in said]
    return [word for n, word in enumerate(words) if word not in words[:n]]


def test_from_a_comment_to_measured_numbers_in_one_comment(tmp_path: Path) -> None:
    with redis(tmp_path) as url, running(tmp_path / "github") as github:
        world, bell = github.world, {"BROKER_URL": url}
        with serving(world, tmp_path, RUNNER_TOKEN=TOKEN, **bell) as service:
            pull = opened(world)
            service.settle(PATIENCE)
            comment, made = asked(service, pull, "/gpu-bench bench_total rounds=2")
            service.settle(PATIENCE)
            assert "No GPU runner is connected" in sticky(world, pull).body
            with measuring(
                service, tmp_path, "--backend", "cpu", "--name", "box-1", **bell
            ) as runner:
                done = until(service, made, Stage.DONE, Stage.FAILED, patience=PATIENCE)
                assert (done.stage, done.problem) == (Stage.DONE, ""), runner.lines
            service.settle(PATIENCE)
            with table(service) as benches:
                report = BenchReport.from_json(benches.report(done.id))
        assert github.complaints == []
        shown = sticky(world, pull)
        assert headings(shown)[:3] == ["queued", "preparing", "running"]
        assert "box-1" in "".join(shown.edits)
        assert [r.content for r in comment.reactions] == ["eyes", "+1"]
        assert "with all 2 one-click suggestions; only `bench_total`; 2 rounds" in shown.body
        assert report.basis == "measured"
        assert [b.problem for b in report.run.builds] == [None] * 3
        assert {c.variant for c in report.comparisons} >= {"head", "suggestion"}
        if keep := os.environ.get("HOSTSIDE_KEEP_COMMENT"):
            Path(keep).write_text(shown.body)


def test_from_a_comment_to_a_modelled_result(tmp_path: Path) -> None:
    with running(tmp_path / "github") as github:
        world = github.world
        seen = {"PUBLIC_URL": "https://bench.example"}
        with serving(world, tmp_path, RUNNER_TOKEN=TOKEN, **seen) as service:
            pull = opened(world)
            service.settle(PATIENCE)
            with measuring(service, tmp_path, "--backend", "model", "--label", "m1"):
                wait_until(lambda: _connected(service), "the runner has reported", PATIENCE)
                comment, made = asked(service, pull, "/gpu-bench model_copies gpu=m1")
                done = until(service, made, Stage.DONE, Stage.FAILED, patience=PATIENCE)
            service.settle(PATIENCE)
            page = service.get(f"/r/{done.token}").text
        assert github.complaints == []
        assert (done.stage, done.problem) == (Stage.DONE, "")
        assert f"(https://bench.example/r/{done.token})" in sticky(world, pull).body
        assert "![gpu-bench](https://bench.example/badge/" in page
        assert "https://ui.perfetto.dev/#!/?url=https%3A%2F%2Fbench.example%2Fr%2F" in page
        assert [r.content for r in comment.reactions] == ["eyes", "+1"]
        assert "(modelled)" in sticky(world, pull).body.splitlines()[0]
        assert not any("**Measured**" in c.body for c in world.comments_on(pull))
        if keep := os.environ.get("HOSTSIDE_KEEP_COMMENT"):
            Path(f"{keep}.model").write_text(sticky(world, pull).body)


def _connected(service: Service) -> bool:
    with table(service) as benches:
        return bool(benches.runners())


def test_a_push_while_it_is_measured_stops_the_machine_and_is_said(tmp_path: Path) -> None:
    with running(tmp_path / "github") as github:
        world = github.world
        with serving(world, tmp_path, RUNNER_TOKEN=TOKEN) as service:
            pull = opened(world)
            service.settle(PATIENCE)
            comment, made = asked(service, pull, "/gpu-bench suggestion=none rounds=60")
            with measuring(service, tmp_path, "--backend", "cpu") as runner:
                until(service, made, Stage.RUNNING, Stage.FAILED, patience=PATIENCE)
                world.push(pull, {"pkg/glue.py": FASTER + "\n\nX = 1\n"})
                until(service, made, Stage.CANCELLED)
                wait_until(lambda: not runner.boxes(), "nothing of it runs any more")
            service.settle(PATIENCE)
        assert "cancelled" in sticky(world, pull).body.splitlines()[0]
        assert [r.content for r in comment.reactions] == ["eyes", "confused"]
