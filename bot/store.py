"""The truth about deliveries, jobs and what people asked for; brokers only ring.

A job is claimed with a lease that its worker renews. A lease that runs out puts the job back, and
after `max_attempts` it is parked where people see it. Nothing here talks to GitHub or a broker.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, and_, or_, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from bot.tables import READING, DeliveryRow, JobRow, open_engine
from bot.work import Bell, Delivery, Drop, Job, JobSpec, Kind, State

RING_PATIENCE = 30.0  # seconds until a bell that nobody answered is rung again; then doubled


@dataclass(frozen=True)
class Terms:
    """How long a worker may be silent, and how often a job is tried."""

    lease_seconds: float = 60
    max_attempts: int = 6
    retry_seconds: float = 10


class Store:
    """One database, opened once in each process."""

    def __init__(self, url: str, terms: Terms | None = None) -> None:
        self.engine: Engine = open_engine(url)
        self.terms = terms or Terms()
        self._reading = self.engine.execution_options(**{READING: True})
        delivery, job = self.insert(DeliveryRow), self.insert(JobRow)
        self._new_delivery = delivery.on_conflict_do_nothing(index_elements=["id"]).returning(
            DeliveryRow.id
        )
        # A job that was dropped or given up starts from the beginning.
        anew = {name: job.excluded[name] for name in ("delivery", "arguments", "stamp", *fresh())}
        # As text: with parameters of its own it could not be sent for many rows at once.
        revived = text(f"jobs.state IN ('{State.DROPPED}', '{State.PARKED}')")
        self._new_job = job.on_conflict_do_update(
            index_elements=["key"], set_=anew, where=revived
        ).returning(JobRow.key, JobRow.id, JobRow.queue)

    def close(self) -> None:
        """Let go of the connections."""
        self.engine.dispose()

    @contextmanager
    def read(self) -> Generator[Connection]:
        """A connection for looking only: it keeps no writer waiting."""
        with self._reading.connect() as connection:
            yield connection

    def insert(self, table: type[Any]) -> Any:
        """An INSERT of this database's dialect, which knows conflicts."""
        sqlite_here = self.engine.dialect.name == "sqlite"
        return (sqlite.insert if sqlite_here else postgresql.insert)(table)

    # --- what comes in

    def accept(self, deliveries: Sequence[Delivery]) -> list[tuple[Bell, ...]]:
        """Store deliveries with their jobs in one transaction; the bells to ring for each."""
        with self.engine.begin() as connection:
            if any(not drop.until for delivery in deliveries for drop in delivery.work.drops):
                # What drops everything must not drop what the deliveries after it ask for.
                return [self._accept(connection, (delivery,))[0] for delivery in deliveries]
            return self._accept(connection, deliveries)

    def _accept(
        self, connection: Connection, deliveries: Sequence[Delivery]
    ) -> list[tuple[Bell, ...]]:
        """The same by few statements, each for many rows: a flood is no time for many."""
        now = time.time()
        rows = [
            {"id": d.id, "event": d.event, "action": d.action, "received": now, "times": 1}
            for d in {d.id: d for d in deliveries}.values()
        ]
        new = set(connection.execute(self._new_delivery, rows).scalars()) if rows else set[str]()
        first = {d.id: d for d in reversed(deliveries) if d.id in new}
        specs = [(spec, d.id) for d in reversed(first.values()) for spec in d.work.jobs]
        bells = self.queue(connection, specs)
        for drop in _widest(drop for d in first.values() for drop in d.work.drops):
            _drop(connection, drop)
        return [
            tuple(bells[spec.key] for spec in first[d.id].work.jobs if spec.key in bells)
            if d.id in first
            else self._accept_again(connection, d.id)
            for d in deliveries
        ]

    def _accept_again(self, connection: Connection, delivery: str) -> tuple[Bell, ...]:
        """A redelivery repeats nothing that was finished, and revives what was not."""
        connection.execute(
            update(DeliveryRow)
            .where(DeliveryRow.id == delivery)
            .values(times=DeliveryRow.times + 1, received=time.time())
        )
        mine = JobRow.delivery == delivery
        connection.execute(update(JobRow).where(mine, JobRow.state == State.PARKED).values(fresh()))
        waiting = select(JobRow.id, JobRow.queue).where(mine, JobRow.state == State.QUEUED)
        return tuple(Bell(job, queue) for job, queue in connection.execute(waiting))

    def enqueue(self, spec: JobSpec, delivery: str) -> Bell | None:
        """Queue a job that another one found necessary; None when it is known already."""
        with self.engine.begin() as connection:
            return self.queue(connection, [(spec, delivery)]).get(spec.key)

    def queue(
        self, connection: Connection, specs: Sequence[tuple[JobSpec, str]]
    ) -> dict[str, Bell]:
        """The bells of those that are to be done, by their keys; the others are known already."""
        rows = {spec.key: _row(spec, delivery) for spec, delivery in specs}
        if not rows:
            return {}
        done: Any = connection.execute(self._new_job, list(rows.values()))
        bells = {key: Bell(job, queue) for key, job, queue in done}
        if known := rows.keys() - bells.keys():
            # The run under way may end as "dropped" for a reason that no longer holds.
            running = update(JobRow).where(JobRow.state == State.RUNNING)
            connection.execute(running.where(JobRow.key.in_(known)).values(again=True))
        return bells

    # --- what is worked on

    def claim(self, job: int) -> Job | None:
        """The job, leased to the caller; None when it is done, early, or its PR is busy."""
        if not self._is_open(job):  # most bells of a flood are for what was superseded
            return None
        now, lease = time.time(), uuid.uuid4().hex
        ready = and_(JobRow.state == State.QUEUED, JobRow.not_before <= now)
        expired = and_(JobRow.state == State.RUNNING, JobRow.lease_until < now)
        claimed = (
            update(JobRow)
            .where(JobRow.id == job, or_(ready, expired))
            .where(JobRow.attempts < self.terms.max_attempts)
            .values(
                state=State.RUNNING,
                lease=lease,
                lease_until=now + self.terms.lease_seconds,
                attempts=JobRow.attempts + 1,
                again=False,
            )
            .returning(*_JOB)
        )
        try:
            with self.engine.begin() as connection:
                row = connection.execute(claimed).one_or_none()
        except IntegrityError:  # another job of the same pull request runs
            return None
        return None if row is None else _job(tuple(row))

    def _is_open(self, job: int) -> bool:
        wanted = select(JobRow.state).where(JobRow.id == job)
        with self.read() as connection:
            return connection.execute(wanted).scalar() in (State.QUEUED, State.RUNNING)

    def renew(self, job: Job) -> bool:
        """Whether the job is still the caller's, for another lease."""
        until = time.time() + self.terms.lease_seconds
        with self.engine.begin() as connection:
            return bool(connection.execute(_mine(job).values(lease_until=until)).rowcount)

    def finish(self, job: Job, state: State, outcome: str) -> tuple[Bell, ...]:
        """End the job; the bells of those that waited for it."""
        with self.engine.begin() as connection:
            return self._finish(connection, job, state, outcome)

    def _finish(
        self, connection: Connection, job: Job, state: State, outcome: str
    ) -> tuple[Bell, ...]:
        now = time.time()
        ended = {"outcome": outcome, "finished": now, "lease": "", "lease_until": 0.0}
        mine = _mine(job)
        revived = 0
        if state is State.DROPPED:
            revived = connection.execute(
                mine.where(JobRow.again).values(**fresh() | {"lease": "", "lease_until": 0.0})
            ).rowcount
        if not revived:
            connection.execute(mine.values(state=state, **ended))
        waiting = (
            select(JobRow.id, JobRow.queue)
            .where(JobRow.repo == job.repo, JobRow.number == job.number)
            .where(JobRow.state == State.QUEUED, JobRow.not_before <= now)
            .order_by(JobRow.id.desc())
            .limit(2)
        )
        return tuple(Bell(number, queue) for number, queue in connection.execute(waiting))

    def retry(self, job: Job, problem: str, after: float = 0) -> tuple[Bell, ...]:
        """Put the job back for later, or park it when it was tried often enough."""
        if job.attempts >= self.terms.max_attempts:
            return self.finish(job, State.PARKED, problem)
        # Spread, so that what failed together does not come back together.
        spread = 0.75 + (job.id * 7919 % 1000) / 2000
        pause = max(after, self.terms.retry_seconds * 2 ** (job.attempts - 1) * spread)
        later = time.time() + pause
        with self.engine.begin() as connection:
            connection.execute(
                _mine(job).values(
                    state=State.QUEUED, outcome=problem, lease="", lease_until=0.0,
                    not_before=later, ring_at=later, rings=0,
                )
            )  # fmt: skip
        return ()


_JOB = (
    JobRow.id, JobRow.key, JobRow.kind, JobRow.repo, JobRow.number, JobRow.installation,
    JobRow.arguments, JobRow.attempts, JobRow.lease, JobRow.delivery,
)  # fmt: skip


def _job(row: tuple[Any, ...]) -> Job:
    number, key, kind, repo, pull, installation, arguments, attempts, lease, delivery = row
    return Job(
        number, key, Kind(kind), repo, pull, installation, json.loads(arguments),
        attempts, lease, delivery,
    )  # fmt: skip


def _mine(job: Job) -> Any:
    held: ColumnElement[bool] = JobRow.lease == job.lease
    return update(JobRow).where(JobRow.id == job.id, held, JobRow.state == State.RUNNING)


def fresh() -> dict[str, Any]:
    """The columns of a job that starts from the beginning."""
    now = time.time()
    return {
        "state": State.QUEUED.value,
        "outcome": "",
        "attempts": 0,
        "again": False,
        "not_before": 0.0,
        "ring_at": now + RING_PATIENCE,
        "rings": 0,
    }


def _row(spec: JobSpec, delivery: str) -> dict[str, Any]:
    unset = {"finished": 0.0, "lease": "", "lease_until": 0.0}
    return (
        unset
        | fresh()
        | {
            "key": spec.key,
            "kind": spec.kind.value,
            "queue": spec.queue,
            "repo": spec.repo,
            "number": spec.number,
            "installation": spec.installation,
            "arguments": spec.text,
            "delivery": delivery,
            "stamp": spec.stamp,
            "created": time.time(),
        }
    )


def _widest(drops: Iterable[Drop]) -> tuple[Drop, ...]:
    """Of the drops of one pull request, that which reaches farthest."""
    found: dict[tuple[int, str, int], Drop] = {}
    for drop in drops:
        place = (drop.installation, drop.repo, drop.number)
        found[place] = max(drop, found.get(place, drop), key=lambda each: each.until)
    return tuple(found.values())


def _drop(connection: Connection, drop: Drop) -> None:
    dropped = update(JobRow).where(
        JobRow.state == State.QUEUED,
        JobRow.kind == Kind.REVIEW,
        JobRow.installation == drop.installation,
    )
    if drop.repo:
        dropped = dropped.where(JobRow.repo == drop.repo)
    if drop.number:
        dropped = dropped.where(JobRow.number == drop.number)
    if drop.until:
        dropped = dropped.where(JobRow.stamp < drop.until)
    connection.execute(
        dropped.values(state=State.DROPPED, outcome=drop.reason, finished=time.time())
    )
