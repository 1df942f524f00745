"""What the stream model takes and gives: a machine's rates, and all that happened on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LEGACY = 7  # the default stream, as CUPTI numbers it in the first context


class Work(StrEnum):
    """What an operation does; markers (event record and wait) take no time and are not traced."""

    KERNEL = "kernel"
    H2D = "HtoD"
    D2H = "DtoH"
    D2D = "DtoD"
    MEMSET = "memset"
    MARKER = "marker"


class Memory(StrEnum):
    """Where the host's side of a copy lies."""

    PINNED = "Pinned"
    PAGEABLE = "Pageable"


ENGINES = {
    Work.H2D: "copy to device",
    Work.D2H: "copy from device",
    Work.KERNEL: "compute",
    Work.D2D: "compute",  # the memory's and the multiprocessors' work, not the bus's
    Work.MEMSET: "compute",
}


@dataclass(frozen=True)
class Hardware:
    """Rates of the modelled machine; GB/s are bytes per nanosecond."""

    name: str = "modelled GPU"
    pinned_gb_per_s: float = 25.0
    pageable_gb_per_s: float = 8.0
    memory_gb_per_s: float = 1000.0
    call_ns: int = 5_000  # the host's time for a launch or the issue of a copy
    kernels_at_once: int = 1

    def copy_ns(self, size: int, memory: Memory) -> int:
        """Time on the bus."""
        pinned = memory == Memory.PINNED
        return round(size / (self.pinned_gb_per_s if pinned else self.pageable_gb_per_s))

    def traffic_ns(self, size: int) -> int:
        """Time of a kernel limited by `size` bytes of device memory traffic."""
        return round(size / self.memory_gb_per_s)


@dataclass(frozen=True)
class Operation:
    """A piece of GPU work with the time it took."""

    work: Work
    name: str
    stream: int
    start: int
    end: int
    correlation: int
    size: int = 0
    memory: Memory | None = None


@dataclass(frozen=True)
class Call:
    """A call of the host into the runtime; `waits` when it returned only after GPU work ended."""

    name: str
    start: int
    end: int
    correlation: int
    waits: bool = False


@dataclass(frozen=True)
class Recording:
    """All that happened on one modelled GPU; times are nanoseconds from its start."""

    hardware: Hardware
    operations: tuple[Operation, ...]
    calls: tuple[Call, ...]
    regions: tuple[tuple[str, int, int], ...]
    wall_ns: int
