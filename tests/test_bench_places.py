"""Where a benchmark may be started, what it reads there, and that nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench_project import BENCH, GLUE, Project, needs_bubblewrap, started

from bot.cli import main
from gpu_runner.errors import RunnerError
from gpu_runner.scratch import OWNER, scratch
from gpu_runner.tree import Repository, TreeError

FAST = ("--backend", "cpu", "--rounds", "2", "--seconds", "0.02")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return started(tmp_path / "project")


def benched(project: Project) -> Project:
    project.commit(pkg__glue=GLUE, gpu_bench__bench_total=BENCH)
    project.commit(pkg__glue=GLUE.replace("0.0", "0.00"))
    return project


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one sentence with which the command ends."""
    assert main(["bench", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_a_folder_without_a_repository_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (("list",), ("run", "--base", "HEAD")):
        said = refused(capsys, *arguments, "--repo", str(tmp_path))
        assert f"{tmp_path} is not in a git repository" in said


def test_a_folder_that_does_not_exist_and_a_file_are_no_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for name in ("absent", "file"):
        assert "is not a folder" in refused(capsys, "list", "--repo", str(tmp_path / name))


def test_a_repository_without_a_commit_says_so(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "run", "--base", "HEAD", "--repo", str(project.folder))
    assert "has no commit yet" in said


def test_without_git_its_absence_is_what_is_said(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project.commit(pkg__glue=GLUE)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "git is not installed" in refused(capsys, "list", "--repo", str(project.folder))


@pytest.mark.parametrize("inside", ["pkg", "gpu_bench", ".git"])
def test_any_folder_of_the_checkout_means_the_whole_of_it(project: Project, inside: str) -> None:
    head = benched(project).git("rev-parse", "HEAD")
    found = Repository.around(project.folder / inside)
    assert found.resolve("HEAD") == head
    assert "gpu_bench/bench_total.py" in found.files(head)
    assert [each.path for each in found.changes(f"{head}~1", head)] == ["pkg/glue.py"]


def test_a_bare_repository_is_one_too(project: Project, tmp_path: Path) -> None:
    head = benched(project).git("rev-parse", "HEAD")
    project.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    assert Repository.around(tmp_path / "bare.git").resolve("HEAD") == head


def test_what_git_tells_its_hooks_does_not_lead_us_elsewhere(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = benched(project).git("rev-parse", "HEAD")
    other = started(tmp_path / "other")
    other.commit(pkg__glue=GLUE)
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert Repository.around(project.folder).resolve("HEAD") == head


def test_changes_in_files_with_accents_and_odd_settings_are_seen(project: Project) -> None:
    project.git("config", "diff.noprefix", "true")
    before = project.commit(paket__größe=GLUE)
    after = project.commit(paket__größe=GLUE.replace("0.0", "0.00"))
    found = Repository.around(project.folder).changes(before, after)
    assert [each.path for each in found] == ["paket/größe.py"]


def test_a_line_separator_in_a_changed_line_cannot_name_another_file(project: Project) -> None:
    before = project.commit(pkg__glue=GLUE)
    forged = 'x = "\u2028diff --git a/other.py b/other.py\u2028+++ b/other.py\u2028"\n'
    after = project.commit(pkg__glue=forged + GLUE)
    found = Repository.around(project.folder).changes(before, after)
    assert [each.path for each in found] == ["pkg/glue.py"]


def test_names_that_a_terminal_would_act_on_are_left_out(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.commit(gpu_bench__a=BENCH)
    for name in (b"\x1b[31mred.py", b"two\nlines.py", b"latin-\xe9.py"):
        (Path(os.fsdecode(bytes(project.folder / "gpu_bench") + b"/" + name))).write_text(BENCH)
    project.commit()
    assert main(["bench", "list", "--repo", str(project.folder)]) == 0
    assert capsys.readouterr().out == "gpu_bench         gpu_bench/a.py::bench_total\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--patch", "/dev/zero"], "is empty or larger than 1 MiB", id="endless patch"),
        pytest.param(["--patch", "/"], "cannot be read: Is a directory", id="patch folder"),
        pytest.param(["-o", "/nonexistent/report"], "cannot be written", id="report"),
        pytest.param(["-o", "x" * 300], "cannot be written: File name too long", id="long report"),
        pytest.param(["--repo", "x" * 300], "cannot be read: File name too long", id="long folder"),
        pytest.param(["--patch", "x" * 300], "cannot be read: File name too long", id="long patch"),
        pytest.param(["--python", "x" * 300], "name one with --python", id="long interpreter"),
        pytest.param(["--backend", "cpu", "--gpu", "H100"], "uses no GPU", id="gpu of a cpu"),
        pytest.param(["--seconds", "nan"], "--seconds must be from", id="not a number"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_measured(
    project: Project, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    benched(project)
    start = time.monotonic()
    where = ("--repo", str(project.folder), "--base", "HEAD~1", *arguments)
    assert said in refused(capsys, "run", *where)
    assert time.monotonic() - start < 5


@pytest.mark.sandbox
@needs_bubblewrap
def test_a_target_that_is_not_there_is_not_replaced_by_all_there_is(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    benched(project)
    where = ("--repo", str(project.folder), "--base", "HEAD", *FAST)
    assert "there is no benchmark 'other'" in refused(capsys, "run", "other", *where)


def test_a_scratch_folder_goes_with_its_run_and_those_of_dead_runs_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead, being_made = tmp_path / "run-dead", tmp_path / "run-being-made"
    dead.mkdir()
    (dead / OWNER).touch()
    being_made.mkdir()
    with scratch("run-") as first, scratch("run-") as second:
        assert sorted(tmp_path.iterdir()) == sorted([being_made, first, second])
    assert list(tmp_path.iterdir()) == [being_made]


def test_without_a_temporary_folder_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    with pytest.raises(RunnerError, match="set TMPDIR"), scratch("run-"):
        pass


@pytest.mark.sandbox
@needs_bubblewrap
@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(signal.SIGINT, 130, id="Ctrl-C", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, id="a stopped service"),
        pytest.param(signal.SIGHUP, 129, id="a closed terminal", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_stopped_leaves_nothing_behind(
    project: Project, tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    running = begun(benched(project), tmp_path)
    running.send_signal(sent)
    out, error = running.communicate(timeout=60)
    assert (running.returncode, out, error) == (code, b"", b"")
    assert list((tmp_path / "scratch").iterdir()) == []
    assert len(project.git("worktree", "list").splitlines()) == 1


@pytest.mark.slow
@pytest.mark.sandbox
@needs_bubblewrap
def test_what_a_killed_run_left_is_cleared_by_the_next(project: Project, tmp_path: Path) -> None:
    running = begun(benched(project), tmp_path)
    running.kill()
    running.communicate(timeout=60)
    assert len(project.git("worktree", "list").splitlines()) == 3
    subprocess.run(command(project, "2"), check=True, capture_output=True, env=place(tmp_path))
    assert list((tmp_path / "scratch").iterdir()) == []
    assert len(project.git("worktree", "list").splitlines()) == 1


def test_a_worktree_whose_disk_is_away_stays_on_the_list(project: Project, tmp_path: Path) -> None:
    head = benched(project).git("rev-parse", "HEAD")
    project.git("worktree", "add", "-q", "--detach", str(tmp_path / "away"))
    (tmp_path / "away").rename(tmp_path / "unmounted")
    with Repository.around(project.folder).laid_out([("base", head)]):
        pass
    assert "away" in project.git("worktree", "list")


def test_a_patch_that_does_not_apply_says_no_path_of_ours(project: Project) -> None:
    head = benched(project).git("rev-parse", "HEAD")
    repository = Repository.around(project.folder)
    with repository.laid_out([("suggestion", head)]) as trees, pytest.raises(TreeError) as caught:
        repository.apply(trees["suggestion"], "no patch at all")
    assert "hostside-bench-" not in str(caught.value)


def command(project: Project, rounds: str) -> list[str]:
    where = ["--repo", str(project.folder), "--base", "HEAD~1", "--seconds", "0.02"]
    start = [sys.executable, "-m", "bot", "bench", "run"]
    return [*start, *where, "--backend", "cpu", "--rounds", rounds]


def place(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "scratch"
    folder.mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(folder)}


def begun(project: Project, tmp_path: Path) -> subprocess.Popen[bytes]:
    """A long run that has laid out its trees and is measuring."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a child started in a job ignores it
    outer = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nor does one under nohup hear of it
    running = subprocess.Popen(
        command(project, "60"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=place(tmp_path),
    )
    signal.signal(signal.SIGHUP, outer)
    patience = time.monotonic() + 60
    while len(project.git("worktree", "list").splitlines()) < 3 and time.monotonic() < patience:
        time.sleep(0.05)
    time.sleep(0.5)
    return running
