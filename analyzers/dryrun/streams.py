"""The order between streams: a small vector clock.

Each stream counts the operations enqueued on it. An operation is ordered before new work on
another stream once that stream has waited for it, or once the host has (the host enqueues
everything, so what it waited for lies before whatever it enqueues next). Work on a stream that
cannot be told (ANY) counts as ordered with everything: silence is better than a wrong alarm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

DEFAULT = ""  # the name of the default stream
ANY = "?"  # a stream that may be any other


class Operation(NamedTuple):
    """A piece of device work: the stream it was enqueued on and its number there."""

    stream: str
    tick: int


@dataclass
class Order:
    """Who has waited for what so far on one path through the code."""

    ticks: dict[str, int] = field(default_factory=dict[str, int])
    seen: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    host: dict[str, int] = field(default_factory=dict[str, int])

    def copy(self) -> Order:
        """An independent copy, for one arm of a branch."""
        return Order(dict(self.ticks), dict(self.seen), dict(self.host))

    def enqueue(self, stream: str) -> Operation:
        """A new operation on that stream."""
        tick = self.ticks.get(stream, 0) + 1
        self.ticks[stream] = tick
        return Operation(stream, tick)

    def stream_waits(self, waiter: str, other: str, tick: int | None = None) -> None:
        """`waiter` starts nothing new before `other` has finished what it has now (or `tick`)."""
        if ANY in (waiter, other):
            self._unknown_wait(waiter, other)
            return
        reached = self.ticks.get(other, 0) if tick is None else tick
        self._raise_to(waiter, other, reached)
        for (known_by, third), count in list(self.seen.items()):
            if known_by == other:
                self._raise_to(waiter, third, count)

    def _unknown_wait(self, waiter: str, other: str) -> None:
        """One of the two is not known: believe that it is the right one."""
        names = [name for name in {*self.ticks, DEFAULT} if name != ANY]
        for one in names if waiter == ANY else [waiter]:
            for two in names if other == ANY else [other]:
                self._raise_to(one, two, self.ticks.get(two, 0))

    def host_waits(self, stream: str | None = None, tick: int | None = None) -> None:
        """The host waits for one stream (up to `tick`), or for the whole device."""
        if stream == ANY:
            stream = None
        for name in [stream] if stream is not None else list(self.ticks):
            reached = self.ticks.get(name, 0) if tick is None else tick
            self.host[name] = max(self.host.get(name, 0), reached)
            for (known_by, third), count in self.seen.items():
                if known_by == name:
                    self.host[third] = max(self.host.get(third, 0), count)

    def before(self, operation: Operation, stream: str) -> bool:
        """Whether new work on `stream` starts after `operation` has finished."""
        if operation.stream == stream or ANY in (stream, operation.stream):
            return True
        return self.done(operation) or (
            self.seen.get((stream, operation.stream), 0) >= operation.tick
        )

    def done(self, operation: Operation) -> bool:
        """Whether the host knows that `operation` has finished."""
        return self.host.get(operation.stream, 0) >= operation.tick

    def merge(self, other: Order) -> None:
        """Join two paths: an order that one of them established counts.

        Waits often stand behind the same condition as the work they wait for, so taking the
        other path for a missing wait would report races that cannot happen.
        """
        for mine, theirs in ((self.ticks, other.ticks), (self.host, other.host)):
            for key, count in theirs.items():
                mine[key] = max(mine.get(key, 0), count)
        for key, count in other.seen.items():
            self.seen[key] = max(self.seen.get(key, 0), count)

    def _raise_to(self, waiter: str, other: str, count: int) -> None:
        if waiter != other:
            self.seen[waiter, other] = max(self.seen.get((waiter, other), 0), count)
