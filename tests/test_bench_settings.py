"""`[tool.hostside.bench]`: read from the base, so that a change does not choose how it is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_project import BENCH, GLUE, Project, needs_bubblewrap, started

from bot.cli import main
from bot.config import load

FAST = ("--backend", "cpu", "--rounds", "2", "--seconds", "0.02")


def settings(text: str) -> str:
    return f"[tool.hostside.bench]\n{text}\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A repository whose benchmarks lie in a folder that nothing but its settings names."""
    made = started(tmp_path / "project")
    made.commit(pkg__glue=GLUE, speed__total=BENCH)
    return made


def configure(project: Project, text: str) -> str:
    (project.folder / "pyproject.toml").write_text(settings(text))
    return project.commit()


def run(project: Project, base: str, *more: str) -> int:
    return main(["bench", "run", "--repo", str(project.folder), "--base", base, *FAST, *more])


def test_the_settings_are_read() -> None:
    text = settings('paths = ["speed", "tools/*_speed.py"]\nsandbox = "container"')
    found = load({"pyproject.toml": text}.get)
    assert found.bench_paths == ("speed", "tools/*_speed.py")
    assert found.bench_sandbox == "container"
    assert load({}.get).bench_sandbox == "auto"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param('path = ["speed"]', "there is no key 'bench.path'; did you mean 'paths'?"),
        pytest.param('sandbox = "off"', "bench.sandbox: input should be 'auto'"),
        pytest.param("paths = 3", "bench.paths: input should be a valid list"),
    ],
    ids=["an unknown key", "an unknown sandbox", "no list"],
)
def test_a_mistake_in_them_is_named_with_its_line(
    project: Project, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    base = configure(project, text)
    assert run(project, base) == 2
    error = capsys.readouterr().err
    assert error.startswith("hostside: pyproject.toml:2: ")
    assert said in error


def test_the_list_shows_the_named_places(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["bench", "list", "--repo", str(project.folder)]
    assert main(where) == 0
    assert "no benchmark in this commit" in capsys.readouterr().out
    configure(project, 'paths = ["speed"]')
    assert main(where) == 0
    assert "speed/total.py::bench_total" in capsys.readouterr().out


@pytest.mark.sandbox
@needs_bubblewrap
def test_benchmarks_in_the_places_that_the_base_names_are_run(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    base = configure(project, 'paths = ["speed"]')
    project.commit(pkg__glue=GLUE.replace("0.0", "1.0"))
    assert run(project, base) == 1
    assert "speed/total.py::bench_total" in capsys.readouterr().out


@pytest.mark.sandbox
@needs_bubblewrap
def test_what_the_head_says_of_them_does_not_count(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    base = project.git("rev-parse", "HEAD")
    project.commit(pkg__glue=GLUE.replace("0.0", "0.00"))
    configure(project, 'paths = ["speed"]\nsandbox = "none"')
    assert run(project, base) == 2
    printed = capsys.readouterr()
    assert "the repository has no benchmark" in printed.err
    assert "sandbox bubblewrap" in printed.out


@pytest.mark.sandbox
@needs_bubblewrap
def test_a_repository_cannot_switch_off_a_sandbox_that_works(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    base = configure(project, 'sandbox = "none"')
    assert run(project, base, "--sandbox", "auto") == 2
    assert run(project, base) == 2
    assert capsys.readouterr().out.count("sandbox bubblewrap") == 2


def test_where_no_sandbox_works_a_trusted_repository_is_run_and_it_is_said(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)  # neither bubblewrap nor an engine
    base = project.git("rev-parse", "HEAD")
    assert run(project, base) == 2
    assert "no sandbox works on this machine" in capsys.readouterr().err
    base = configure(project, 'sandbox = "none"\npaths = ["speed"]')
    project.commit(pkg__glue=GLUE.replace("0.0", "1.0"))
    assert run(project, base) == 1
    assert "ran without a sandbox, as the settings asked for" in capsys.readouterr().out


def test_a_container_that_the_repository_asks_for_is_not_replaced(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    base = configure(project, 'sandbox = "container"')
    assert run(project, base) == 2
    assert "no sandbox works on this machine" in capsys.readouterr().err
