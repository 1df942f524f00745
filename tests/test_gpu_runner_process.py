"""The measuring process: its ways to end, each of them a sentence, and nothing left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bench_project import BENCH, GLUE, QUICK, Project, needs_bubblewrap, started
from service_running import wait_until

from bot.errors import BotError
from bot.runner_link import StoppedError
from bot.runner_process import Measuring
from bot.runner_wire import Beat
from gpu_runner.models import BenchReport, BenchRequest
from gpu_runner.records import Backend

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, needs_bubblewrap]
ENDLESS = BENCH.replace("return total(values)", "\n    while True: pass")


def request(directory: Path, bench: str = BENCH) -> BenchRequest:
    project = started(directory / "origin")
    base = project.commit(pkg__glue=GLUE, gpu_bench__bench_total=bench)
    head = project.commit(pkg__glue=GLUE + "\n# faster\n")
    return BenchRequest(
        str(project.folder), base, head, ("bench_total",), backend=Backend.CPU, protocol=QUICK
    )


def measured(
    area: Path, asked: BenchRequest, listen: Callable[[Beat], None] = lambda _: None
) -> BenchReport:
    area.mkdir()
    return Measuring(area).run(asked, listen, threading.Event())


def test_a_report_comes_back_and_progress_on_the_way(tmp_path: Path) -> None:
    beats: list[Beat] = []
    report = measured(tmp_path / "area", request(tmp_path), beats.append)
    assert report.run.environment.sandbox == "bubblewrap"
    assert report.run.benchmarks[0].correct
    assert all(beat.running and beat.total >= beat.done for beat in beats)
    assert beats[-1].done > 1
    assert any("timing head, round 1 of at most 2" in beat.doing for beat in beats)


def test_a_sandbox_that_is_gone_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git").symlink_to("/usr/bin/git")
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(BotError, match=r"no sandbox works .* install bubblewrap"):
        measured(tmp_path / "area", asked)


FULL = """
import sys, threading
from pathlib import Path
from bot.errors import BotError
from bot.runner_process import Measuring
from gpu_runner.models import BenchRequest
try:
    asked = BenchRequest.from_json(Path(sys.argv[2]).read_text())
    Measuring(Path(sys.argv[1])).run(asked, lambda beat: None, threading.Event())
except BotError as problem:
    print(problem)
"""


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    asked = request(tmp_path)
    project = Project(tmp_path / "origin")
    (project.folder / "data.bin").write_bytes(os.urandom(1 << 20))
    asked = replace(asked, head=project.commit())
    (tmp_path / "request").write_text(asked.to_json())
    for name in ("area", "small"):
        (tmp_path / name).mkdir()
    small = str(tmp_path / "small")
    box = ("bwrap", "--dev-bind", "/", "/", "--size", str(1 << 18), "--tmpfs", small)
    done = subprocess.run(
        [*box, sys.executable, "-c", FULL, tmp_path / "area", tmp_path / "request"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1],
        env=os.environ | {"TMPDIR": small},
    )  # fmt: skip
    assert "this machine has no room" in done.stdout, done.stdout + done.stderr


def test_a_process_that_dies_is_a_sentence(tmp_path: Path) -> None:
    asked = request(tmp_path, ENDLESS)

    def kill(_: Beat) -> None:
        for pid in measuring_processes():
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(BotError, match="ended with code -9 and without a report"):
        measured(tmp_path / "area", asked, kill)


def measuring_processes() -> list[int]:
    """Those of this test process."""
    found: list[int] = []
    for task in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for pid in map(int, task.read_text().split()):
            if b"runner_measure" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def test_what_is_not_wanted_any_more_is_killed_whole(tmp_path: Path) -> None:
    asked, over, seen = request(tmp_path, ENDLESS), threading.Event(), list[int]()

    def cancel(_: Beat) -> None:
        seen.extend(measuring_processes())
        over.set()

    (tmp_path / "area").mkdir()
    with pytest.raises(StoppedError):
        Measuring(tmp_path / "area").run(asked, cancel, over)
    assert seen
    assert measuring_processes() == []


def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    asked = request(tmp_path, ENDLESS)
    (tmp_path / "request").write_text(asked.to_json())
    code = (
        "import sys, threading; from pathlib import Path\n"
        "from bot.runner_process import Measuring; from gpu_runner.models import BenchRequest\n"
        "area, asked = Path(sys.argv[1]), BenchRequest.from_json(open(sys.argv[2]).read())\n"
        "tell = lambda beat: print(beat.doing, flush=True)\n"
        "Measuring(area).run(asked, tell, threading.Event())\n"
    )
    (tmp_path / "area").mkdir()
    starter = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "area"), str(tmp_path / "request")],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1],
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert starter.stdout is not None
    assert "checking" in starter.stdout.readline()
    mark = str(tmp_path)  # also the measuring process's temporary folder
    wait_until(lambda: len(processes_about(mark)) > 1, "a box is open")
    starter.kill()
    starter.wait()
    starter.stdout.close()
    wait_until(lambda: not processes_about(mark), "nothing is left")


def processes_about(mark: str) -> list[int]:
    """Processes whose command line names this folder: the boxes' too."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if int(folder.name) != os.getpid() and mark in line:
            found.append(int(folder.name))
    return found


def test_the_code_sees_none_of_the_runner_s_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTSIDE_RUNNER_TOKEN", "hush-hush")
    spy = BENCH.replace(
        "def bench_total",
        "import os\nassert 'hush-hush' not in str(os.environ), 'it is there'\n\ndef bench_total",
    )
    report = measured(tmp_path / "area", request(tmp_path, spy))
    assert report.run.problem is None
    assert report.run.benchmarks[0].correct
