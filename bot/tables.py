"""The service's tables: SQLite in WAL mode on one machine, PostgreSQL by URL on several."""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlalchemy import BigInteger, Engine, Index, LargeBinary, Text, create_engine, event, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

RUNNING = "running"
_ACTIVE = "stage IN ('queued', 'preparing', 'running')"


class Base(DeclarativeBase):
    """The tables."""


class DeliveryRow(Base):
    """A webhook delivery that was answered with 202."""

    __tablename__ = "deliveries"

    id: Mapped[str] = mapped_column(primary_key=True)  # X-GitHub-Delivery, kept by a redelivery
    event: Mapped[str]
    action: Mapped[str]
    received: Mapped[float] = mapped_column(index=True)
    times: Mapped[int] = mapped_column(default=1)


class JobRow(Base):
    """A piece of work; this row, not the broker's message, says whether it is done."""

    __tablename__ = "jobs"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    key: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    queue: Mapped[str]
    repo: Mapped[str]
    number: Mapped[int]
    installation: Mapped[int] = mapped_column(index=True)
    arguments: Mapped[str] = mapped_column(Text)
    delivery: Mapped[str] = mapped_column(index=True)
    stamp: Mapped[str] = mapped_column(default="")  # when GitHub says it happened
    state: Mapped[str]
    outcome: Mapped[str] = mapped_column(Text, default="")
    attempts: Mapped[int] = mapped_column(default=0)
    again: Mapped[bool] = mapped_column(default=False)  # asked for once more while it ran
    lease: Mapped[str] = mapped_column(default="")
    lease_until: Mapped[float] = mapped_column(default=0)
    not_before: Mapped[float] = mapped_column(default=0)
    ring_at: Mapped[float] = mapped_column(default=0)
    rings: Mapped[int] = mapped_column(default=0)
    created: Mapped[float]
    finished: Mapped[float] = mapped_column(default=0)

    __table_args__ = (
        Index("jobs_by_state", "state", "ring_at"),
        Index("jobs_by_pull", "repo", "number", "state"),
        # Two jobs of one pull request never run at once, whoever claims them.
        Index(
            "jobs_one_running",
            "repo",
            "number",
            unique=True,
            sqlite_where=text(f"state = '{RUNNING}'"),
            postgresql_where=text(f"state = '{RUNNING}'"),
        ),
    )


class ReviewRow(Base):
    """A review that GitHub has."""

    __tablename__ = "reviews"

    repo: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    head_sha: Mapped[str] = mapped_column(primary_key=True)
    conclusion: Mapped[str]
    findings: Mapped[int]
    comments: Mapped[int]
    posted: Mapped[float] = mapped_column(index=True)
    seconds: Mapped[float]


class PauseRow(Base):
    """A pull request that is left alone."""

    __tablename__ = "pauses"

    repo: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    by: Mapped[str]
    since: Mapped[float]


class IgnoreRow(Base):
    """A rule that is silent on one pull request."""

    __tablename__ = "ignores"

    repo: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(primary_key=True)
    reason: Mapped[str]
    by: Mapped[str]
    since: Mapped[float]


class BenchRow(Base):
    """A benchmark that somebody asked for, from its order to its report."""

    __tablename__ = "benches"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    key: Mapped[str] = mapped_column(unique=True)
    token: Mapped[str] = mapped_column(unique=True)
    repo: Mapped[str] = mapped_column(index=True)
    number: Mapped[int]
    author: Mapped[str]
    gpu: Mapped[str]
    way: Mapped[str]
    asked: Mapped[str] = mapped_column(Text)  # the order as JSON
    stage: Mapped[str]
    progress: Mapped[str] = mapped_column(Text, default="")
    problem: Mapped[str] = mapped_column(Text, default="")
    runner: Mapped[str] = mapped_column(default="")
    external: Mapped[int] = mapped_column(BigInteger, default=0)
    attempts: Mapped[int] = mapped_column(default=0)
    lease: Mapped[str] = mapped_column(default="")
    lease_until: Mapped[float] = mapped_column(default=0)
    created: Mapped[float] = mapped_column(index=True)
    started: Mapped[float] = mapped_column(default=0)
    finished: Mapped[float] = mapped_column(default=0)
    version: Mapped[int] = mapped_column(default=0)
    said: Mapped[float] = mapped_column(default=0)  # when progress was last worth a word
    report: Mapped[str | None] = mapped_column(Text, default=None)

    __table_args__ = (
        Index("benches_by_stage", "stage", "created"),
        # One benchmark of a pull request at a time, whoever asks.
        Index(
            "benches_one_active",
            "repo",
            "number",
            unique=True,
            sqlite_where=text(_ACTIVE),
            postgresql_where=text(_ACTIVE),
        ),
    )


class BenchFileRow(Base):
    """A file that a benchmark left, such as a trace."""

    __tablename__ = "bench_files"

    bench: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class RunnerRow(Base):
    """A machine that measures, and when it was last heard of."""

    __tablename__ = "runners"

    name: Mapped[str] = mapped_column(primary_key=True)
    labels: Mapped[str]
    device: Mapped[str]
    seen: Mapped[float]


class TurnRow(Base):
    """When GitHub may be written to next as one installation, whoever writes."""

    __tablename__ = "turns"

    key: Mapped[str] = mapped_column(primary_key=True)
    turn: Mapped[str]


def open_engine(url: str, durable: bool = True) -> Engine:
    """A connection pool for the database, with its tables made where they are missing.

    Not `durable`: after a power cut SQLite may be as it was a moment ago. What was stored durably
    by anybody is there all the same, and nothing is there without all that came before it.
    """
    if url.startswith("sqlite"):
        engine = create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})
        event.listen(engine, "connect", partial(_set_up_sqlite, durable))
        event.listen(engine, "begin", _begin_sqlite)
    else:
        engine = create_engine(url, pool_pre_ping=True)
    _make_tables(engine)
    return engine


# Any number that nothing else in the database locks by.
_MAKING = 0x405751DE


def _make_tables(engine: Engine) -> None:
    """One process makes what is missing; others that start with it wait, and find it made.

    SQLite's transactions are writers from their beginning (`_begin_sqlite`) and wait by themselves.
    """
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MAKING})
        Base.metadata.create_all(connection)


READING = "hostside_reading"


def _set_up_sqlite(durable: bool, connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    cursor.execute("PRAGMA busy_timeout = 30000")
    cursor.close()


def _begin_sqlite(connection: Any) -> None:
    # A transaction that starts as a reader and turns writer can fail at once; a writer waits.
    reading = connection.get_execution_options().get(READING)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
