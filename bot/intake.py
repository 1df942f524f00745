"""Stores deliveries before they are answered, many at a time, and rings for their jobs.

One thread writes: what arrives while it waits for the disk goes into the next transaction, so
that a flood of deliveries costs no more waiting than a few. Another thread rings, for a broker
that is away must not keep GitHub waiting; the reaper rings again for what was missed. It rings no
faster than anybody could review, and not for what a newer push took the place of meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bot.logs import say
from bot.store import Store
from bot.work import Bell, Delivery

log = logging.getLogger(__name__)
_BATCH = 100
_MOST_WAITING = 5_000
_GATHER_SECONDS = 0.02  # between two transactions; a delivery that comes alone does not wait
_PEAL, _PEAL_SECONDS = 10, 0.2  # bells in a row, and the pause when more are waiting


class FullError(Exception):
    """More deliveries wait than can be stored in time."""


@dataclass(frozen=True)
class _Waiting:
    delivery: Delivery
    stored: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop

    def tell(self, problem: BaseException | None) -> None:
        if self.stored.done():  # its caller went away
            return
        if problem is None:
            self.stored.set_result(None)
        else:
            self.stored.set_exception(problem)


def _tell(batch: list[_Waiting], problem: BaseException | None) -> None:
    """Answer them all; waking a loop costs more than telling it much."""
    for loop in {waiting.loop for waiting in batch}:
        mine = [waiting for waiting in batch if waiting.loop is loop]
        loop.call_soon_threadsafe(lambda mine=mine: [w.tell(problem) for w in mine])


class Intake:
    """The way in for deliveries; `ring` may fail and may be slow."""

    def __init__(self, store: Store, ring: Callable[[Bell], None]) -> None:
        self._store, self._ring = store, ring
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._bells: queue.SimpleQueue[Bell | None] = queue.SimpleQueue()
        self.rung = self.unheard = 0
        self._writer = threading.Thread(target=self._write, name="intake", daemon=True)
        self._ringer = threading.Thread(target=self._toll, name="bell", daemon=True)
        self._writer.start()
        self._ringer.start()

    @property
    def alive(self) -> bool:
        """Whether both threads are at work."""
        return self._writer.is_alive() and self._ringer.is_alive()

    async def accept(self, delivery: Delivery) -> None:
        """Return when the delivery and its jobs are on the disk."""
        if self._waiting.qsize() >= _MOST_WAITING:
            raise FullError
        loop = asyncio.get_running_loop()
        waiting = _Waiting(delivery, loop.create_future(), loop)
        self._waiting.put(waiting)
        await waiting.stored

    def ring(self, bells: Iterable[Bell]) -> None:
        """Ring soon."""
        for bell in bells:
            self._bells.put(bell)

    def close(self) -> None:
        """Store what waits, ring for it, and end."""
        self._waiting.put(None)
        self._writer.join()
        self._bells.put(None)
        self._ringer.join(timeout=5)

    def _write(self) -> None:
        over, next_one = False, 0.0
        while not over:
            batch = [self._waiting.get()]
            time.sleep(max(next_one - time.monotonic(), 0))
            while len(batch) < _BATCH and not self._waiting.empty():
                batch.append(self._waiting.get())
            next_one = time.monotonic() + _GATHER_SECONDS
            over = None in batch
            self._store_all([waiting for waiting in batch if waiting])

    def _store_all(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        try:
            rung = self._store.accept([waiting.delivery for waiting in batch])
        except Exception as problem:
            if len(batch) > 1:  # one oddity must not cost the others
                for waiting in batch:
                    self._store_all([waiting])
                return
            say(
                log, "a delivery could not be stored", logging.ERROR, problem=type(problem).__name__
            )
            _tell(batch, problem)
            return
        for bells in rung:
            self.ring(bells)
        _tell(batch, None)

    def _toll(self) -> None:
        waiting: dict[int, Bell] = {}
        over = False
        while waiting or not over:
            over = self._gather(waiting) or over
            if len(waiting) > _PEAL:
                waiting = self._still_wanted(waiting)
            for bell in tuple(waiting.values())[:_PEAL]:
                del waiting[bell.job]
                self._ring_once(bell)
            if waiting and not over:
                time.sleep(_PEAL_SECONDS)

    def _gather(self, waiting: dict[int, Bell]) -> bool:
        """Add all bells that have come; whether they were the last. Waits when there are none."""
        while not (waiting and self._bells.empty()):
            bell = self._bells.get()
            if bell is None:
                return True
            waiting[bell.job] = bell
        return False

    def _still_wanted(self, waiting: dict[int, Bell]) -> dict[int, Bell]:
        try:
            wanted = self._store.queued(waiting)
        except Exception as problem:  # a bell too many does no harm
            kind = type(problem).__name__
            say(log, "the job table could not be asked", logging.WARNING, problem=kind)
            return waiting
        return {job: bell for job, bell in waiting.items() if job in wanted}

    def _ring_once(self, bell: Bell) -> None:
        try:
            self._ring(bell)
            self.rung += 1
        except Exception as problem:
            self.unheard += 1
            say(
                log, "the broker did not take a bell; it is rung again later",
                logging.WARNING, job=bell.job, problem=type(problem).__name__,
            )  # fmt: skip
