"""Stores deliveries before they are answered, many at a time, and rings for their jobs.

One thread writes: what arrives while it waits for the disk goes into the next transaction, so
that a flood of deliveries costs no more waiting than a few. Another thread rings, for a broker
that is away must not keep GitHub waiting; the reaper rings again for what was missed.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bot.logs import say
from bot.store import Store
from bot.work import Bell, Delivery

log = logging.getLogger(__name__)
_BATCH = 100
_MOST_WAITING = 5_000


class FullError(Exception):
    """More deliveries wait than can be stored in time."""


@dataclass(frozen=True)
class _Waiting:
    delivery: Delivery
    stored: asyncio.Future[None]
    loop: asyncio.AbstractEventLoop

    def tell(self, problem: BaseException | None) -> None:
        self.loop.call_soon_threadsafe(self._tell, problem)

    def _tell(self, problem: BaseException | None) -> None:
        if self.stored.done():  # its caller went away
            return
        if problem is None:
            self.stored.set_result(None)
        else:
            self.stored.set_exception(problem)


class Intake:
    """The way in for deliveries; `ring` may fail and may be slow."""

    def __init__(self, store: Store, ring: Callable[[Bell], None]) -> None:
        self._store, self._ring = store, ring
        self._waiting: queue.Queue[_Waiting | None] = queue.Queue(_MOST_WAITING)
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
        loop = asyncio.get_running_loop()
        waiting = _Waiting(delivery, loop.create_future(), loop)
        try:
            self._waiting.put_nowait(waiting)
        except queue.Full:
            raise FullError from None
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
        over = False
        while not over:
            batch = [self._waiting.get()]
            while len(batch) < _BATCH and not self._waiting.empty():
                batch.append(self._waiting.get())
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
            batch[0].tell(problem)
            return
        for waiting, bells in zip(batch, rung, strict=True):
            waiting.tell(None)
            self.ring(bells)

    def _toll(self) -> None:
        while (bell := self._bells.get()) is not None:
            try:
                self._ring(bell)
                self.rung += 1
            except Exception as problem:
                self.unheard += 1
                say(
                    log, "the broker did not take a bell; it is rung again later",
                    logging.WARNING, job=bell.job, problem=type(problem).__name__,
                )  # fmt: skip
