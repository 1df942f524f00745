"""The App as processes of this machine, against the stand-in, for as long as a test takes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bot import upkeep
from bot.store import Store
from tests.standin.webhooks import to_address
from tests.standin.world import APP_ID, World

SECRET = "a secret of the tests"
QUICK = {
    "LEASE_SECONDS": "2",
    "RETRY_SECONDS": "0.2",
    "REAP_SECONDS": "0.2",
    "SWEEP_SECONDS": "0",
    "WRITE_SECONDS": "0",
    "WORKERS": "2",
}
PATIENCE = 60.0


@dataclass
class Service:
    """`hostside serve` under test; it can be killed and started again on the same data."""

    world: World
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    url: str = ""
    lines: list[dict[str, Any]] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    reader: threading.Thread = field(default_factory=threading.Thread)

    @property
    def environment(self) -> dict[str, str]:
        key = self.directory / "app.pem"
        key.write_text(self.world.private_key)
        own = {
            "APP_ID": str(APP_ID),
            "PRIVATE_KEY_FILE": str(key),
            "WEBHOOK_SECRET": SECRET,
            "GITHUB_API_URL": self.world.url,
            "DATA_DIR": str(self.directory / "data"),
        }
        clean = {k: v for k, v in os.environ.items() if not k.startswith("HOSTSIDE_")}
        named = own | QUICK | self.settings
        return clean | {f"HOSTSIDE_{name}": value for name, value in named.items()}

    def start(self, *options: str) -> None:
        """Start it, and wait until it listens."""
        self.url = ""
        command = [sys.executable, "-m", "bot", "serve", "--port", "0", *options]
        self.process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=Path(__file__).parents[1],
        )
        self.reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self.reader.start()
        over = self.process.poll
        wait_until(lambda: bool(self.url) or over() is not None, "it listens", 300)
        assert self.url, "\n".join(self.raw[-20:])
        self.world.deliver = to_address(f"{self.url}/webhooks/github", SECRET)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr:
            self._listen(process.stderr)

    def _listen(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.raw.append(line.rstrip())
            try:
                said = json.loads(line)
            except ValueError:
                continue
            self.lines.append(said)
            if said.get("message") == "listening":
                self.url = said["address"]

    def kill(self) -> None:
        """`kill -9`, as a crash or the kernel would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(timeout=40)

    def store(self) -> Store:
        """The job table, from outside."""
        url = self.settings.get("DATABASE_URL") or f"sqlite:///{self.directory}/data/hostside.db"
        return Store(url)

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        store = self.store()
        try:
            found: dict[str, int] = {}
            for (_, state), number in upkeep.counts(store).items():
                found[state] = found.get(state, 0) + number
            return found
        finally:
            store.close()

    def settle(self, patience: float = PATIENCE) -> dict[str, int]:
        """Wait until no job is queued or running; the counts then."""
        wait_until(lambda: not self._busy(), "all jobs ended", patience, lambda: self.raw[-12:])
        return self.counts()

    def _busy(self) -> bool:
        counts = self.counts()
        return bool(counts.get("queued", 0) + counts.get("running", 0))

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=10)


@contextmanager
def serving(world: World, directory: Path, *options: str, **settings: str) -> Iterator[Service]:
    """The App, started; killed afterwards if it is still there."""
    service = Service(world, directory, settings)
    try:
        service.start(*options)
        yield service
    finally:
        world.deliver = None
        if service.process is not None and service.process.poll() is None:
            service.process.terminate()
            try:
                service.process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                service.kill()
        service.reader.join(timeout=10)


def wait_until(
    condition: Callable[[], bool],
    what: str,
    patience: float = PATIENCE,
    detail: Callable[[], object] = lambda: "",
) -> None:
    """Wait for it, or fail saying for what."""
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, f"waited {patience:g} s until {what}: {detail()}"
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """The processes that this one started and that still run."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, task.read_text().split())
    return found
