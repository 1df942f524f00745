"""One benchmark in a process of its own, which can be ended whole: `python -m bot.runner_measure`.

It is told on standard input what to measure, and says on standard output, a line of JSON each time,
how far it is. It ends with the process that started it, and its sandbox ends with it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import TextIO

from bot.lifeline import die_with_parent
from gpu_runner.bench import Progress, Settings, run_bench
from gpu_runner.errors import RunnerError
from gpu_runner.models import BenchRequest
from gpu_runner.plain import one_line

_LEAST_ROOM = 1 << 20


@dataclass(frozen=True)
class Assignment:
    """What the process is told."""

    request: str  # JSON
    report: str  # where the report goes
    traces: str  # folder for raw traces
    parent: int
    python: str = ""
    image: str = ""

    @property
    def text(self) -> str:
        """This as JSON."""
        return json.dumps(asdict(self))


def main() -> int:
    """Measure; 0 also when there is a problem that could be said."""
    said = sys.stdout
    sys.stdout = sys.stderr  # only our own lines go there
    told = Assignment(**json.load(sys.stdin))
    die_with_parent(told.parent)
    signal.signal(signal.SIGTERM, _leave)
    try:
        _measure(told, said)
    except (RunnerError, OSError) as problem:
        _line(said, problem=_sentence(problem))
    return 0


def _sentence(problem: RunnerError | OSError) -> str:
    """What to say of it; git tells a full disk in many words, and none of them is "full"."""
    text = one_line(str(problem))
    full = "no space left" in text.lower() or "unable to write file" in text
    if full or shutil.disk_usage(tempfile.gettempdir()).free < _LEAST_ROOM:
        return "this machine has no room to work; make some in its temporary folder and ask again"
    if isinstance(problem, OSError):
        what = problem.strerror or type(problem).__name__
        return f"the machine could not go on ({what}); its runner's log may say more"
    return text


def _measure(told: Assignment, said: TextIO) -> None:
    def listen(progress: Progress) -> None:
        _line(said, done=progress.done, total=progress.total, doing=one_line(progress.doing, 200))

    settings = Settings(
        Path(told.python) if told.python else None, told.image or None, Path(told.traces)
    )
    report = run_bench(BenchRequest.from_json(told.request), settings, listen)
    Path(told.report).write_text(report.to_json(), encoding="utf-8")


def _line(said: TextIO, **facts: object) -> None:
    print(json.dumps(facts), file=said, flush=True)


def _leave(_: int, __: FrameType | None) -> None:
    raise SystemExit(os.EX_TEMPFAIL)  # worktrees and boxes are put away on the way out


if __name__ == "__main__":
    sys.exit(main())
