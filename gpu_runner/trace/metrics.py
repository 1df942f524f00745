"""The numbers of one device, in whole nanoseconds; definitions in docs/trace.md.

Busy times are measures of unions, never sums: kernels of two streams, or of one, may run at once.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_runner.errors import RunnerError
from gpu_runner.trace.collect import LATEST
from gpu_runner.trace.events import NSYS, GpuEvent, HostCall, Kind, Role, Trace
from gpu_runner.trace.host import Launches, Waits, launches, waits
from gpu_runner.trace.intervals import Intervals, intersect, measure, subtract, union
from gpu_runner.trace.names import communicates
from gpu_runner.trace.pause import collector_paused
from gpu_runner.trace.quality import (
    Cleaned,
    Correlations,
    Coverage,
    cleaned,
    coverage,
    key_of,
    real_launches,
)
from gpu_runner.trace.scope import named_scope, whole_scope
from gpu_runner.trace.transfers import Transfers, transfers

MOST_DEVICES = 256  # in one report; a file can name as many as it likes


@dataclass(frozen=True, slots=True)
class Lanes:
    """When each kind of activity ran inside the scope: the sets all numbers are measures of."""

    scope: Intervals
    kernels: Intervals
    h2d: Intervals
    d2h: Intervals
    d2d: Intervals
    peer: Intervals
    unified: Intervals
    memset: Intervals
    communication: Intervals
    computation: Intervals  # kernels other than communication
    sync: Intervals  # host waits, all threads
    active: Intervals  # everything on the GPU

    @property
    def copies(self) -> Intervals:
        """Copies between host and device; those inside a device load its memory, not the bus."""
        return union((*self.h2d, *self.d2h))

    @property
    def overlap(self) -> Intervals:
        """Copies that run under kernels."""
        return intersect(self.kernels, self.copies)

    @property
    def idle(self) -> Intervals:
        """Nothing at all on the GPU."""
        return subtract(self.scope, self.active)


@dataclass(frozen=True, slots=True)
class Partition:
    """The scope cut into five parts that sum to it; a time belongs to the first that claims it."""

    compute: int
    exposed_h2d: int
    exposed_d2h: int
    other: int  # memsets and device-side copies outside of the above
    idle: int


@dataclass(frozen=True, slots=True)
class DeviceMetrics:
    """What one device did."""

    device: int | None  # None: the file holds no GPU work
    name: str
    lanes: Lanes
    kernels: int
    memsets: int
    kernel_sum: int
    default_stream_kernels: int
    default_stream_copies: int
    host_copies: int
    transfers: Transfers
    waits: Waits
    launches: Launches
    cleaned: Cleaned
    coverage: Coverage
    overhead: int

    @property
    def region(self) -> int:
        """Length of the scope."""
        return measure(self.lanes.scope)

    @property
    def overlap_shown(self) -> bool:
        """Whether the records are complete enough to speak of overlap."""
        return self.coverage.complete

    @property
    def partition(self) -> Partition:
        """The five parts of the scope."""
        lanes = self.lanes
        bare_h2d = subtract(lanes.h2d, lanes.kernels)
        bare_d2h = subtract(subtract(lanes.d2h, lanes.kernels), lanes.h2d)
        parts = measure(lanes.kernels), measure(bare_h2d), measure(bare_d2h)
        idle = measure(lanes.idle)
        return Partition(*parts, self.region - sum(parts) - idle, idle)


def device_metrics(
    trace: Trace, device: int | None = None, region: str | None = None
) -> tuple[DeviceMetrics, ...]:
    """The numbers of every device of the trace, or of one; a file without GPU work gives zeros."""
    if device is not None and device not in trace.devices:
        there = ", ".join(str(number) for number in trace.devices[:MOST_DEVICES]) or "none"
        raise RunnerError(f"{trace.source} has no device {device}; devices with work: {there}")
    if device is None and len(trace.devices) > MOST_DEVICES:
        raise RunnerError(
            f"{trace.source} names {len(trace.devices):,} devices, more than the {MOST_DEVICES} "
            "that a machine may have; choose one with --device"
        )
    scope = named_scope(trace, region) if region is not None else None
    known = Correlations(
        calls=frozenset(key_of(call) for call in trace.calls if call.correlation >= 0),
        works=frozenset(key_of(event) for event in trace.events),
    )
    wanted: tuple[int | None, ...] = trace.devices or (None,)
    if device is not None:
        wanted = (device,)
    with collector_paused():
        return tuple(_one_device(trace, number, scope, known) for number in wanted)


def _one_device(
    trace: Trace, device: int | None, named: Intervals | None, known: Correlations
) -> DeviceMetrics:
    repaired = cleaned(event for event in trace.events if event.device == device)
    every = (*repaired.events, *repaired.zero_length)
    scope = whole_scope(repaired.events) if named is None else named
    inside = every if named is None else tuple(event for event in every if _touches(event, named))
    calls = _calls_of(trace.calls, every)
    lanes = _lanes([event for event in inside if event.end > event.start], calls, scope)
    works = {key_of(event): event for event in every}
    launched = [
        call for call in real_launches(calls) if named is None or _contains(named, call.start)
    ]
    match = coverage(inside, launched, known, trace.layout == NSYS)
    starts = {key_of(call): call for call in calls if call.correlation >= 0}
    host = [event for event in inside if event.kind in (Kind.H2D, Kind.D2H)]
    kernels = [event for event in inside if event.kind is Kind.KERNEL]
    return DeviceMetrics(
        device=device,
        name=dict(trace.device_names).get(-1 if device is None else device, ""),
        lanes=lanes,
        kernels=len(kernels),
        memsets=sum(event.kind is Kind.MEMSET for event in inside),
        kernel_sum=sum(_inside(event, scope) for event in kernels),
        default_stream_kernels=sum(event.on_default_stream for event in kernels),
        default_stream_copies=sum(event.on_default_stream for event in host),
        host_copies=len(host),
        transfers=transfers(inside),
        waits=waits(calls, works, scope, lanes.idle),
        launches=launches(
            [call for call in launched if key_of(call) in works],
            repaired.events,
            starts if match.host_complete else {},
            lanes.idle,
        ),
        cleaned=repaired,
        coverage=match,
        overhead=measure(intersect(union(trace.overheads), scope)),
    )


def _lanes(events: Sequence[GpuEvent], calls: Sequence[HostCall], scope: Intervals) -> Lanes:
    def when(wanted: Callable[[GpuEvent], bool]) -> Intervals:
        return intersect(union((e.start, e.end) for e in events if wanted(e)), scope)

    def of(*kinds: Kind) -> Intervals:
        return when(lambda event: event.kind in kinds)

    kernels = of(Kind.KERNEL)
    communication = when(lambda event: event.kind is Kind.KERNEL and communicates(event.name))
    computation = kernels
    if communication:
        computation = when(lambda e: e.kind is Kind.KERNEL and not communicates(e.name))
    waiting = union((call.start, call.end) for call in calls if call.role is Role.WAIT)
    return Lanes(
        scope=scope,
        kernels=kernels,
        h2d=of(Kind.H2D),
        d2h=of(Kind.D2H),
        d2d=of(Kind.D2D),
        peer=of(Kind.P2P),
        unified=of(Kind.UNIFIED),
        memset=of(Kind.MEMSET),
        communication=communication,
        computation=computation,
        sync=intersect(waiting, scope),
        active=when(lambda event: True),
    )


def _calls_of(calls: Sequence[HostCall], events: Sequence[GpuEvent]) -> tuple[HostCall, ...]:
    """Calls of the processes that use the device; without GPU work, all of them."""
    processes = {event.process for event in events}
    return tuple(call for call in calls if call.process in processes or not processes)


def _inside(event: GpuEvent, scope: Intervals) -> int:
    """How long the event runs inside the scope."""
    at = max(0, bisect.bisect_right(scope, (event.start, LATEST)) - 1)
    length = 0
    while at < len(scope) and scope[at][0] < event.end:
        length += max(0, min(event.end, scope[at][1]) - max(event.start, scope[at][0]))
        at += 1
    return length


def _touches(event: GpuEvent, scope: Intervals) -> bool:
    if event.end == event.start:
        return _contains(scope, event.start)
    at = bisect.bisect_left(scope, (event.end,)) - 1  # the last range that starts before its end
    return at >= 0 and event.start < scope[at][1]


def _contains(scope: Intervals, time: int) -> bool:
    at = bisect.bisect_right(scope, (time, LATEST)) - 1
    return at >= 0 and time < scope[at][1]
