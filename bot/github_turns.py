"""Whose turn it is to write: one at a time for each installation, with pauses between.

GitHub asks for serial writes at least a second apart and blocks those who go on after a refusal.
The state lies in a folder, so that all workers of one machine share it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from bot.github_errors import LimitedError, TryAgainError

Answer = TypeVar("Answer")
_POLL = 0.02
_SKEW = 30.0  # seconds that clocks of two machines may be apart
_FIRST_PENALTY, _LONGEST_PENALTY = 60.0, 900.0


@dataclass(frozen=True)
class Clock:
    """Time as it is told and spent; tests pass a faster one."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


@dataclass
class Turn:
    """When the next write may be sent, and how often in a row GitHub refused one for its rate."""

    next: float = 0.0
    strikes: int = 0
    told: float = 0.0  # the time when `next` was last set

    def until(self, moment: float, now: float) -> None:
        """Let the next write wait for this moment."""
        self.next, self.told = moment, now

    def follow(self, now: float) -> None:
        """Keep the pause what it was when the clock was set back meanwhile."""
        if now < self.told - _SKEW:
            self.until(now + self.next - self.told, now)


class Turns(Protocol):
    """Holds one turn for each key; only one caller at a time has it."""

    def take(self, key: str, patience: float) -> AbstractContextManager[Turn]:
        """The turn, kept after the block; raises TryAgainError when others keep it too long."""
        ...


@dataclass
class MemoryTurns:
    """Turns of the threads of one process."""

    _locks: dict[str, threading.Lock] = field(default_factory=dict[str, threading.Lock])
    _turns: dict[str, Turn] = field(default_factory=dict[str, Turn])

    @contextmanager
    def take(self, key: str, patience: float) -> Generator[Turn]:
        """The turn for this key."""
        lock = self._locks.setdefault(key, threading.Lock())
        if not lock.acquire(timeout=patience):
            raise _taken(patience)
        try:
            yield self._turns.setdefault(key, Turn())
        finally:
            lock.release()


@dataclass(frozen=True)
class FileTurns:
    """Turns of all processes of one machine that use this folder."""

    directory: Path
    clock: Clock = field(default_factory=Clock)

    @contextmanager
    def take(self, key: str, patience: float) -> Generator[Turn]:
        """The turn for this key."""
        self.directory.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(key.encode()).hexdigest()[:24]
        with (self.directory / f"{name}.turn").open("a+") as file:
            self._lock(file.fileno(), patience)
            file.seek(0)
            turn = _read(file.read())
            try:
                yield turn
            finally:
                file.seek(0)
                file.truncate()
                file.write(json.dumps(asdict(turn)))
                file.flush()  # the lock goes when the file is closed

    def _lock(self, descriptor: int, patience: float) -> None:
        until = self.clock.now() + patience
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self.clock.now() > until:
                    raise _taken(patience) from None
                self.clock.sleep(_POLL)


def _taken(patience: float) -> TryAgainError:
    return TryAgainError("other workers are writing to GitHub; waiting for a turn", after=patience)


def _read(text: str) -> Turn:
    try:
        state = json.loads(text)
        return Turn(float(state["next"]), int(state["strikes"]), float(state.get("told", 0)))
    except (ValueError, KeyError, TypeError):
        return Turn()  # new, or cut off by a crash while being written


@dataclass(frozen=True)
class Governor:
    """Sends writes when it is their turn and GitHub lets them through."""

    turns: Turns
    gap: float = 1.0  # seconds between two writes
    patience: float = 30.0  # waits that take longer are left to the job queue
    clock: Clock = field(default_factory=Clock)

    def write(self, key: str, send: Callable[[], Answer]) -> Answer:
        """The answer of `send`; LimitedError when GitHub wants a longer pause than we can wait."""
        with self.turns.take(key, self.patience) as turn:
            while True:
                self._wait(turn)
                try:
                    answer = send()
                except LimitedError as limit:  # refused, so nothing was written
                    turn.strikes += 1
                    now = self.clock.now()
                    turn.until(now + (limit.after or penalty(turn.strikes)), now)
                    if turn.strikes > 2 or turn.next - self.clock.now() > self.patience:
                        raise self._later(turn, limit.status) from limit
                    continue
                finally:
                    now = self.clock.now()
                    turn.follow(now)
                    turn.until(max(turn.next, now + self.gap), now)
                turn.strikes = 0
                return answer

    def _wait(self, turn: Turn) -> None:
        now = self.clock.now()
        turn.follow(now)
        wait = turn.next - now
        if wait > self.patience:
            raise self._later(turn, 0)
        if wait > 0:
            self.clock.sleep(wait)

    def _later(self, turn: Turn, status: int) -> LimitedError:
        after = max(turn.next - self.clock.now(), 0)
        return LimitedError(
            f"GitHub limits how fast we may write; going on in {after:.0f} s", status, after
        )


def penalty(strikes: int) -> float:
    """How long to wait after this many refusals in a row that named no time."""
    return min(_FIRST_PENALTY * 2 ** (strikes - 1), _LONGEST_PENALTY)
