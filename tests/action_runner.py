"""A runner of composite actions, as small as `action.yml` allows: expressions, files, a shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PARTS = ("analyzers", "bot", "gpu_runner", "deploy", "action.yml", "pyproject.toml", "README.md",
         "LICENSE")  # fmt: skip
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")


def action_copy(directory: Path) -> Path:
    """The repository as a runner downloads it."""
    made = directory / "_actions" / "hostside copy"
    made.mkdir(parents=True)
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, made / name, ignore=ignored)
        else:
            shutil.copy(source, made / name)
    return made


@dataclass
class Runner:
    """Does the steps of one action in one workspace."""

    action: Path
    workspace: Path
    directory: Path
    environment: dict[str, str]
    log: str = ""
    summary: str = ""
    outcomes: list[int] = field(default_factory=list)

    def use(self, **given: str) -> dict[str, str]:
        """Run the action with these inputs; its outputs."""
        described = yaml.safe_load((self.action / "action.yml").read_text())
        inputs = {name: str(one.get("default", "")) for name, one in described["inputs"].items()}
        inputs |= {name.replace("_", "-"): value for name, value in given.items()}
        context = {f"inputs.{name}": value for name, value in inputs.items()}
        context["github.token"] = self.environment.get("TOKEN", "")
        context = {name: _filled(value, context) for name, value in context.items()}
        extra: dict[str, str] = {}
        for number, step in enumerate(described["runs"]["steps"]):
            self._step(step, number, context, extra)
            if self.outcomes[-1]:
                break
        outputs = described["outputs"].items()
        return {name: _filled(one["value"], context) for name, one in outputs}

    def _step(
        self, step: dict[str, Any], number: int, context: dict[str, str], extra: dict[str, str]
    ) -> None:
        assert set(step) <= {"name", "id", "shell", "env", "run"}, "only what this runner knows"
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an expression in a script is an injection"
        files = {}
        for name in ("OUTPUT", "STEP_SUMMARY", "ENV", "PATH", "STATE"):
            file = self.directory / f"{number}-{name.lower()}"
            file.touch()
            files[f"GITHUB_{name}"] = str(file)
        script = self.directory / f"{number}.sh"
        script.write_text(step["run"])
        told = {name: _filled(str(value), context) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
            cwd=self.workspace, capture_output=True, text=True, check=False,
            env=self.environment | extra | files | told | {"GITHUB_ACTION_PATH": str(self.action)},
        )  # fmt: skip
        self.log += done.stdout + done.stderr
        self.outcomes.append(done.returncode)
        self.summary += Path(files["GITHUB_STEP_SUMMARY"]).read_text()
        for name, value in pairs(Path(files["GITHUB_OUTPUT"]).read_text()).items():
            context[f"steps.{step['id']}.outputs.{name}"] = value
        extra |= pairs(Path(files["GITHUB_ENV"]).read_text())
        assert Path(files["GITHUB_PATH"]).read_text() == ""


def _filled(text: str, context: dict[str, str]) -> str:
    return _EXPRESSION.sub(lambda match: context.get(match[1], ""), text)


def pairs(text: str) -> dict[str, str]:
    """`name=value` and `name<<END … END`, as the runner reads them."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if match := re.fullmatch(r"([\w-]+)<<(\S+)", line):
            value: list[str] = []
            for inner in lines:
                if inner == match[2]:
                    break
                value.append(inner)
            found[match[1]] = "\n".join(value)
        else:
            name, _, given = line.partition("=")
            found[name] = given
    return found


def bare_environment() -> dict[str, str]:
    """This machine's environment less what a virtual environment or Hostside adds to it."""
    dropped = ("HOSTSIDE_", "GITHUB_", "RUNNER_", "VIRTUAL_ENV", "PYTHON")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    inside = str(ROOT / ".venv" / "bin")
    path = [part for part in kept["PATH"].split(os.pathsep) if part != inside]
    return kept | {"PATH": os.pathsep.join(path)}
