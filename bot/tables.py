"""The service's tables: SQLite in WAL mode on one machine, PostgreSQL by URL on several."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, Index, Text, create_engine, event, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

RUNNING = "running"


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


class TurnRow(Base):
    """When GitHub may be written to next as one installation, whoever writes."""

    __tablename__ = "turns"

    key: Mapped[str] = mapped_column(primary_key=True)
    turn: Mapped[str]


def open_engine(url: str) -> Engine:
    """A connection pool for the database, with its tables made where they are missing."""
    if url.startswith("sqlite"):
        engine = create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    else:
        engine = create_engine(url, pool_pre_ping=True)
    Base.metadata.create_all(engine)
    return engine


READING = "hostside_reading"


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    # FULL, so that a delivery answered with 202 outlives a power cut too.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA busy_timeout = 30000")
    cursor.close()


def _begin_sqlite(connection: Any) -> None:
    # A transaction that starts as a reader and turns writer can fail at once; a writer waits.
    reading = connection.get_execution_options().get(READING)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
