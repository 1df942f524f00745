"""The deterministic stream model: a GPU of known timing, for tests and for labelled what-ifs.

A host clock issues operations to streams. Each operation starts once it is issued, once everything
it needs has ended, and once its engine is free: one engine copies to the device, one copies from
it, one computes. Of several operations that wait for an engine, the one that was ready first goes
first. What comes out is modelled and never called measured.

Rules: https://docs.nvidia.com/cuda/cuda-runtime-api/stream-sync-behavior.html (default stream) and
https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html (pageable copies).
Not modelled: kernels slowing each other or the copies down, and both directions of the bus sharing
its rate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gpu_runner.recording import (
    ENGINES,
    LEGACY,
    Call,
    Hardware,
    Memory,
    Operation,
    Recording,
    Work,
)

REGION = "gpu_bench_region"


@dataclass(eq=False)
class _Issued:
    """An operation on its way: its time is known once everything before it is."""

    work: Work
    name: str
    stream: int
    issued: int
    length: int
    correlation: int
    needs: tuple[_Issued, ...]
    size: int = 0
    memory: Memory | None = None
    start: int = -1
    end: int = -1

    def ready(self) -> int | None:
        """When it could start with a free engine, or None while a need has no end yet."""
        if any(each.end < 0 for each in self.needs):
            return None
        return max([self.issued, *(each.end for each in self.needs)])


@dataclass(frozen=True, eq=False)
class Event:
    """A point in a stream that others can wait for."""

    marker: _Issued


@dataclass
class ModelGpu:
    """A GPU with a host that drives it; every method is one call of the host."""

    hardware: Hardware = field(default_factory=Hardware)
    now: int = 0

    def __post_init__(self) -> None:
        self._queues: dict[int, deque[_Issued]] = {LEGACY: deque()}
        self._tails: dict[int, _Issued] = {}
        self._blocking: set[int] = set()
        self._free = {engine: [0] for engine in ENGINES.values()}
        self._free["compute"] = [0] * self.hardware.kernels_at_once
        self._done: list[_Issued] = []
        self._calls: list[Call] = []
        self._regions: list[tuple[str, int, int]] = []
        self._correlation = 0

    # --- what a host program does -----------------------------------------------------------

    def stream(self, blocking: bool = True) -> int:
        """A new stream; a blocking one is ordered with the legacy default stream."""
        number = LEGACY + len(self._queues)
        self._queues[number] = deque()
        if blocking:
            self._blocking.add(number)
        return number

    def host_work(self, nanoseconds: int) -> None:
        """The host computes; the GPU goes on with what it has."""
        self.now += nanoseconds

    def launch(self, name: str, nanoseconds: int, stream: int = LEGACY) -> None:
        """Launch a kernel of that length."""
        self._call("cudaLaunchKernel", self._issue(Work.KERNEL, stream, nanoseconds, name=name))

    def copy(
        self,
        work: Work,
        size: int,
        memory: Memory,
        stream: int = LEGACY,
        *,
        wait: bool = False,
        nanoseconds: int | None = None,
    ) -> None:
        """Copy between host and device; waits if asked to, or if the memory is pageable."""
        length = self.hardware.copy_ns(size, memory) if nanoseconds is None else nanoseconds
        issued = self._issue(work, stream, length, size=size, memory=memory)
        blocks = wait or memory == Memory.PAGEABLE
        self._call("cudaMemcpy" if wait else "cudaMemcpyAsync", issued, blocks)

    def copy_on_device(self, size: int, stream: int = LEGACY) -> None:
        """Copy within device memory: read once, written once."""
        issued = self._issue(Work.D2D, stream, self.hardware.traffic_ns(2 * size), size=size)
        self._call("cudaMemcpyAsync", issued)

    def memset(self, size: int, stream: int = LEGACY) -> None:
        """Fill device memory."""
        issued = self._issue(Work.MEMSET, stream, self.hardware.traffic_ns(size), size=size)
        self._call("cudaMemsetAsync", issued)

    def record(self, stream: int = LEGACY) -> Event:
        """An event after everything the stream has been given so far."""
        return Event(self._marker("cudaEventRecord", stream))

    def latest(self, stream: int = LEGACY) -> Event | None:
        """The stream's latest work as an event, without putting anything into the stream."""
        return Event(self._tails[stream]) if stream in self._tails else None

    def wait_event(self, event: Event, stream: int = LEGACY) -> None:
        """Later work of the stream waits for the event; the host does not."""
        self._marker("cudaStreamWaitEvent", stream, (event.marker,))

    def synchronize(self) -> None:
        """The host waits for everything."""
        self._wait("cudaDeviceSynchronize", self._tails.values())

    def stream_synchronize(self, stream: int = LEGACY) -> None:
        """The host waits for one stream (and, for the default stream, the blocking ones)."""
        self._wait("cudaStreamSynchronize", self._needs(stream))

    def event_synchronize(self, event: Event) -> None:
        """The host waits for an event."""
        self._wait("cudaEventSynchronize", (event.marker,))

    @contextmanager
    def region(self, name: str = REGION) -> Generator[None]:
        """A named range, as a profiler's `record_function` leaves it in a trace."""
        start = self.now
        yield
        self._regions.append((name, start, self.now))

    def finish(self) -> Recording:
        """Everything that happened, after all work has ended."""
        self._settle(self._tails.values())
        operations = tuple(
            Operation(e.work, e.name, e.stream, e.start, e.end, e.correlation, e.size, e.memory)
            for e in sorted(self._done, key=lambda each: (each.start, each.correlation))
            if e.work != Work.MARKER
        )
        wall = max([self.now, *(each.end for each in operations)])
        regions = tuple(self._regions)
        return Recording(self.hardware, operations, tuple(self._calls), regions, wall)

    # --- how it comes about -----------------------------------------------------------------

    def _issue(
        self,
        work: Work,
        stream: int,
        length: int,
        *,
        name: str = "",
        size: int = 0,
        memory: Memory | None = None,
        needs: tuple[_Issued, ...] = (),
    ) -> _Issued:
        if stream not in self._queues:
            raise ValueError(f"there is no stream {stream}; make one with stream()")
        cost = 0 if work == Work.MARKER else self.hardware.call_ns
        self._correlation += 1
        needs = (*self._needs(stream), *needs)
        issued = _Issued(
            work, name, stream, self.now + cost, length, self._correlation, needs, size, memory
        )
        self._queues[stream].append(issued)
        self._tails[stream] = issued
        return issued

    def _needs(self, stream: int) -> tuple[_Issued, ...]:
        """What must end before new work of the stream: the legacy default stream's rules."""
        if stream == LEGACY:
            streams = [LEGACY, *sorted(self._blocking)]
        else:
            streams = [stream, LEGACY] if stream in self._blocking else [stream]
        return tuple(self._tails[each] for each in streams if each in self._tails)

    def _marker(self, call: str, stream: int, needs: tuple[_Issued, ...] = ()) -> _Issued:
        marker = self._issue(Work.MARKER, stream, 0, needs=needs)
        self._calls.append(Call(call, self.now, self.now, marker.correlation))
        return marker

    def _call(self, name: str, issued: _Issued, wait: bool = False) -> None:
        start, self.now = self.now, issued.issued
        if wait:
            self._settle((issued,))
            self.now = max(self.now, issued.end)
        self._calls.append(Call(name, start, self.now, issued.correlation, wait))

    def _wait(self, name: str, awaited: Iterable[_Issued]) -> None:
        start, awaited = self.now, tuple(awaited)
        self._settle(awaited)
        self.now = max([self.now, *(each.end for each in awaited)])
        self._correlation += 1
        self._calls.append(Call(name, start, self.now, self._correlation, waits=True))

    def _settle(self, awaited: Iterable[_Issued]) -> None:
        """Give times to operations, earliest start first, until the awaited ones have theirs.

        The earliest possible start among the heads of all streams is final: whatever is not
        ready yet starts later, and whatever the host issues next is issued later.
        """
        for last in awaited:
            while last.end < 0:
                start, _, _, chosen = min(self._candidates())
                frees = self._free.get(ENGINES.get(chosen.work, ""), [start])
                chosen.start, chosen.end = start, start + chosen.length
                frees[frees.index(min(frees))] = chosen.end
                self._done.append(self._queues[chosen.stream].popleft())

    def _candidates(self) -> Iterator[tuple[int, int, int, _Issued]]:
        """Start, time of readiness, order of issue and operation, for each stream's next one."""
        for queue in self._queues.values():
            ready = queue[0].ready() if queue else None
            if ready is not None:
                head = queue[0]
                engine = ENGINES.get(head.work)
                free = min(self._free[engine]) if engine else 0
                yield max(ready, free), ready, head.correlation, head
