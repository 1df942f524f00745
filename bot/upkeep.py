"""What keeps the job table going: lost jobs come back, hopeless ones are parked, old ones go."""

from __future__ import annotations

import time
from collections.abc import Iterable

from sqlalchemy import and_, bindparam, delete, func, or_, select, update

from bot.arrivals import RING_PATIENCE, fresh
from bot.store import Store
from bot.tables import DeliveryRow, JobRow, ReviewRow
from bot.work import Bell, Parked, State

CRASHED = "its worker died or hung"
_MOST_BELLS = 200
_JOBS = JobRow.metadata.tables[JobRow.__tablename__]
_RUNG = (
    update(_JOBS)
    .where(_JOBS.c.id == bindparam("this"))
    .values(ring_at=bindparam("later"), rings=_JOBS.c.rings + 1)
)


def due(store: Store) -> tuple[Bell, ...]:
    """Take back expired leases, park the hopeless; the bells that are to be rung now."""
    now = time.time()
    expired = and_(JobRow.state == State.RUNNING, JobRow.lease_until < now)
    overdue = and_(JobRow.state == State.QUEUED, JobRow.ring_at <= now)
    with store.read() as connection:  # nearly always, and no writer waits for it
        if (
            connection.execute(select(JobRow.id).where(or_(expired, overdue)).limit(1)).first()
            is None
        ):
            return ()
    with store.engine.begin() as connection:
        often = JobRow.attempts >= store.terms.max_attempts
        lost = {"lease": "", "lease_until": 0.0}
        gone = f"{CRASHED} {store.terms.max_attempts} times"
        connection.execute(
            update(JobRow)
            .where(expired, often)
            .values(state=State.PARKED, outcome=gone, finished=now, **lost)
        )
        connection.execute(
            update(JobRow).where(expired).values(state=State.QUEUED, ring_at=now, **lost)
        )
        wanted = select(JobRow.id, JobRow.queue, JobRow.rings).where(overdue)
        rows = connection.execute(wanted.order_by(JobRow.ring_at).limit(_MOST_BELLS)).all()
        again = [
            {"this": job, "later": now + RING_PATIENCE * 2 ** min(rings + 1, 5)}
            for job, _, rings in rows
        ]
        if again:
            connection.execute(_RUNG, again)
    return tuple(Bell(job, queue) for job, queue, _ in rows)


def waiting(store: Store) -> tuple[Bell, ...]:
    """Everything that is queued: what to ring for when the service starts."""
    wanted = select(JobRow.id, JobRow.queue).where(JobRow.state == State.QUEUED)
    with store.read() as connection:
        rows = connection.execute(wanted.order_by(JobRow.id))
        return tuple(Bell(job, queue) for job, queue in rows)


def parked(store: Store) -> tuple[Parked, ...]:
    """The jobs that were given up, the newest first."""
    columns = (JobRow.id, JobRow.key, JobRow.outcome, JobRow.attempts)
    wanted = select(*columns).where(JobRow.state == State.PARKED).order_by(JobRow.id.desc())
    with store.read() as connection:
        return tuple(Parked(*row) for row in connection.execute(wanted))


def rerun(store: Store, jobs: Iterable[int]) -> tuple[Bell, ...]:
    """Queue parked jobs again; the reaper rings for them, should the caller not."""
    again = (
        update(JobRow)
        .where(JobRow.id.in_(tuple(jobs)), JobRow.state == State.PARKED)
        .values(fresh() | {"ring_at": 0.0})
        .returning(JobRow.id, JobRow.queue)
    )
    with store.engine.begin() as connection:
        return tuple(Bell(job, queue) for job, queue in connection.execute(again))


def counts(store: Store) -> dict[tuple[str, str], int]:
    """How many jobs there are of each kind in each state."""
    wanted = select(JobRow.kind, JobRow.state, func.count()).group_by(JobRow.kind, JobRow.state)
    with store.read() as connection:
        return {(kind, state): number for kind, state, number in connection.execute(wanted)}


def purge(store: Store, before: float) -> None:
    """Forget what was finished before this time."""
    over = JobRow.state.in_((State.DONE, State.DROPPED))
    with store.engine.begin() as connection:
        connection.execute(delete(JobRow).where(over, JobRow.finished < before))
        connection.execute(delete(DeliveryRow).where(DeliveryRow.received < before))
        connection.execute(delete(ReviewRow).where(ReviewRow.posted < before))


def oldest_queued(store: Store) -> float:
    """When the job was created that has waited longest; 0 when none waits."""
    wanted = select(func.min(JobRow.created)).where(JobRow.state == State.QUEUED)
    with store.read() as connection:
        return connection.execute(wanted).scalar() or 0.0


def alive(store: Store) -> None:
    """Raise what the database raises when it cannot be asked."""
    with store.read() as connection:
        connection.execute(select(JobRow.id).limit(1))
