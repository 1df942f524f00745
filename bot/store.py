"""The truth about deliveries, jobs and what people asked for; brokers only ring.

A job is claimed with a lease that its worker renews. A lease that runs out puts the job back, and
after `max_attempts` it is parked where people see it. Nothing here talks to GitHub or a broker.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, and_, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from bot.arrivals import Arrivals, fresh
from bot.tables import READING, JobRow, open_engine
from bot.work import Bell, Delivery, Job, JobSpec, Kind, State


@dataclass(frozen=True)
class Terms:
    """How long a worker may be silent, and how often a job is tried."""

    lease_seconds: float = 60
    max_attempts: int = 6
    retry_seconds: float = 10


class Store:
    """One database, opened once in each process."""

    def __init__(self, url: str, terms: Terms | None = None, durable: bool = True) -> None:
        self.engine: Engine = open_engine(url, durable)
        self.terms = terms or Terms()
        self._reading = self.engine.execution_options(**{READING: True})
        self._arrivals = Arrivals(self.insert)

    def close(self) -> None:
        """Let go of the connections."""
        self.engine.dispose()

    @contextmanager
    def read(self) -> Generator[Connection]:
        """A connection for looking only: it keeps no writer waiting."""
        with self._reading.connect() as connection:
            yield connection

    def insert(self, table: Any) -> Any:
        """An INSERT of this database's dialect, which knows conflicts."""
        sqlite_here = self.engine.dialect.name == "sqlite"
        return (sqlite.insert if sqlite_here else postgresql.insert)(table)

    # --- what comes in

    def accept(self, deliveries: Sequence[Delivery]) -> list[tuple[Bell, ...]]:
        """Store deliveries with their jobs in one transaction; the bells to ring for each."""
        with self.engine.begin() as connection:
            return self._arrivals.accept(connection, deliveries)

    def enqueue(self, spec: JobSpec, delivery: str) -> Bell | None:
        """Queue a job that another one found necessary; None when it is known already."""
        with self.engine.begin() as connection:
            return self.queue(connection, [(spec, delivery)]).get(spec.key)

    def queue(
        self, connection: Connection, specs: Sequence[tuple[JobSpec, str]]
    ) -> dict[str, Bell]:
        """The bells of those that are to be done, by their keys; the others are known already."""
        return self._arrivals.queue(connection, specs)

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

    def queued(self, jobs: Iterable[int]) -> frozenset[int]:
        """Those of the jobs that wait to be done."""
        wanted = select(JobRow.id).where(JobRow.id.in_(tuple(jobs)))
        with self.read() as connection:
            rows = connection.execute(wanted.where(JobRow.state == State.QUEUED))
            return frozenset(rows.scalars())

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
        if state is not State.DONE:  # as a delivery a moment later would
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
        spread = random.uniform(0.75, 1.25)
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
