"""The App's webhook deliveries that failed, and asking for them again.

GitHub does not deliver again by itself what our server did not accept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from bot.github_calls import Calls, Shape
from bot.github_errors import GitHubError

_OLDEST_FIRST_PAGES = 30  # at 100 deliveries a page
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')


class Delivery(Shape):
    """One attempt to deliver an event."""

    id: int
    guid: str
    delivered_at: datetime
    status_code: int = 0
    event: str = ""
    action: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether our server took it."""
        return 200 <= self.status_code < 300


class _Slug(Shape):
    slug: str = ""


@dataclass(frozen=True)
class Deliveries:
    """The App's own requests."""

    calls: Calls

    def slug(self) -> str:
        """The App's name in addresses; its comments are by `slug[bot]`."""
        return self.calls.get("app").read(_Slug).slug

    def failed(self, since: float) -> tuple[Delivery, ...]:
        """Events since then (seconds of the epoch) of which no attempt was accepted."""
        attempts = list(self._since(datetime.fromtimestamp(since, UTC)))
        accepted = {delivery.guid for delivery in attempts if delivery.accepted}
        latest: dict[str, Delivery] = {}
        for delivery in attempts:  # newest first
            if delivery.guid not in accepted:
                latest.setdefault(delivery.guid, delivery)
        return tuple(reversed(latest.values()))

    def _since(self, oldest: datetime) -> list[Delivery]:
        found: list[Delivery] = []
        answer = self.calls.get("app/hook/deliveries", per_page="100")
        for _ in range(_OLDEST_FIRST_PAGES):
            page = answer.read_all(Delivery)
            found += [delivery for delivery in page if delivery.delivered_at >= oldest]
            more = _NEXT.search(answer.headers.get("link", ""))
            if not more or any(delivery.delivered_at < oldest for delivery in page):
                break
            answer = self.calls.get(more[1])
        return found

    def again(self, delivery: Delivery) -> bool:
        """Ask GitHub to deliver it again; False when it is too old for that."""
        try:
            self.calls.edit("POST", f"app/hook/deliveries/{delivery.id}/attempts", None)
        except GitHubError as problem:
            if problem.status in (400, 404, 422):
                return False
            raise
        return True
