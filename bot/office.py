"""What a worker process opens once: the job table, the bell, and GitHub as each installation."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING

from bot.bench_work import Quota
from bot.dispatch import Office, work_on
from bot.github import Access, connect, connect_workflows
from bot.github_turns import FileTurns, Turns
from bot.settings import Settings
from bot.store import Store, Terms
from bot.work import Job

if TYPE_CHECKING:
    from bot.github_actions import Workflows
    from bot.pulls import PullClient

_MOST_CLIENTS = 32


def open_store(settings: Settings, durable: bool = True) -> Store:
    """The job table of these settings."""
    if not settings.database_url:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    terms = Terms(settings.lease_seconds, settings.max_attempts, settings.retry_seconds)
    return Store(settings.database, terms, durable)


def access(settings: Settings, store: Store) -> Access:
    """How GitHub is reached; all workers of an installation share the pauses between writes."""
    turns: Turns = FileTurns(settings.data_dir / "turns")
    if store.engine.dialect.name != "sqlite":
        from bot.turns import TableTurns

        turns = TableTurns(store)
    return Access(
        api_url=settings.github_api_url,
        app_id=str(settings.app_id),
        private_key=settings.key,
        api_version=settings.github_api_version,
        turns=turns,
        write_gap=settings.write_seconds,
    )


class Clients:
    """Connections to GitHub, kept with their tokens from job to job."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._open: OrderedDict[tuple[int, str], PullClient] = OrderedDict()

    def __call__(self, job: Job) -> PullClient:
        """The client for the job's repository."""
        key = (job.installation, job.repo)
        client = self._open.pop(key, None)
        if client is None:
            client = connect(self._access, job.installation, repository=job.repo)
        self._open[key] = client
        if len(self._open) > _MOST_CLIENTS:
            self._open.popitem(last=False)[1].close()
        return client


class Worker:
    """Does jobs by number; what it needs is opened at the first one, in the process that works."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._office: Office | None = None
        self._pid = 0

    def __call__(self, number: int) -> None:
        """Do the job with this number."""
        if self._office is None or self._pid != os.getpid():
            self._office, self._pid = self._opened(), os.getpid()
        work_on(self._office, number)

    def _opened(self) -> Office:
        from bot.tasks import bell

        # Whatever a power cut takes from a worker is done again, so it need not wait for the disk,
        # nor keep waiting for it the process that answers GitHub.
        store = open_store(self._settings, durable=False)
        settings = self._settings
        return Office(
            store,
            Clients(access(settings, store)),
            bell(settings),
            quota=Quota(settings.bench_per_repository, settings.bench_per_person),
            pages=settings.public_url,
            open_workflows=self._workflows,
        )

    def _workflows(self, job: Job) -> Workflows:
        """The workflows of the job's repository."""
        assert self._office is not None
        reach = access(self._settings, self._office.store)
        return connect_workflows(reach, job.installation, repository=job.repo)
