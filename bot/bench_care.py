"""Keeps the table of benchmarks going: lost machines, orders nobody takes, bells for runners."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from bot.bench_work import NO_RUNNER_SECONDS
from bot.benches import LEASE_SECONDS, Benches
from bot.logs import say
from bot.work import Bell

log = logging.getLogger(__name__)


@dataclass
class BenchCare:
    """What the caretaker does about benchmarks; `ring` may fail."""

    benches: Benches
    ring: Callable[[Bell], None]
    lease_seconds: float = LEASE_SECONDS
    _rung: frozenset[int] = frozenset()

    def start(self) -> None:
        """While the service was away no machine could renew its lease: all get another one."""
        self.benches.extend(self.lease_seconds)

    def look(self) -> None:
        """Put back what lost its machine, end what is hopeless, ring for what waits."""
        waiting = self.benches.upkeep()
        self._rung &= {bell.job for bell in waiting}
        wanted = [bell for bell in waiting if bell.job not in self._rung]
        # Where no machine listens, bells would only pile up; one that comes asks by itself.
        if wanted and self.benches.runners(time.time() - NO_RUNNER_SECONDS):
            self._ring(wanted)

    def _ring(self, bells: list[Bell]) -> None:
        """Once for each, heard or not: every machine also asks without a bell."""
        self._rung |= {bell.job for bell in bells}
        try:
            for bell in bells:
                self.ring(bell)
        except Exception as problem:
            kind = type(problem).__name__
            say(log, "the broker did not take a bell for a runner", logging.WARNING, problem=kind)
