"""Opens the service's side for runners: the table, the secrets, and the way to the source."""

from __future__ import annotations

from bot.bench_source import sources
from bot.bench_work import Order
from bot.benches import Benches
from bot.github import READING, connect
from bot.github_git import Origin
from bot.office import access
from bot.pulls import PullRef
from bot.runner_api import Desk
from bot.settings import Settings
from bot.store import Store


def open_desk(settings: Settings, store: Store) -> Desk | None:
    """Where machines that measure report; None when there is no token to sign in with."""
    if not settings.runner_tokens:
        return None
    way = access(settings, store)

    def origin(order: Order) -> Origin:
        owner, _, name = order.repo.partition("/")
        ref = PullRef(owner, name, order.number, order.base_sha, order.head_sha, order.installation)
        client = connect(way, order.installation, repository=order.repo, permissions=READING)
        try:
            return client.origin(ref)
        finally:
            client.close()

    made = sources(origin, settings.bench_source_mib)
    return Desk(Benches(store), made, settings.runner_tokens, settings.lease_seconds)
