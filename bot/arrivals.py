"""How deliveries and their jobs enter the table: few statements, each for many rows.

This is on the way to an answer that GitHub waits for, so it counts microseconds: the statements
are made once, and a flood of deliveries goes through them together.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Table, and_, bindparam, select, text, update

from bot.tables import DeliveryRow, JobRow
from bot.work import Bell, Delivery, Drop, JobSpec, Kind, State

RING_PATIENCE = 30.0  # seconds until a bell that nobody answered is rung again; then doubled
# The tables themselves: the mapped classes would cost as much again for each statement.
_JOBS: Table = JobRow.metadata.tables[JobRow.__tablename__]
_DELIVERIES: Table = DeliveryRow.metadata.tables[DeliveryRow.__tablename__]


class Arrivals:
    """The way into the tables; `insert` is the database's own, which knows conflicts."""

    def __init__(self, insert: Any) -> None:
        delivery, job = insert(_DELIVERIES), insert(_JOBS)
        self._new_delivery = delivery.on_conflict_do_nothing(index_elements=["id"]).returning(
            _DELIVERIES.c.id
        )
        # A job that was dropped or given up starts from the beginning.
        # The App may have been installed anew since, under another number.
        told = ("delivery", "arguments", "stamp", "installation")
        anew = {name: job.excluded[name] for name in (*told, *fresh())}
        # As text: with parameters of its own it could not be sent for many rows at once.
        revived = text(
            f"jobs.state IN ('{State.DROPPED}', '{State.PARKED}')"
            f" OR (jobs.state = '{State.DONE}' AND excluded.again)"
        )
        self._new_job = job.on_conflict_do_update(
            index_elements=["key"], set_=anew, where=revived
        ).returning(_JOBS.c.key, _JOBS.c.id, _JOBS.c.queue)

    def accept(
        self, connection: Connection, deliveries: Sequence[Delivery]
    ) -> list[tuple[Bell, ...]]:
        """Store deliveries with their jobs; the bells to ring for each."""
        if any(not drop.until for delivery in deliveries for drop in delivery.work.drops):
            # What drops everything must not drop what the deliveries after it ask for.
            return [self._accept(connection, (delivery,))[0] for delivery in deliveries]
        return self._accept(connection, deliveries)

    def _accept(
        self, connection: Connection, deliveries: Sequence[Delivery]
    ) -> list[tuple[Bell, ...]]:
        now = time.time()
        rows = [
            {"id": d.id, "event": d.event, "action": d.action, "received": now, "times": 1}
            for d in {d.id: d for d in deliveries}.values()
        ]
        new = set(connection.execute(self._new_delivery, rows).scalars()) if rows else set[str]()
        first = {d.id: d for d in reversed(deliveries) if d.id in new}
        specs = [(spec, d.id) for d in reversed(first.values()) for spec in d.work.jobs]
        bells = self.queue(connection, specs)
        drop_all(connection, (drop for d in first.values() for drop in d.work.drops))
        return [
            tuple(bells[spec.key] for spec in first[d.id].work.jobs if spec.key in bells)
            if d.id in first
            else _accept_again(connection, d.id)
            for d in deliveries
        ]

    def queue(
        self, connection: Connection, specs: Sequence[tuple[JobSpec, str]]
    ) -> dict[str, Bell]:
        """The bells of those that are to be done, by their keys; the others are known already."""
        rows: dict[str, dict[str, Any]] = {}
        for spec, delivery in sorted(specs, key=lambda each: each[0].stamp):
            rows[spec.key] = _row(spec, delivery)
        if not rows:
            return {}
        done: Any = connection.execute(self._new_job, list(rows.values()))
        bells = {key: Bell(job, queue) for key, job, queue in done}
        if known := rows.keys() - bells.keys():
            # The run under way may end as "dropped" for a reason that no longer holds.
            running = update(_JOBS).where(_JOBS.c.state == State.RUNNING)
            connection.execute(running.where(_JOBS.c.key.in_(known)).values(again=True))
            # What waits is as new as the latest word on it, or that would drop it as outdated; what
            # runs may come back to wait.
            latest = [
                {"this": key, "said": rows[key]["stamp"], "by": rows[key]["installation"]}
                for key in known
            ]
            connection.execute(_AS_NEW, latest)
        return bells


def _accept_again(connection: Connection, delivery: str) -> tuple[Bell, ...]:
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
    return {
        **fresh(),
        "finished": 0.0,
        "lease": "",
        "lease_until": 0.0,
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
        "again": spec.anew,
    }


_AS_NEW = (
    update(_JOBS)
    .where(
        _JOBS.c.key == bindparam("this"),
        _JOBS.c.state.in_([State.QUEUED.value, State.RUNNING.value]),
        _JOBS.c.stamp <= bindparam("said"),
    )
    .values(stamp=bindparam("said"), installation=bindparam("by"))
)
_WAITING_REVIEW = and_(
    _JOBS.c.state == State.QUEUED.value,
    _JOBS.c.kind == Kind.REVIEW.value,
    _JOBS.c.installation == bindparam("of_installation"),
)
_DROPPED = update(_JOBS).values(
    state=State.DROPPED.value, outcome=bindparam("reason"), finished=bindparam("now")
)
_OLDER_OF_PULL = _DROPPED.where(
    _JOBS.c.repo == bindparam("of_repo"),
    _JOBS.c.number == bindparam("of_number"),
    _WAITING_REVIEW,
    _JOBS.c.stamp < bindparam("until"),
)


def drop_all(connection: Connection, drops: Iterable[Drop]) -> None:
    """Mark the queued reviews that nobody needs any more."""
    now = time.time()
    narrow: list[dict[str, Any]] = []
    for drop in _widest(drops):
        values = {"of_installation": drop.installation, "reason": drop.reason, "now": now}
        if drop.repo and drop.number and drop.until:
            of_pull = {"of_repo": drop.repo, "of_number": drop.number, "until": drop.until}
            narrow.append(values | of_pull)
        else:
            connection.execute(_wide(drop), values)
    if narrow:
        connection.execute(_OLDER_OF_PULL, narrow)


def _widest(drops: Iterable[Drop]) -> tuple[Drop, ...]:
    """Of the drops of one pull request, that which reaches farthest."""
    found: dict[tuple[int, str, int], Drop] = {}
    for drop in drops:
        place = (drop.installation, drop.repo, drop.number)
        found[place] = max(drop, found.get(place, drop), key=lambda each: each.until)
    return tuple(found.values())


def _wide(drop: Drop) -> Any:
    dropped = _DROPPED.where(_WAITING_REVIEW)
    if drop.repo:
        dropped = dropped.where(_JOBS.c.repo == drop.repo)
    if drop.number:
        dropped = dropped.where(_JOBS.c.number == drop.number)
    return dropped.where(_JOBS.c.stamp < drop.until) if drop.until else dropped
