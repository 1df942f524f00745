"""The table of benchmarks: ordered, handed to one machine at a time, reported, remembered.

Whoever holds a lease may report for it; a lease that runs out puts the benchmark back. Every change
that people should read of queues a job in the same transaction; it brings the comment up to date.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, and_, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError

from bot.bench_records import BenchRecords
from bot.bench_work import (
    ACTIVE,
    HELD,
    MOST_QUEUED_SECONDS,
    BenchState,
    Leased,
    Order,
    Progress,
    Quota,
    Refused,
    RunnerState,
    Stage,
    Way,
)
from bot.tables import BenchFileRow, BenchRow, JobRow, RunnerRow
from bot.work import GPU_QUEUE, Bell, JobSpec, Kind

SAY_SECONDS = 15.0  # between two looks at a benchmark's progress that are worth an edit
LEASE_SECONDS = 60.0
MOST_ATTEMPTS = 2  # machines that may die of one benchmark
MOST_RUN_SECONDS = 3 * 3600.0  # far more than the limits of a request add up to
DAY = 86_400.0
UNDER_WAY = "a benchmark of this pull request is under way; wait for it, or `/gpu-bench cancel`"
LOST = "the machine that measured it went away {} times; ask again when it is well"
ENDLESS = "its machine had it for three hours and sent no result; name fewer benchmarks, ask again"
WAITED = "no machine took it within an hour; start `hostside gpu-runner{}` and ask again"


class Benches(BenchRecords):
    """The benchmarks of one database."""

    # --- orders

    def order(self, order: Order, key: str, quota: Quota | None = None) -> BenchState | Refused:
        """Take the order; the same key gives the same benchmark. Refused says why not."""
        known = self.one(BenchRow.key == key)
        if known is not None:
            return known
        if said := self._over_quota(order, quota or Quota()):
            return Refused(said)
        row = {
            "key": key, "token": uuid.uuid4().hex, "repo": order.repo, "number": order.number,
            "author": order.author, "gpu": order.gpu, "way": order.way.value,
            "asked": order.text, "stage": Stage.QUEUED.value, "created": time.time(),
        }  # fmt: skip
        blank = {
            "progress": "", "problem": "", "runner": "", "external": 0, "attempts": 0,
            "lease": "", "lease_until": 0.0, "started": 0.0, "finished": 0.0, "version": 0,
            "said": 0.0,
        }  # fmt: skip
        try:
            with self.store.engine.begin() as connection:
                made = connection.execute(
                    self.store.insert(BenchRow).values(row | blank).returning(BenchRow.id)
                ).scalar_one()
                self._say(connection, made)
        except IntegrityError:  # one is under way, or this very order came twice
            return self.one(BenchRow.key == key) or self._in_the_way(order)
        return self.get(made)

    def _in_the_way(self, order: Order) -> Refused:
        standing = self.active(order.repo, order.number)
        if standing is None:  # it ended this moment
            return Refused("another benchmark of this pull request ended just now; ask again")
        return Refused(UNDER_WAY, standing)

    def _over_quota(self, order: Order, quota: Quota) -> str:
        since = time.time() - DAY
        count = select(func.count()).where(
            BenchRow.repo == order.repo, BenchRow.created > since, BenchRow.stage != Stage.CANCELLED
        )
        with self.store.read() as connection:
            all_of_them = connection.execute(count).scalar_one()
            theirs = connection.execute(count.where(BenchRow.author == order.author)).scalar_one()
        if quota.repository and all_of_them >= quota.repository:
            return (
                f"this repository had its {quota.repository} benchmarks of the last 24 hours; "
                "ask again later, or let the operator raise HOSTSIDE_BENCH_PER_REPOSITORY"
            )
        if quota.person and theirs >= quota.person:
            return (
                f"you had your {quota.person} benchmarks of the last 24 hours here; "
                "ask again later, or let the operator raise HOSTSIDE_BENCH_PER_PERSON"
            )
        return ""

    def cancel(self, bench: int, reason: str) -> bool:
        """Whether it was still active and is cancelled now; its machine hears of it at its beat."""
        return self._end(bench, Stage.CANCELLED, reason)

    def cancel_of(self, repo: str, number: int, reason: str, keep_head: str = "") -> bool:
        """Cancel what is active on a pull request, unless it measures `keep_head`."""
        standing = self.active(repo, number)
        if standing is None or (keep_head and standing.order.head_sha == keep_head):
            return False
        return self.cancel(standing.id, reason)

    def fail(self, bench: int, problem: str) -> bool:
        """Whether it was still active and is given up now."""
        return self._end(bench, Stage.FAILED, problem)

    def _end(self, bench: int, stage: Stage, problem: str) -> bool:
        ended = {
            "stage": stage.value, "problem": problem, "finished": time.time(),
            "lease": "", "lease_until": 0.0,
        }  # fmt: skip
        with self.store.engine.begin() as connection:
            changed = connection.execute(
                update(BenchRow)
                .where(BenchRow.id == bench, BenchRow.stage.in_(ACTIVE))
                .values(**ended)
            ).rowcount
            if changed:
                self._say(connection, bench)
        return bool(changed)

    # --- machines

    def claim(
        self, runner: str, labels: Collection[str] = (), seconds: float = LEASE_SECONDS
    ) -> Leased | None:
        """The oldest order that this machine can do, leased to it; None when there is none."""
        suits = or_(BenchRow.gpu == "", BenchRow.gpu.in_(tuple(labels)))
        waiting = and_(BenchRow.stage == Stage.QUEUED, BenchRow.way == Way.RUNNER, suits)
        with self.store.read() as connection:
            wanted = select(BenchRow.id).where(waiting).order_by(BenchRow.id).limit(5)
            found = connection.execute(wanted).scalars().all()
        for bench in found:
            if leased := self.take(bench, runner, seconds):
                return leased
        return None

    def take(self, bench: int, runner: str, seconds: float, external: int = 0) -> Leased | None:
        """Lease this very order; None when somebody else was quicker."""
        lease, now = uuid.uuid4().hex, time.time()
        taken = {
            "stage": Stage.PREPARING.value, "runner": runner, "lease": lease, "progress": "",
            "lease_until": now + seconds, "attempts": BenchRow.attempts + 1,
            "started": now, "external": external,
        }  # fmt: skip
        with self.store.engine.begin() as connection:
            changed = connection.execute(
                update(BenchRow)
                .where(BenchRow.id == bench, BenchRow.stage == Stage.QUEUED)
                .values(**taken)
            ).rowcount
            if not changed:
                return None
            # What a machine that went away had sent belongs to no result.
            connection.execute(delete(BenchFileRow).where(BenchFileRow.bench == bench))
            self._say(connection, bench)
        return Leased(self.get(bench), lease, seconds)

    def beat(
        self, bench: int, lease: str, progress: Progress | None = None, seconds: float = 0
    ) -> bool:
        """Whether it is still theirs, for another lease; `progress`: it runs, and so far."""
        now = time.time()
        kept: dict[str, Any] = {"lease_until": now + (seconds or LEASE_SECONDS)}
        if progress is not None:
            kept |= {"stage": Stage.RUNNING.value, "progress": progress.text}
        mine = and_(BenchRow.id == bench, BenchRow.lease == lease, BenchRow.stage.in_(HELD))
        with self.store.engine.begin() as connection:
            before = connection.execute(
                select(BenchRow.stage, BenchRow.said, BenchRow.runner).where(mine)
            ).one_or_none()
            if before is None:
                return False
            connection.execute(update(BenchRow).where(mine).values(**kept))
            heard = update(RunnerRow).where(RunnerRow.name == before[2])
            connection.execute(heard.values(seen=now))
            news = before[0] != Stage.RUNNING or now - before[1] > SAY_SECONDS
            if progress is not None and news:
                self._say(connection, bench)
        return True

    def deliver(
        self, bench: int, lease: str, report: str, files: Mapping[str, bytes] | None = None
    ) -> bool:
        """Whether the validated report (JSON) was taken, with the files that belong to it."""
        done = {  # the lease stays: whoever had it may not have heard that it was taken
            "stage": Stage.DONE.value, "report": report, "finished": time.time(), "problem": "",
            "lease_until": 0.0,
        }  # fmt: skip
        mine = and_(BenchRow.id == bench, BenchRow.lease == lease, BenchRow.stage.in_(HELD))
        with self.store.engine.begin() as connection:
            if not connection.execute(update(BenchRow).where(mine).values(**done)).rowcount:
                return False
            for name, content in (files or {}).items():
                row = {"bench": bench, "name": name, "content": content}
                connection.execute(
                    self.store.insert(BenchFileRow).values(row).on_conflict_do_nothing()
                )
            self._say(connection, bench)
        return True

    def extend(self, seconds: float = LEASE_SECONDS) -> None:
        """Give every machine another lease: nobody could take their beats for a while."""
        until = time.time() + seconds
        with self.store.engine.begin() as connection:
            connection.execute(
                update(BenchRow)
                .where(BenchRow.stage.in_(HELD), BenchRow.lease_until < until)
                .values(lease_until=until)
            )

    def give_up(self, bench: int, lease: str, problem: str) -> bool:
        """Whether the machine that holds it could end it for this reason."""
        standing = self.one(and_(BenchRow.id == bench, BenchRow.lease == lease))
        return standing is not None and bool(lease) and self.fail(bench, problem)

    def upkeep(self) -> tuple[Bell, ...]:
        """Put back what lost its machine, give up what is hopeless; bells for what waits."""
        now = time.time()
        lost = and_(BenchRow.stage.in_(HELD), BenchRow.lease_until < now)
        often = or_(BenchRow.attempts >= MOST_ATTEMPTS, BenchRow.way == Way.WORKFLOW)
        waits = and_(BenchRow.stage == Stage.QUEUED, BenchRow.way == Way.RUNNER)
        with self.store.read() as connection:
            hopeless = connection.execute(
                select(BenchRow.id, BenchRow.attempts).where(lost, often)
            ).all()
            hour = now - MOST_QUEUED_SECONDS  # it begins anew where a machine went away
            # A workflow's hour begins when it is started, and whoever watches it counts.
            old = and_(waits, BenchRow.created < hour, BenchRow.started < hour)
            waited = connection.execute(select(BenchRow.id, BenchRow.gpu).where(old)).all()
            # Its beats may go on for ever: a machine is believed nothing.
            begun = and_(BenchRow.started < now - MOST_RUN_SECONDS, BenchRow.way == Way.RUNNER)
            wanted = select(BenchRow.id).where(BenchRow.stage.in_(HELD), begun)
            endless = connection.execute(wanted).scalars().all()
        for bench, attempts in hopeless:
            self.fail(bench, LOST.format(attempts))
        for bench in endless:
            self.fail(bench, ENDLESS)
        for bench, gpu in waited:
            self.fail(bench, WAITED.format(f" --label {gpu}" if gpu else ""))
        again = {"stage": Stage.QUEUED.value, "lease": "", "lease_until": 0.0, "progress": ""}
        with self.store.engine.begin() as connection:
            back = connection.execute(
                update(BenchRow).where(lost).values(**again, started=now).returning(BenchRow.id)
            ).scalars()
            for bench in tuple(back):
                self._say(connection, bench)
            waiting = connection.execute(select(BenchRow.id, BenchRow.gpu).where(waits)).all()
        return tuple(Bell(bench, queue_of(gpu)) for bench, gpu in waiting)

    def seen(self, runner: RunnerState) -> None:
        """Note that this machine is there."""
        row = {"name": runner.name, "labels": ",".join(sorted(runner.labels)),
               "device": runner.device, "seen": runner.seen}  # fmt: skip
        insert = self.store.insert(RunnerRow).values(row)
        with self.store.engine.begin() as connection:
            connection.execute(insert.on_conflict_do_update(index_elements=["name"], set_=row))

    def say(self, bench: int) -> None:
        """Have the comment brought up to date: what stands around it has changed."""
        with self.store.engine.begin() as connection:
            self._say(connection, bench)

    def _say(self, connection: Connection, bench: int) -> None:
        """Queue the job that brings the comment up to date."""
        row = connection.execute(
            update(BenchRow)
            .where(BenchRow.id == bench)
            .values(version=BenchRow.version + 1, said=time.time())
            .returning(BenchRow.version, BenchRow.asked)
        ).one()
        order = Order.from_text(row[1])
        spec = JobSpec(
            f"bench:{bench}:{row[0]}", Kind.BENCH, order.repo, order.number,
            order.installation, {"bench": bench, "version": row[0]},
        )  # fmt: skip
        self.store.queue(connection, [(spec, "")])
        # The reaper rings for it at its next round; whoever wrote need not have a bell.
        connection.execute(update(JobRow).where(JobRow.key == spec.key).values(ring_at=0.0))


def queue_of(gpu: str) -> str:
    """The broker's queue that the machines with this label listen to."""
    return f"{GPU_QUEUE}.{gpu}" if gpu else GPU_QUEUE
