"""`hostside gpu-runner` as a process of this machine, and a pull request that has a benchmark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from service_running import Service, children, wait_until

from bot.bench_work import BenchState, Order, Stage
from bot.benches import Benches
from tests.standin.model import Pull
from tests.standin.world import World

TOKEN = "a runner's token of the tests"
GLUE = """\
def total(values):
    found = 0.0
    for value in values:
        found += value * value
    return found
"""
FASTER = "def total(values):\n    return sum(value * value for value in values)\n"
BENCH = """\
import random
from pkg.glue import total


def setup_total(seed=0):
    source = random.Random(seed)
    return ([source.random() for _ in range(2_000)],)


def bench_total(values):
    return total(values)
"""
SLOW = BENCH.replace("    return total", "    import time\n    time.sleep(0.4)\n    return total")
MODEL = """\
from gpu_runner.recording import Memory, Work
from pkg.glue import total


def model_copies(gpu):
    total([1.0])
    gpu.copy(Work.H2D, 1 << 20, Memory.PINNED, gpu.stream(blocking=False))
    gpu.launch("scale", 20_000, gpu.stream(blocking=False))
    gpu.synchronize()
"""


def open_benched(world: World, bench: str = BENCH, name: str = "acme/glue") -> Pull:
    """A pull request whose repository has a benchmark of what it changes."""
    files: dict[str, str | bytes | None] = {
        "pkg/__init__.py": "", "pkg/glue.py": GLUE,
        "gpu_bench/bench_total.py": bench, "gpu_bench/model_copies.py": MODEL,
    }  # fmt: skip
    repo = world.repository(name, files)
    repo.roles["ada"] = "write"
    world.install([repo])
    return world.open_pull(repo, {"pkg/glue.py": FASTER})


def order_of(world: World, pull: Pull, **more: object) -> Order:
    """What `/gpu-bench` would ask for, as quickly as it can be had."""
    installation = world.installation_of(pull.repo)
    assert installation is not None
    asked = Order(
        pull.repo.full_name, pull.number, installation.id, pull.base_sha, pull.head_sha, "ada",
        comment=1, rounds=2, targets=("bench_total",),
    )  # fmt: skip
    return replace(asked, **more)


def put_in(service: Service, order: Order, key: str = "k") -> BenchState:
    """The benchmark, ordered behind GitHub's back."""
    with table(service) as benches:
        made = benches.order(order, key)
        assert isinstance(made, BenchState)
        return made


@contextmanager
def table(service: Service) -> Generator[Benches]:
    """The table of benchmarks, from outside."""
    store = service.store()
    try:
        yield Benches(store)
    finally:
        store.close()


def state(service: Service, bench: BenchState) -> BenchState:
    """How it stands now."""
    with table(service) as benches:
        return benches.get(bench.id)


def until(service: Service, bench: BenchState, *stages: Stage, patience: float = 180) -> BenchState:
    """Wait until it is in one of these stages."""
    detail = lambda: state(service, bench)  # noqa: E731
    wait_until(lambda: state(service, bench).stage in stages, f"it is {stages}", patience, detail)
    return state(service, bench)


@dataclass
class RunnerProcess:
    """A runner under test."""

    service: Service
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    lines: list[str] = field(default_factory=list)
    reader: threading.Thread = field(default_factory=threading.Thread)

    def start(self, *options: str) -> None:
        """Start it with nothing but what a runner may know."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("HOSTSIDE_")}
        own = {"SERVER_URL": self.service.url, "RUNNER_TOKEN": TOKEN} | self.settings
        temporary = self.directory / "runner"
        temporary.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bot", "gpu-runner", *options],
            stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1],
            env=clean | {f"HOSTSIDE_{k}": v for k, v in own.items()} | {"TMPDIR": str(temporary)},
        )  # fmt: skip
        self.reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self.reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self.lines.append(line.rstrip())

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def boxes(self) -> list[int]:
        """Processes below it, its measuring process included."""
        found: list[int] = []
        for child in children(self.pid):
            found += [child, *children(child)]
        return found

    def said(self, words: str) -> bool:
        """Whether its log holds these words."""
        return any(words in line for line in tuple(self.lines))

    def terminate(self) -> None:
        """Ask it to end."""
        assert self.process is not None
        self.process.terminate()

    def kill(self) -> None:
        """`kill -9`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def wait(self, patience: float = 60) -> int:
        """Its exit code."""
        assert self.process is not None
        code = self.process.wait(patience)
        self.reader.join(10)
        return code


@contextmanager
def measuring(
    service: Service, directory: Path, *options: str, **settings: str
) -> Iterator[RunnerProcess]:
    """A runner, started; ended afterwards if it is still there."""
    runner = RunnerProcess(service, directory, {"LOG_LEVEL": "DEBUG"} | settings)
    runner.start(*options)
    try:
        yield runner
    finally:
        assert runner.process is not None
        if runner.process.poll() is None:
            runner.process.terminate()
            try:
                runner.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                runner.kill()
        runner.reader.join(timeout=10)
