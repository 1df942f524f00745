"""Bytes and bandwidth of copies, by direction and by the kind of the host's memory."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_runner.trace.events import GpuEvent, Kind
from gpu_runner.trace.intervals import measure, union

LARGE = 1 << 20  # copies from here on show the bus's speed
SMALL = 64 << 10  # copies below here show its latency
PINNED, PAGEABLE = "Pinned", "Pageable"


@dataclass(frozen=True, slots=True)
class Transfer:
    """The copies of one direction and kind of host memory."""

    direction: str
    memory: str  # empty where both ends are on devices
    copies: int
    small_copies: int
    bytes: int | None
    gb_per_s: float | None  # bytes over the time in which at least one of them ran
    median_large_gb_per_s: float | None  # of single copies of 1 MiB and more


@dataclass(frozen=True, slots=True)
class Transfers:
    """All copies of one device inside the scope."""

    counts: tuple[tuple[str, int], ...]  # by direction
    bytes: tuple[tuple[str, int], ...]
    gb_per_s: tuple[tuple[str, float], ...]
    host_memory_bytes: tuple[tuple[str, int], ...]
    by_memory: tuple[Transfer, ...]

    @property
    def pinned_share(self) -> float | None:
        """Pinned part of the bytes whose memory is known; None if none is (as on ROCm)."""
        known = dict(self.host_memory_bytes)
        pinned, pageable = known.get(PINNED, 0), known.get(PAGEABLE, 0)
        return pinned / (pinned + pageable) if pinned + pageable else None


def transfers(events: Iterable[GpuEvent]) -> Transfers:
    """Counts and speeds of the copies among the events; those of no length have no speed."""
    by_direction: dict[str, list[GpuEvent]] = defaultdict(list)
    by_memory: dict[tuple[str, str], list[GpuEvent]] = defaultdict(list)
    host: Counter[str] = Counter()
    for event in events:
        if not event.direction:
            continue
        by_direction[event.direction].append(event)
        by_memory[event.direction, event.memory].append(event)
        if event.kind in (Kind.H2D, Kind.D2H) and event.memory:
            host[event.memory] += event.size or 0
    sizes = {direction: _bytes(copies) for direction, copies in by_direction.items()}
    speeds = {direction: _speed(copies) for direction, copies in by_direction.items()}
    return Transfers(
        counts=tuple(sorted((direction, len(some)) for direction, some in by_direction.items())),
        bytes=tuple(sorted((name, size) for name, size in sizes.items() if size is not None)),
        gb_per_s=tuple(
            sorted((name, speed) for name, speed in speeds.items() if speed is not None)
        ),
        host_memory_bytes=tuple(sorted(host.items())),
        by_memory=tuple(_transfer(*key, some) for key, some in sorted(by_memory.items())),
    )


def _transfer(direction: str, memory: str, copies: Sequence[GpuEvent]) -> Transfer:
    large = [
        event.size / (event.end - event.start)
        for event in copies
        if event.size is not None and event.size >= LARGE and event.end > event.start
    ]
    return Transfer(
        direction=direction,
        memory=memory,
        copies=len(copies),
        small_copies=sum(event.size is not None and event.size < SMALL for event in copies),
        bytes=_bytes(copies),
        gb_per_s=_speed(copies),
        median_large_gb_per_s=statistics.median(large) if large else None,
    )


def _bytes(copies: Iterable[GpuEvent]) -> int | None:
    sizes = [event.size for event in copies if event.size is not None]
    return sum(sizes) if sizes else None


def _speed(copies: Iterable[GpuEvent]) -> float | None:
    timed = [event for event in copies if event.end > event.start and event.size is not None]
    busy = measure(union((event.start, event.end) for event in timed))
    return sum(event.size or 0 for event in timed) / busy if busy else None
