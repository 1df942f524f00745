"""How fast and how large Hostside is, as ratios measured in one run on one machine.

    python benchmarks/speed.py TREE [--rounds 3] [--rival PATH/TO/hotpath]

Compares `hostside check TREE` with the least that any such tool must do: read every Python file and
`ast.parse` those that the prefilter lets through. Alternates the two, so that a busy machine slows
both, and takes the median of the rounds. Then the start times, and a commit without GPU code.
Programs run from bytecode, as installed ones do: it lies in a folder of this run's own, and a first
round that fills it isn't counted.
"""

from __future__ import annotations

import argparse
import ast
import atexit
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOSTSIDE = [sys.executable, "-m", "bot"]
SKIPPED = {".git", ".venv", "venv", "node_modules", "__pycache__", ".tox", "build", "dist"}
PAUSE = 0.02  # seconds between two looks at the memory
GOALS = {"ratio": 3.0, "memory": 400.0, "version": 0.2, "commit": 0.4}


@dataclass(frozen=True)
class Cost:
    """What one run of a command took."""

    wall: float  # seconds
    cpu: float  # seconds on all cores, children included
    peak: float  # MB of all its processes together, shared pages counted once

    @property
    def cores(self) -> float:
        """How many cores were busy on average."""
        return self.cpu / self.wall


def bare(tree: Path) -> None:
    """The least that any such tool must do; run in a process of its own."""
    from analyzers.prefilter import mentions_gpu

    warnings.simplefilter("ignore")
    files = parsed = lines = 0
    for path in python_files(tree):
        data = path.read_bytes()
        files, lines = files + 1, lines + data.count(b"\n")
        if mentions_gpu(data):
            with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                ast.parse(data)
                parsed += 1
    print(f"{files} files, {lines:,} lines, {parsed} of the files may concern a GPU")


def python_files(tree: Path) -> Sequence[Path]:
    """Every Python file of the tree, links and tool folders left out."""
    found: list[Path] = []
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        paths = (Path(folder, name) for name in sorted(names) if name.endswith(".py"))
        found += [path for path in paths if path.is_file() and not path.is_symlink()]
    return found


def cost_of(command: Sequence[str], folder: Path = ROOT, watched: bool = False) -> Cost:
    """What the command costs; exit codes 0 and 1 count as success.

    Its memory is known only if it was `watched`, and its time is then of no use: the watcher holds
    a core, and the pages of whomever it looks at.
    """
    start = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors, env=_environment()
        )
        peak = _Peak(process.pid) if watched else None
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            errors.seek(0)
            sys.exit(f"{' '.join(command)} answered {process.returncode}: {errors.read(2000)!r}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, peak.stop() if peak else 0.0)


def _environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    own = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": _bytecode()}
    return {**kept, **own}


@cache
def _bytecode() -> str:
    folder = tempfile.TemporaryDirectory(prefix="hostside-speed-")
    atexit.register(folder.cleanup)
    return folder.name


class _Peak:
    """Watches the memory of a process and of its descendants until it is stopped."""

    def __init__(self, pid: int) -> None:
        self._pid, self._peak, self._done = pid, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """The largest sum seen, in MB."""
        self._done.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._done.wait(PAUSE):
            self._peak = max(self._peak, sum(_megabytes(pid) for pid in _family(self._pid)))


def _family(pid: int) -> list[int]:
    """The process and its descendants."""
    members = [pid]
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                members += _family(int(child))
    return members


def _megabytes(pid: int) -> float:
    """The process's proportional share of memory: what it shares with others is divided up."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each part."""
    return Cost(
        statistics.median(cost.wall for cost in costs),
        statistics.median(cost.cpu for cost in costs),
        0.0,
    )


def whole_tree(tree: Path, rounds: int, rival: str | None) -> None:
    """Compares the check of a tree with a bare parse, and with the nearest other tool."""
    commands = {
        "bare parse": [sys.executable, __file__, "--bare", str(tree)],
        "hostside check": [*HOSTSIDE, "check", str(tree), "--format", "json", "--exit-zero"],
    }
    if rival:
        commands["hotpath-ai"] = [rival, "analyze", str(tree)]
    print(subprocess.run(commands["bare parse"], env=_environment(), check=True, text=True,
                         stdout=subprocess.PIPE).stdout.strip())  # fmt: skip
    seen: dict[str, list[Cost]] = {name: [] for name in commands}
    peaks = {name: cost_of(command, watched=True).peak for name, command in commands.items()}
    for _ in range(rounds):
        for name, command in commands.items():
            seen[name].append(cost_of(command))
    costs = {name: replace(median(runs), peak=peaks[name]) for name, runs in seen.items()}
    for name, cost in costs.items():
        print(
            f"{name:16s} {cost.wall:7.2f} s wall {cost.cpu:7.2f} s CPU "
            f"{cost.cores:4.1f} cores {cost.peak:6.0f} MB"
        )
    ours, least = costs["hostside check"], costs["bare parse"]
    say("wall time, times a bare parse on one core", ours.wall / least.wall, GOALS["ratio"])
    say("CPU time, times a bare parse", ours.cpu / least.cpu, None)
    say("peak memory of all processes, MB", ours.peak, GOALS["memory"])
    if rival:
        say("wall time, times hotpath-ai", ours.wall / costs["hotpath-ai"].wall, 1.0)


def say(what: str, value: float, goal: float | None) -> None:
    """One line: the number, and whether it is within its goal."""
    verdict = "" if goal is None else f"(goal {goal:g}: {'met' if value <= goal else 'MISSED'})"
    print(f"  {what}: {value:.2f} {verdict}")


def starts(rounds: int) -> None:
    """The time until the version is printed."""
    runs = [cost_of([*HOSTSIDE, "--version"]).wall for _ in range(rounds)]
    say("hostside --version, seconds", statistics.median(runs), GOALS["version"])


def plain_commit(rounds: int) -> None:
    """The time for the review of a commit that touches no GPU code, start included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        git = _git(folder)
        git("init", "-q", "-b", "main")
        module = folder / "words.py"
        module.write_text("def count(words):\n    return len(words)\n" * 200)
        git("add", ".")
        git("commit", "-q", "-m", "first")
        module.write_text(module.read_text() + "\n\ndef longest(words):\n    return max(words)\n")
        git("commit", "-q", "-a", "-m", "second")
        command = [*HOSTSIDE, "review", "--base", "HEAD~1", "--head", "HEAD"]
        runs = [cost_of(command, folder).wall for _ in range(rounds)]
    say("a commit without GPU code, seconds", statistics.median(runs), GOALS["commit"])


def _git(folder: Path) -> Callable[..., None]:
    who = ["-c", "user.name=speed", "-c", "user.email=speed@example.invalid"]

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True)

    return git


def main() -> None:
    """Reads the command line and prints the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tree", type=Path, help="a checkout with GPU code, the larger the better")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--rival", default=shutil.which("hotpath"), help="the program of hotpath-ai, if installed"
    )
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        sys.path.insert(0, str(ROOT))
        bare(arguments.tree)
        return
    whole_tree(arguments.tree, arguments.rounds, arguments.rival)
    starts(max(5, arguments.rounds))
    plain_commit(max(5, arguments.rounds))


if __name__ == "__main__":
    main()
