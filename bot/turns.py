"""Whose turn it is to write, for workers on several machines: a locked row of the database."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from sqlalchemy import select, text, update
from sqlalchemy.exc import OperationalError

from bot.github_errors import TryAgainError
from bot.github_turns import Turn
from bot.store import Store
from bot.tables import TurnRow


@dataclass(frozen=True)
class TableTurns:
    """Turns of all workers that share a PostgreSQL database."""

    store: Store

    @contextmanager
    def take(self, key: str, patience: float) -> Generator[Turn]:
        """The turn for this key, held by a row lock until the block ends."""
        insert = self.store.insert(TurnRow).values(key=key, turn=json.dumps(asdict(Turn())))
        with self.store.engine.begin() as connection:
            connection.execute(insert.on_conflict_do_nothing())
        with self.store.engine.begin() as connection:
            connection.execute(text(f"SET LOCAL lock_timeout = {int(patience * 1000)}"))
            row = select(TurnRow.turn).where(TurnRow.key == key).with_for_update()
            try:
                turn = Turn(**json.loads(connection.execute(row).scalar_one()))
            except OperationalError as problem:
                raise TryAgainError(
                    "other workers are writing to GitHub; waiting for a turn", after=patience
                ) from problem
            try:
                yield turn
            finally:
                changed = update(TurnRow).where(TurnRow.key == key)
                connection.execute(changed.values(turn=json.dumps(asdict(turn))))
                connection.commit()
