"""Keeps the table of benchmarks going: lost machines, orders nobody takes, bells for runners."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bot.bench_work import NO_RUNNER_SECONDS
from bot.benches import LEASE_SECONDS, Benches
from bot.logs import say
from bot.work import Bell

log = logging.getLogger(__name__)
AGAIN_SECONDS = 30.0  # between two bells for the same benchmark


@dataclass
class BenchCare:
    """What the caretaker does about benchmarks; `ring` may fail."""

    benches: Benches
    ring: Callable[[Bell], None]
    lease_seconds: float = LEASE_SECONDS
    _rung: dict[int, float] = field(default_factory=dict[int, float])

    def start(self) -> None:
        """While the service was away no machine could renew its lease: all get another one."""
        self.benches.extend(self.lease_seconds)

    def look(self) -> None:
        """Put back what lost its machine, end what is hopeless, ring for what waits."""
        waiting, now = self.benches.upkeep(), time.monotonic()
        self._rung = {b: then for b, then in self._rung.items() if now - then < AGAIN_SECONDS}
        wanted = [bell for bell in waiting if bell.job not in self._rung]
        # Where no machine listens, bells would only pile up; one that comes asks by itself.
        if wanted and self.benches.runners(time.time() - NO_RUNNER_SECONDS):
            self._ring(wanted, now)

    def _ring(self, bells: list[Bell], now: float) -> None:
        for bell in bells:
            self._rung[bell.job] = now
        try:
            for bell in bells:
                self.ring(bell)
        except Exception as problem:  # runners ask without a bell, if later
            kind = type(problem).__name__
            say(log, "the broker did not take a bell for a runner", logging.WARNING, problem=kind)
