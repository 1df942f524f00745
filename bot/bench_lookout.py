"""When to look at workflow runs: soon after something changed here, else at a steady pace."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from bot.bench_outside import NOTHING, OutsideBenches, watch
from bot.bench_work import BenchState, Stage
from bot.store import Store
from bot.work import Bell

_Look = tuple[object, float]  # how it stood, and when that was seen


@dataclass
class Lookout:
    """Queues looks at the runs of one database's benchmarks."""

    store: Store
    seconds: float  # between two looks at one run
    _looked: dict[int, tuple[object, float]] = field(
        default_factory=dict[int, tuple[object, float]]
    )

    def due(self) -> tuple[Bell, ...]:
        """The bells of the looks that are to be taken now."""
        benches, bells = OutsideBenches(self.store).unsettled(), list[Bell]()
        self._looked = {b.id: self._looked[b.id] for b in benches if b.id in self._looked}
        for bench in benches:
            if self._is_due(bench):
                bell = self.store.enqueue(watch(bench), "")
                bells += [bell] if bell else []
        return tuple(bells)

    def _is_due(self, bench: BenchState) -> bool:
        stands = (bench.stage, bench.external != NOTHING)
        before, at = self._looked.get(bench.id, (None, 0.0))
        new = stands != before and (before is None or bench.stage is Stage.CANCELLED)
        if not new and time.monotonic() - at < self.seconds:
            return False
        self._looked[bench.id] = (stands, time.monotonic())
        return True
