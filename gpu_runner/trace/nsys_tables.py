"""An Nsight Systems database as rows, whatever version wrote it and whoever tampered with it.

The file is opened immutable: no index, journal or lock is ever written beside it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from gpu_runner.trace.names import printable

Row = tuple[object, ...]

STEPS_BETWEEN_CHECKS = 1_000_000
MOST_CHECKS = 20_000  # some minutes: a file that takes longer was made to


def connect(path: Path) -> sqlite3.Connection:
    """A connection that cannot write, trust the schema, or run for ever."""
    address = path.resolve().as_uri() + "?mode=ro&immutable=1"
    connection = sqlite3.connect(address, uri=True)
    connection.text_factory = _text
    connection.execute("PRAGMA trusted_schema=OFF")
    checks = iter(range(MOST_CHECKS))
    connection.set_progress_handler(lambda: next(checks, None) is None, STEPS_BETWEEN_CHECKS)
    return connection


class Tables:
    """The tables that are there, with the columns they have."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        # Views and virtual tables could compute for ever; an export has neither.
        listed = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        self._columns = {
            str(name): self._columns_of(str(name))
            for name, sql in listed.fetchall()
            if not str(sql).upper().lstrip().startswith("CREATE VIRTUAL")
        }

    @property
    def names(self) -> frozenset[str]:
        """All table names."""
        return frozenset(self._columns)

    def has(self, table: str, column: str) -> bool:
        """Whether this version writes the column."""
        return column in self._columns.get(table, frozenset())

    def rows(self, table: str, wanted: tuple[str, ...], suffix: str = "") -> Iterator[Row]:
        """Rows with the wanted columns, None where this version has none.

        `name:column` gives the text that the column's number stands for.
        """
        if table in self._columns:
            columns = ", ".join(self._expression(table, column) for column in wanted)
            yield from self._connection.execute(f'SELECT {columns} FROM "{table}" AS t {suffix}')

    def labels(self, table: str, column: str) -> dict[int, str]:
        """Number -> text of one of the ENUM tables."""
        found = self.rows(table, ("id", column))
        return {
            whole(number): printable(str(label)) for number, label in found if label is not None
        }

    def _columns_of(self, table: str) -> frozenset[str]:
        quoted = table.replace('"', '""')
        found = self._connection.execute(f'PRAGMA table_info("{quoted}")')
        return frozenset(str(row[1]) for row in found)

    def _expression(self, table: str, wanted: str) -> str:
        column = wanted.removeprefix("name:")
        if not self.has(table, column):
            return "NULL"
        if column == wanted:
            return f't."{column}"'
        if self.has("StringIds", "value"):
            return f'(SELECT value FROM StringIds WHERE id = t."{column}")'
        return "NULL"


def whole(value: object) -> int:
    """The number, or -1 where there is none."""
    return value if isinstance(value, int) else -1


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
