"""Keeps the lease of a job alive while it is worked on, and notices when it was lost."""

from __future__ import annotations

import logging
import threading

from bot.logs import say
from bot.store import Store
from bot.work import Job

log = logging.getLogger(__name__)


class Heartbeat:
    """Renews a lease until the block ends."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store, self._job = store, job
        self._over = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def held(self) -> bool:
        """Whether the job is still ours, asked of the table itself."""
        return not self._lost.is_set() and self._store.renew(self._job)

    def _beat(self) -> None:
        while not self._over.wait(self._store.terms.lease_seconds / 3):
            try:
                if not self._store.renew(self._job):
                    self._lost.set()
                    return
            except Exception:  # the database may be back before the lease is over
                say(log, "the lease could not be renewed", logging.WARNING, job=self._job.id)
