"""The raw traces that a machine sends along with its result, within limits."""

from __future__ import annotations

import re

from sqlalchemy import delete, func, select, update

from bot.bench_result import (
    FILE_NAME,
    LARGEST_FILE,
    LONGEST_NAME,
    MOST_FILE_BYTES,
    MOST_FILES,
    ResultError,
)
from bot.bench_work import ACTIVE, HELD
from bot.store import Store
from bot.tables import BenchFileRow, BenchRow

GZIP = b"\x1f\x8b"


def check_name(name: str) -> None:
    """Raise a ResultError unless a file may be called so."""
    if len(name) > LONGEST_NAME or not re.fullmatch(FILE_NAME, name):
        raise ResultError("a file is called what no trace is called; they end in .json.gz")


def forget(store: Store, before: float) -> None:
    """Drop the traces of benchmarks that ended before this time; what they told stays."""
    over = select(BenchRow.id).where(BenchRow.stage.not_in(ACTIVE), BenchRow.finished < before)
    with store.engine.begin() as connection:
        connection.execute(delete(BenchFileRow).where(BenchFileRow.bench.in_(over)))


def keep(store: Store, bench: int, lease: str, name: str, content: bytes) -> bool:
    """Whether the machine with this lease still has the benchmark, and its file is kept."""
    check_name(name)
    if len(content) > LARGEST_FILE or not content.startswith(GZIP):
        raise ResultError(f"{name} is no gzip file of at most {LARGEST_FILE >> 20} MiB")
    others = (BenchFileRow.bench == bench, BenchFileRow.name != name)
    count = select(func.count(), func.coalesce(func.sum(func.length(BenchFileRow.content)), 0))
    with store.engine.begin() as connection:
        mine = (BenchRow.id == bench, BenchRow.lease == lease, BenchRow.stage.in_(HELD))
        # Also locks the row, so that no lease changes hands meanwhile.
        locked = update(BenchRow).where(*mine).values(lease=lease)
        if not lease or not connection.execute(locked).rowcount:
            return False
        number, total = connection.execute(count.where(*others)).one()
        if number >= MOST_FILES or total + len(content) > MOST_FILE_BYTES:
            raise ResultError(
                f"there are more files than {MOST_FILES}, or more than "
                f"{MOST_FILE_BYTES >> 20} MiB of them together"
            )
        connection.execute(
            delete(BenchFileRow).where(BenchFileRow.bench == bench, BenchFileRow.name == name)
        )
        row = {"bench": bench, "name": name, "content": content}
        connection.execute(store.insert(BenchFileRow).values(row))
    return True
