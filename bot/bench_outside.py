"""The table of benchmarks as whoever watches workflow runs needs it.

`external` tells how far GitHub got: nothing sent, being sent, sent, or the number of the run. It is
written before and after the request, so that a process that dies between leaves what the next one
must know: that a run may be there.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

from sqlalchemy import and_, or_, select, update

from bot.bench_work import ACTIVE, HELD, BenchState, Leased, Stage, Way, watch_key
from bot.benches import Benches
from bot.tables import BenchRow
from bot.work import JobSpec, Kind

NOTHING, SENDING, SENT = 0, -1, -2  # of `external`, below the numbers of runs
STOP_SECONDS = 3600.0  # for which it is tried to stop a run that nobody waits for any more
LEASE_SECONDS = 24 * 3600.0  # nobody beats for it: how it ends is found by looking at GitHub


class OutsideBenches(Benches):
    """The benchmarks of one database that are measured by workflow runs."""

    def unsettled(self) -> tuple[BenchState, ...]:
        """Those whose run is to be started, watched or stopped."""
        ended = BenchRow.stage.in_((Stage.CANCELLED, Stage.FAILED))
        lately = BenchRow.finished > time.time() - STOP_SECONDS
        over = and_(ended, BenchRow.external != NOTHING, lately)
        wanted = select(BenchRow.id).where(
            BenchRow.way == Way.WORKFLOW, or_(BenchRow.stage.in_(ACTIVE), over)
        )
        with self.store.read() as connection:
            found = connection.execute(wanted.order_by(BenchRow.id)).scalars().all()
        return tuple(self.get(bench) for bench in found)

    def in_front(self, bench: BenchState) -> BenchState | None:
        """An earlier one that is to have the same machine of the repository first, if any."""
        for other in self.held_outside():
            labels = {other.order.gpu, bench.order.gpu}
            same = len(labels) == 1 or "" in labels
            if other.id < bench.id and other.order.repo == bench.order.repo and same:
                return other
        return None

    def note(self, bench: BenchState, external: int) -> bool:
        """Whether it still stood as `bench` says, and how far GitHub got is written down now."""
        mine = and_(BenchRow.id == bench.id, BenchRow.external == bench.external)
        noted: dict[str, Any] = {"external": external}
        if external == SENDING:
            noted["started"] = time.time()
        with self.store.engine.begin() as connection:
            active = mine if external != SENDING else and_(mine, BenchRow.stage == Stage.QUEUED)
            return bool(connection.execute(update(BenchRow).where(active).values(**noted)).rowcount)

    def taken_by(self, bench: BenchState, address: str) -> Leased | None:
        """The benchmark in the hands of its run; None when it was cancelled meanwhile."""
        if bench.stage is Stage.QUEUED:
            return self.take(bench.id, address, LEASE_SECONDS, bench.external)
        lease = uuid.uuid4().hex
        mine = and_(BenchRow.id == bench.id, BenchRow.stage.in_(HELD))
        again = {"lease": lease, "lease_until": time.time() + LEASE_SECONDS}
        with self.store.engine.begin() as connection:
            if not connection.execute(update(BenchRow).where(mine).values(**again)).rowcount:
                return None
        return Leased(self.get(bench.id), lease, LEASE_SECONDS)


def watch(bench: BenchState) -> JobSpec:
    """The job that looks at a benchmark's run once; queued again as long as there is one."""
    order = bench.order
    asked = {"token": bench.token}
    key = watch_key(bench.token)
    return JobSpec(key, Kind.WATCH, order.repo, order.number, order.installation, asked)
