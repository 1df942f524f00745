"""Looking at the table of benchmarks: one, the latest, their reports and files, the machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, func, or_, select

from bot.bench_work import ACTIVE, HELD, BenchState, Order, Progress, RunnerState, Stage, Way
from bot.store import Store
from bot.tables import BenchFileRow, BenchRow, RunnerRow


class BenchRecords:
    """The benchmarks of one database, to be read."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def runners(self, since: float = 0.0) -> tuple[RunnerState, ...]:
        """The machines that were heard of after this time, by name."""
        wanted = select(RunnerRow.name, RunnerRow.labels, RunnerRow.device, RunnerRow.seen)
        with self.store.read() as connection:
            rows = connection.execute(
                wanted.where(RunnerRow.seen > since).order_by(RunnerRow.name)
            ).all()
        return tuple(
            RunnerState(name, tuple(filter(None, labels.split(","))), device, seen)
            for name, labels, device, seen in rows
        )

    def get(self, bench: int) -> BenchState:
        """This benchmark; KeyError when there is none."""
        found = self.find(bench)
        if found is None:
            raise KeyError(bench)
        return found

    def find(self, bench: int) -> BenchState | None:
        """This benchmark, if there is one."""
        return self.one(BenchRow.id == bench)

    def held(self, bench: int, lease: str) -> BenchState | None:
        """The benchmark, if the machine with this lease has it."""
        mine = and_(BenchRow.id == bench, BenchRow.lease == lease, BenchRow.lease != "")
        return self.one(and_(mine, BenchRow.stage.in_(HELD)))

    def delivered(self, bench: int, lease: str) -> bool:
        """Whether the report of the machine with this lease was taken."""
        mine = and_(BenchRow.id == bench, BenchRow.lease == lease, BenchRow.lease != "")
        return self.one(and_(mine, BenchRow.stage == Stage.DONE)) is not None

    def counts(self) -> dict[Stage, int]:
        """How many benchmarks are in each stage."""
        wanted = select(BenchRow.stage, func.count()).group_by(BenchRow.stage)
        with self.store.read() as connection:
            return {Stage(stage): number for stage, number in connection.execute(wanted)}

    def by_token(self, token: str) -> BenchState | None:
        """The benchmark with this unguessable name."""
        return self.one(BenchRow.token == token)

    def by_key(self, key: str) -> BenchState | None:
        """The benchmark that was ordered under this key."""
        return self.one(BenchRow.key == key)

    def active(self, repo: str, number: int) -> BenchState | None:
        """The benchmark of a pull request that has not ended, if any."""
        mine = and_(BenchRow.repo == repo, BenchRow.number == number)
        return self.one(and_(mine, BenchRow.stage.in_(ACTIVE)))

    def history(self, repo: str = "", number: int = 0, most: int = 50) -> tuple[BenchState, ...]:
        """The latest benchmarks, newest first."""
        wanted = select(*_COLUMNS).order_by(BenchRow.id.desc()).limit(most)
        if repo:
            wanted = wanted.where(BenchRow.repo == repo)
        if number:
            wanted = wanted.where(BenchRow.number == number)
        with self.store.read() as connection:
            return tuple(_state(row) for row in connection.execute(wanted).mappings())

    def held_outside(self) -> tuple[BenchState, ...]:
        """The benchmarks that a dispatched workflow has."""
        held = and_(BenchRow.way == Way.WORKFLOW, BenchRow.stage.in_(ACTIVE))
        with self.store.read() as connection:
            rows = connection.execute(
                select(*_COLUMNS).where(held).order_by(BenchRow.id)
            ).mappings()
            return tuple(_state(row) for row in rows)

    def report(self, bench: int) -> str:
        """The report as JSON; empty when there is none."""
        with self.store.read() as connection:
            wanted = select(BenchRow.report).where(BenchRow.id == bench)
            return connection.execute(wanted).scalar() or ""

    def files(self, bench: int) -> tuple[str, ...]:
        """The names of its files."""
        with self.store.read() as connection:
            wanted = select(BenchFileRow.name).where(BenchFileRow.bench == bench)
            return tuple(connection.execute(wanted.order_by(BenchFileRow.name)).scalars())

    def file(self, bench: int, name: str) -> bytes | None:
        """The content of one of them."""
        mine = and_(BenchFileRow.bench == bench, BenchFileRow.name == name)
        with self.store.read() as connection:
            return connection.execute(select(BenchFileRow.content).where(mine)).scalar()

    def ahead(self, bench: BenchState) -> int:
        """How many active benchmarks were ordered before it for the same kind of machine."""
        before = select(func.count()).where(
            BenchRow.id < bench.id, BenchRow.stage.in_(ACTIVE), BenchRow.way == bench.order.way
        )
        if bench.order.gpu:
            before = before.where(or_(BenchRow.gpu == bench.order.gpu, BenchRow.gpu == ""))
        with self.store.read() as connection:
            return connection.execute(before).scalar_one()

    def behind(self, bench: BenchState, most: int = 20) -> tuple[int, ...]:
        """Those that wait and were ordered after it, for the same way to a GPU; oldest first."""
        after = and_(BenchRow.id > bench.id, BenchRow.stage == Stage.QUEUED)
        wanted = select(BenchRow.id).where(after, BenchRow.way == bench.order.way)
        with self.store.read() as connection:
            return tuple(connection.execute(wanted.order_by(BenchRow.id).limit(most)).scalars())

    def usual_seconds(self, repo: str) -> float:
        """How long the latest benchmarks of a repository took on average; 0 when none did."""
        took = (
            select((BenchRow.finished - BenchRow.started).label("took"))
            .where(BenchRow.repo == repo, BenchRow.stage == Stage.DONE)
            .order_by(BenchRow.id.desc())
            .limit(5)
            .subquery()
        )
        with self.store.read() as connection:
            return float(connection.execute(select(func.avg(took.c.took))).scalar() or 0.0)

    def one(self, where: Any) -> BenchState | None:
        """The only benchmark of which this condition holds, if any."""
        with self.store.read() as connection:
            row = connection.execute(select(*_COLUMNS).where(where)).mappings().one_or_none()
        return None if row is None else _state(row)


_COLUMNS: Sequence[Any] = (
    *(BenchRow.id, BenchRow.token, BenchRow.problem, BenchRow.runner, BenchRow.external),
    *(BenchRow.attempts, BenchRow.created, BenchRow.started, BenchRow.finished, BenchRow.version),
    *(BenchRow.asked, BenchRow.stage, BenchRow.progress),
    BenchRow.report.is_not(None).label("has_report"),
)


def _state(row: Mapping[Any, Any]) -> BenchState:
    said = {str(name): value for name, value in row.items()}
    order, progress = Order.from_text(said.pop("asked")), Progress.from_text(said.pop("progress"))
    return BenchState(order=order, progress=progress, stage=Stage(said.pop("stage")), **said)
