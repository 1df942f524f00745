"""The measuring process as its runner sees it: started, listened to, ended whole."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bot.errors import BotError
from bot.runner_link import StoppedError
from bot.runner_measure import Assignment
from bot.runner_source import git_environment
from bot.runner_wire import Beat
from gpu_runner.errors import FormatError
from gpu_runner.models import BenchReport, BenchRequest
from gpu_runner.plain import one_line
from gpu_runner.wire import LARGEST

_LOOK_SECONDS = 0.2
_GRACE = 10.0  # to put away boxes and worktrees
_SLACK = 900.0  # beyond the request's own limit, for builds and traces


@dataclass
class Measuring:
    """One process; its report and its traces are files of `area`."""

    area: Path
    python: Path | None = None
    image: str = ""
    _problem: str = ""

    @property
    def traces(self) -> Path:
        """Where it leaves the raw traces."""
        return self.area / "traces"

    def run(
        self, request: BenchRequest, listen: Callable[[Beat], None], over: threading.Event
    ) -> BenchReport:
        """The report; a BotError says why there is none, a StoppedError that nobody wants it."""
        report = self.area / "report.json"
        told = Assignment(
            request.to_json(),
            str(report),
            str(self.traces),
            os.getpid(),
            str(self.python or ""),
            self.image,
        )
        most = request.limits.run_seconds
        process = self._started(told)
        reader = threading.Thread(target=self._listen, args=(process, listen, most), daemon=True)
        reader.start()
        until = time.monotonic() + most + _SLACK
        try:
            while process.poll() is None:
                if over.wait(_LOOK_SECONDS):
                    raise StoppedError("the benchmark is not wanted any more")
                if time.monotonic() > until:
                    raise BotError(f"it took longer than {most + _SLACK:.0f} s in all")
        finally:
            _end(process)
            reader.join(timeout=_GRACE)
        return self._read(report, process.returncode)

    def _started(self, told: Assignment) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "bot.runner_measure"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(),
            start_new_session=True,
        )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(told.text)
        return process

    def _listen(
        self, process: subprocess.Popen[str], listen: Callable[[Beat], None], most: float
    ) -> None:
        assert process.stdout is not None
        begun = time.monotonic()
        with process.stdout:
            for line in process.stdout:
                said = json.loads(line)
                if "problem" in said:
                    self._problem = said["problem"]
                    continue
                took = time.monotonic() - begun
                left = took / said["done"] * (said["total"] - said["done"]) if said["done"] else 0
                left = round(max(0.0, min(left, most - took)), 1)
                doing = one_line(said["doing"], 200)
                listen(
                    Beat(
                        done=said["done"],
                        total=said["total"],
                        doing=doing,
                        seconds_left=left,
                        running=True,
                    )
                )

    def _read(self, report: Path, code: int) -> BenchReport:
        if self._problem:
            raise BotError(self._problem)
        try:
            if report.stat().st_size > LARGEST:
                raise BotError("the result is too large; name fewer benchmarks")
            return BenchReport.from_json(report.read_bytes())
        except FileNotFoundError:
            raise BotError(
                f"the measuring process ended with code {code} and without a report; "
                "the runner's log says more"
            ) from None
        except FormatError as problem:
            raise BotError(f"the measuring process wrote a broken report: {problem}") from None


def _environment() -> dict[str, str]:
    """Ours without our secrets, and with nobody's git settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOSTSIDE_")}
    told = git_environment()
    del told["HOME"]
    return {**kept, **told}


def _end(process: subprocess.Popen[str]) -> None:
    """First politely, so that it puts its boxes away; then for certain, with all its children."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
