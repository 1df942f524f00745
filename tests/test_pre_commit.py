"""The commit hooks that other repositories take from this one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bot.cli import main
from tests.repository import Repository, make_repository

ROOT = Path(__file__).parents[1]
HOOKS = ROOT / ".pre-commit-hooks.yaml"
FAULTY = "import torch\n\n\ndef f(n):\n    return torch.zeros(n).cuda()\n"
GPU = "import torch\n"

Capture = pytest.CaptureFixture[str]


def hooks() -> dict[str, dict[str, Any]]:
    clientlib = pytest.importorskip("pre_commit.clientlib", reason="pip install pre-commit")
    return {hook["id"]: hook for hook in clientlib.load_manifest(str(HOOKS))}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / ".git" / "pre-commit"))
    return make_repository(tmp_path)


def entry(hook: str, *files: str) -> list[str]:
    """The command that pre-commit runs for these files, without the program's name."""
    found = hooks()[hook]
    name, *arguments = found["entry"].split()
    assert name == "hostside"
    return [*arguments, *found["args"], *(files if found["pass_filenames"] else ())]


def test_the_hooks_are_valid_and_ask_only_for_python() -> None:
    found = hooks()
    assert set(found) == {"hostside", "hostside-staged"}
    assert all(hook["types"] == ["python"] for hook in found.values())
    assert all(hook["require_serial"] for hook in found.values())


def test_the_hook_checks_the_files_it_is_given(repository: Repository, capfd: Capture) -> None:
    repository.commit({"a.py": FAULTY, "b.py": FAULTY, "c.py": "x = 1\n"})
    assert main(entry("hostside", "a.py", "c.py")) == 1
    assert "b.py" not in capfd.readouterr().out
    assert main(entry("hostside", "c.py")) == 0


def test_the_staged_hook_sees_only_what_the_commit_brings(
    repository: Repository, capfd: Capture
) -> None:
    repository.commit({"a.py": FAULTY, "b.py": GPU})
    repository.write("a.py", FAULTY + "\nx = 1\n")
    repository.git("add", "--all")
    assert main(entry("hostside-staged", "a.py")) == 0
    repository.write("b.py", FAULTY)
    assert main(entry("hostside-staged", "a.py")) == 0, "it is not staged"
    repository.git("add", "--all")
    assert main(entry("hostside-staged", "a.py", "b.py")) == 1
    capfd.readouterr()


def test_the_staged_hook_works_before_there_is_a_commit(tmp_path: Path, capfd: Capture) -> None:
    run = ("git", "-C", str(tmp_path))
    subprocess.run([*run, "init", "--quiet"], check=True)
    (tmp_path / "a.py").write_text(
        "import torch\n\n\ndef f(n):\n    return torch.zeros(n).cuda()\n"
    )
    subprocess.run([*run, "add", "a.py"], check=True)
    command = ["review", "--repo", str(tmp_path), "--base", "HEAD", "--staged"]
    assert main(command) == 1
    assert "a.py:5:12 GPU201" in capfd.readouterr().out


@pytest.mark.parametrize("hook", ["hostside", "hostside-staged"])
def test_a_commit_without_gpu_code_loads_neither_engine_nor_settings(
    repository: Repository, hook: str
) -> None:
    repository.commit({"pyproject.toml": "[tool.hostside]\nignore = ['GPU1']\n", "a.py": ""})
    repository.write("a.py", "x = 1\n")
    repository.git("add", "--all")
    program = (
        "import sys; from bot.cli import main; code = main(sys.argv[1:]); "
        "heavy = {'analyzers.engine', 'libcst', 'pydantic', 'rich', 'analyzers.rules'}; "
        "print(sorted(heavy & set(sys.modules))); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *entry(hook, "a.py")],
        cwd=repository.root, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]", "these cost most of half a second"


def precommit(repository: Repository, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("pre-commit", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("needs pre-commit: pip install pre-commit")
    return subprocess.run(
        [program, *arguments], cwd=repository.root, capture_output=True, text=True, check=False
    )


def test_pre_commit_itself_runs_the_hook_on_a_commit(repository: Repository) -> None:
    hook = hooks()["hostside"]
    line = f"{sys.executable} -m bot {' '.join(entry('hostside'))}"
    repository.commit(
        {
            ".pre-commit-config.yaml": (
                "repos:\n- repo: local\n  hooks:\n  - id: hostside\n    name: hostside\n"
                f"    entry: env PYTHONPATH={ROOT} {line}\n    language: system\n"
                f"    types: {hook['types']}\n    require_serial: true\n"
            ),
            "old.py": FAULTY,
        }
    )
    repository.write("a.py", GPU)
    repository.write("notes.md", "import torch\n")
    repository.git("add", "--all")
    done = precommit(repository, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed" in done.stdout
    done = precommit(repository, "run", "--all-files")
    assert done.returncode == 1
    assert "old.py:5:12 GPU201" in done.stdout


@pytest.mark.slow
def test_pre_commit_installs_this_repository_and_runs_its_hook(
    repository: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs a clone of this repository: git clone … && make test")
    clone = tmp_path_factory.mktemp("hooks") / "hostside"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    here = Repository(clone)
    for path in ("bot", "analyzers", "gpu_runner", ".pre-commit-hooks.yaml", "pyproject.toml"):
        source, target = ROOT / path, clone / path
        if source.is_dir():
            shutil.rmtree(target)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    revision = here.commit()
    repository.commit(
        {
            ".pre-commit-config.yaml": (
                f"repos:\n- repo: {clone}\n  rev: {revision}\n  hooks:\n  - id: hostside\n"
            )
        }
    )
    repository.write("a.py", FAULTY)
    repository.git("add", "--all")
    done = precommit(repository, "run")
    if done.returncode == 3 and "pip" in done.stdout:  # it could not build the environment
        pytest.skip("needs the package registry: pip download libcst")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "a.py:5:12 GPU201" in done.stdout
    repository.write("a.py", GPU)
    repository.git("add", "--all")
    done = precommit(repository, "run")
    assert done.returncode == 0, done.stdout
