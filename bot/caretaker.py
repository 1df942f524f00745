"""What goes on beside the web: the reaper, the sweep of failed deliveries, the embedded worker."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bot import bench_files, upkeep
from bot.bench_care import BenchCare
from bot.bench_lookout import Lookout
from bot.errors import BotError
from bot.logs import say
from bot.settings import Settings
from bot.store import Store
from bot.work import Bell

log = logging.getLogger(__name__)
_DAY = 86_400.0
_RESTART_SECONDS = 2.0
_STOP_SECONDS = 25.0
_MOST_REDELIVERIES = 5  # of one event; what fails that often fails for a reason


@dataclass
class _Rota:
    """When something is to be done next."""

    every: float
    next: float = 0.0

    def due(self) -> bool:
        now = time.monotonic()
        if not self.every or now < self.next:
            return False
        self.next = now + self.every
        return True


@dataclass
class Caretaker:
    """A thread that looks after things until it is stopped."""

    settings: Settings
    store: Store
    ring: Callable[[Iterable[Bell]], None]
    with_worker: bool = True
    benches: BenchCare | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _worker: subprocess.Popen[bytes] | None = None
    _restart: float = 0.0
    _asked_again: Counter[str] = field(default_factory=Counter[str])

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._look_after, name="caretaker", daemon=True)
        self._reap = _Rota(self.settings.reap_seconds)
        self._benches_due = _Rota(self.settings.reap_seconds)
        self._lookout = Lookout(self.store, self.settings.watch_seconds)
        self._sweep = _Rota(self.settings.sweep_seconds)
        self._purge = _Rota(3600.0)

    def start(self) -> None:
        """Ring for all that waits from before, and start looking after things."""
        self.ring(upkeep.waiting(self.store))
        if self.benches is not None:
            self.benches.start()
        self._thread.start()

    def stop(self) -> None:
        """End, and let the worker finish what it has in hand."""
        self._over.set()
        self._thread.join(timeout=_STOP_SECONDS + 5)

    def workers_alive(self) -> bool:
        """Whether the worker that belongs here runs."""
        worker = self._worker
        return not self.with_worker or (worker is not None and worker.poll() is None)

    def _look_after(self) -> None:
        # The worker dies with the thread that started it, so that must be this one.
        while not self._over.wait(min(self.settings.reap_seconds, 0.5)):
            for task in (
                self._see_to_worker,
                self._reap_once,
                self._see_to_benches,
                self._sweep_once,
                self._purge_once,
            ):
                try:
                    task()
                except Exception as problem:  # the next round may do better
                    kind = type(problem).__name__
                    say(log, "upkeep failed", logging.WARNING, task=task.__name__, problem=kind)
        self._stop_worker()

    def _see_to_worker(self) -> None:
        if not self.with_worker or self.workers_alive() or time.monotonic() < self._restart:
            return
        if self._worker is not None:
            say(log, "the worker died", logging.WARNING, code=self._worker.returncode)
        self._restart = time.monotonic() + _RESTART_SECONDS
        command = [sys.executable, "-m", "bot", "worker", "--parent", str(os.getpid())]
        self._worker = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def _stop_worker(self) -> None:
        worker = self._worker
        if worker is None:
            return
        worker.terminate()
        try:
            worker.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()  # its leases run out, and its jobs come back
            worker.wait()

    def _reap_once(self) -> None:
        if self._reap.due():
            self.ring(upkeep.due(self.store))

    def _see_to_benches(self) -> None:
        if self.benches is not None and self._benches_due.due():
            self.benches.look()
            self.ring(self._lookout.due())

    def _purge_once(self) -> None:
        if self._purge.due():
            upkeep.purge(self.store, time.time() - self.settings.keep_days * _DAY)
            bench_files.forget(self.store, time.time() - self.settings.trace_days * _DAY)

    def _sweep_once(self) -> None:
        """Ask GitHub again for the deliveries that this service did not accept."""
        if not self._sweep.due():
            return
        from bot.github import connect_app
        from bot.office import access

        try:
            app = connect_app(access(self.settings, self.store))
            for delivery in app.failed(time.time() - _DAY):
                if self._asked_again[delivery.guid] < _MOST_REDELIVERIES:
                    self._asked_again[delivery.guid] += 1
                    again = app.again(delivery)
                    say(log, "asked for a failed delivery", delivery=delivery.guid, again=again)
        except BotError as problem:
            say(log, "failed deliveries could not be asked for", logging.WARNING, why=str(problem))
