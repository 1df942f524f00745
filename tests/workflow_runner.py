"""A scripted runner of GitHub Actions: the jobs of the shipped workflows, their steps really run.

`run:` steps are run by bash with the step's environment; the two actions that the workflows use are
done by hand, against the stand-in. Only installing Hostside is cut short, by a `python3` that makes
an environment out of the one under test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.standin.actions import FOLDER, Run, actions_of
from tests.standin.model import Repo
from tests.standin.world import World
from tests.workflow_expressions import Expressions, shown

ROOT = Path(__file__).parents[1]
_NAMES = {"pull-requests": "pull_requests"}


@dataclass
class Runner:
    """A machine; `environment` is what its operator set."""

    world: World
    repo: Repo
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)

    def workflow(self, name: str) -> dict[str, Any]:
        """The workflow on the default branch."""
        return yaml.safe_load(actions_of(self.world).text_of(self.repo, name))

    def work(self, run: Run, event: Path | None = None) -> dict[str, str]:
        """Do all jobs of the run, in order; how each ended."""
        described = self.workflow(run.workflow)
        needs: dict[str, Any] = {}
        run.status = "in_progress"
        for name, job in described["jobs"].items():
            wanted = job.get("needs", [])
            wanted = [wanted] if isinstance(wanted, str) else wanted
            before = {each: needs[each] for each in wanted}
            results = {each["result"] for each in before.values()}
            ended = "success" if results <= {"success"} else "failure"
            contexts = {
                "inputs": run.inputs,
                "needs": before,
                "vars": {},
                "github": _github(event, described),
            }
            expressions = Expressions(contexts, ended)
            if not expressions.holds(job.get("if", "success()")):
                needs[name] = {"result": "skipped", "outputs": {}}
                continue
            needs[name] = _Job(self, run, name, job, expressions, event).work()
        ends = {name: each["result"] for name, each in needs.items()}
        run.end("failure" if "failure" in ends.values() else "success")
        return ends


def _github(event: Path | None, described: dict[str, Any]) -> dict[str, Any]:
    said = yaml.safe_load(event.read_text()) if event else {}
    return {"event": said, "workflow": described["name"], "token": "set by the job"}


@dataclass
class _Job:
    runner: Runner
    run: Run
    name: str
    job: dict[str, Any]
    expressions: Expressions
    event: Path | None

    def work(self) -> dict[str, Any]:
        self.runner.labels.append(self._fill(self.job["runs-on"]))
        place = self.runner.folder / f"{self.run.id} {self.name}"  # with a space, as some have
        workspace, temp = place / "work", place / "temp"
        for folder in (workspace, temp):
            folder.mkdir(parents=True)
        contexts = self.expressions.contexts
        contexts["steps"] = {}
        contexts["github"]["token"] = self._token()
        steps = Expressions(contexts)
        for step in self.job["steps"]:
            if not steps.holds(step.get("if", "success()")):
                continue
            if not self._step(step, steps, workspace, temp):
                steps.ended = "failure"
        outputs = {k: shown(steps.fill(v)) for k, v in self.job.get("outputs", {}).items()}
        return {"result": steps.ended, "outputs": outputs}

    def _fill(self, value: Any) -> Any:
        return self.expressions.fill(value) if isinstance(value, str) else value

    def _token(self) -> str:
        """The workflow's own token, with what the job's `permissions:` give it."""
        granted = {_NAMES.get(k, k): v for k, v in self.job["permissions"].items()}
        who = self.runner.world.user("github-actions[bot]", "Bot")
        return self.runner.world.token_of(who, metadata="read", **granted)

    def _step(self, step: dict[str, Any], steps: Expressions, workspace: Path, temp: Path) -> bool:
        if uses := step.get("uses"):
            action, _, pin = uses.partition("@")
            assert len(pin) == 40, f"{action} is not pinned"
            given = {k: steps.fill(v) if isinstance(v, str) else v for k, v in step["with"].items()}
            return _ACTIONS[action](self, given, workspace)
        output = temp / "output"
        output.write_text("")
        environment = self._environment(workspace, temp, output)
        for name, value in step.get("env", {}).items():
            environment[name] = shown(steps.fill(value))
        assert "${{" not in step["run"], "an expression in a script can be made code"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=workspace, env=environment, capture_output=True, text=True, check=False,
            timeout=300,
        )  # fmt: skip
        self.runner.log += [done.stdout, done.stderr]
        steps.contexts["steps"][step.get("id", "")] = {"outputs": outputs_of(output.read_text())}
        return done.returncode == 0

    def _environment(self, workspace: Path, temp: Path, output: Path) -> dict[str, str]:
        ours = ("GITHUB_", "HOSTSIDE_", "RUNNER_")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        world, repo = self.runner.world, self.runner.repo
        return (
            kept
            | {
                "PATH": f"{short_cut(self.runner.folder)}{os.pathsep}{os.environ['PATH']}",
                "RUNNER_TEMP": str(temp),
                "GITHUB_WORKSPACE": str(workspace),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_API_URL": world.url,
                "GITHUB_SERVER_URL": world.url,
                "GITHUB_REPOSITORY": repo.full_name,
                "GITHUB_RUN_ID": str(self.run.id),
                "GITHUB_EVENT_NAME": self.run.event,
                "GITHUB_EVENT_PATH": str(self.event or ""),
                "HOSTSIDE_WRITE_SECONDS": "0",
            }
            | self.runner.environment
        )

    def check_out(self, given: dict[str, Any], workspace: Path) -> bool:
        assert given["persist-credentials"] is False
        assert given["fetch-depth"] == 0
        target = workspace / given["path"]
        source = str(self.runner.repo.git.root)
        for words in (
            ["clone", "--quiet", "--no-checkout", source, str(target)],
            ["-C", str(target), "fetch", "--quiet", "origin", given["ref"]],
            ["-C", str(target), "checkout", "--quiet", "--detach", given["ref"]],
        ):
            done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
            self.runner.log += [done.stderr]
            if done.returncode:
                return False
        return True

    def upload(self, given: dict[str, Any], workspace: Path) -> bool:
        folder = workspace / given["path"]
        files = {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        if not files:
            return given["if-no-files-found"] != "error"
        actions_of(self.runner.world).upload(self.run, files, given["name"])
        return True


_ACTIONS = {"actions/checkout": _Job.check_out, "actions/upload-artifact": _Job.upload}


def outputs_of(text: str) -> dict[str, str]:
    """The outputs that a step wrote, in the form with delimiters."""
    found: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        name, marked, end = line.partition("<<")
        if marked:
            value = list(iter(lambda e=end: _until(lines, e), None))
            found[name] = "\n".join(value)
    return found


def _until(lines: Any, end: str) -> str | None:
    line = next(lines)
    return None if line == end else line


def short_cut(folder: Path) -> Path:
    """A folder with a `python3` whose environments are the one under test."""
    here = folder / "short cut"
    if here.exists():
        return here
    here.mkdir(parents=True)
    python = shutil.which("python3") or sys.executable
    make = f"""#!/bin/sh
if [ "$1 $2 $3" = "-I -m venv" ]; then
  mkdir -p "$4/bin"
  printf '#!/bin/sh\\n[ "$1 $2 $3" = "-I -m pip" ] || exit 9\\n' > "$4/bin/python"
  printf '#!/bin/sh\\nPYTHONPATH={ROOT} exec {sys.executable} -m bot "$@"\\n' > "$4/bin/hostside"
  chmod +x "$4/bin/python" "$4/bin/hostside"
else
  exec {python} "$@"
fi
"""
    (here / "python3").write_text(make)
    (here / "python3").chmod(0o755)
    return here


def shipped(*names: str) -> dict[str, str | bytes | None]:
    """The shipped workflows, where a repository has them."""
    return {f"{FOLDER}/{n}": (ROOT / "deploy" / "workflows" / n).read_text() for n in names}
