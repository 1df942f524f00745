"""What the host did meanwhile: waits for the GPU, hidden waits, launches and their gaps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_runner.trace.events import GpuEvent, HostCall, Role
from gpu_runner.trace.intervals import Intervals, intersect, measure, union
from gpu_runner.trace.quality import Key, key_of
from gpu_runner.trace.transfers import PAGEABLE

MICRO_GAP = 10_000  # ns: an idle gap shorter than this is the hardware's own pace
IMPLICIT_SHARE = 0.5  # an "asynchronous" call this long against its copy has waited for it


@dataclass(frozen=True, slots=True)
class Waits:
    """Nanoseconds in which a host thread was blocked; of several threads the longest counts."""

    sync: int  # calls that wait by their nature: *Synchronize, cudaMemcpy
    sync_everywhere: int  # the same over the whole file, all threads, the profiler's stop included
    sync_stall: int  # part of `sync` in which the GPU did nothing: what the wait really cost
    implicit: int  # asynchronous copies of pageable memory that waited all the same
    allocation: int  # cudaMalloc, cudaFree, cudaHostAlloc …
    blocked: int  # all three together
    blocked_stall: int
    by_call: tuple[tuple[str, int], ...]  # `sync` by name of the call, longest first


@dataclass(frozen=True, slots=True)
class Launches:
    """How the host fed the GPU."""

    count: int
    api_time: int  # ns spent inside the launch calls
    gap: int | None  # ns of idle GPU covered by the launch of what came next; None if unknowable
    graph_gaps: int  # gaps before the work of a graph, which has no launch of its own
    micro_gaps: int
    micro_idle: int
    macro_gaps: int
    macro_idle: int


def waits(
    calls: Sequence[HostCall], works: Mapping[Key, GpuEvent], scope: Intervals, idle: Intervals
) -> Waits:
    """Who waited, for how long, and how much of it left the GPU idle."""
    explicit = [call for call in calls if call.role is Role.WAIT]
    implicit = [call for call in calls if waits_implicitly(call, works.get(key_of(call)))]
    allocating = [call for call in calls if call.role is Role.ALLOCATE]
    every = [*explicit, *implicit, *allocating]
    by_call: Counter[str] = Counter()
    for name in {call.name for call in explicit}:
        mine = [call for call in explicit if call.name == name]
        by_call[name] = _longest(mine, lambda covered: measure(intersect(covered, scope)))
    return Waits(
        sync=_longest(explicit, lambda covered: measure(intersect(covered, scope))),
        sync_everywhere=measure(union((call.start, call.end) for call in explicit)),
        sync_stall=_longest(explicit, lambda covered: measure(intersect(covered, idle))),
        implicit=_longest(implicit, lambda covered: measure(intersect(covered, scope))),
        allocation=_longest(allocating, lambda covered: measure(intersect(covered, scope))),
        blocked=_longest(every, lambda covered: measure(intersect(covered, scope))),
        blocked_stall=_longest(every, lambda covered: measure(intersect(covered, idle))),
        by_call=tuple((name, length) for name, length in by_call.most_common() if length),
    )


def waits_implicitly(call: HostCall, work: GpuEvent | None) -> bool:
    """Whether a call waited that by its name need not."""
    if call.role is Role.BLOCKING_COPY:
        return True
    if call.role is not Role.COPY or work is None or work.memory != PAGEABLE:
        return False
    return call.end - call.start > IMPLICIT_SHARE * (work.end - work.start)


def _longest(calls: Iterable[HostCall], measured: Callable[[Intervals], int]) -> int:
    """The largest measure over host threads: two threads that wait do not make the wait longer."""
    by_thread: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for call in calls:
        by_thread[call.process, call.thread].append((call.start, call.end))
    return max((measured(union(times)) for times in by_thread.values()), default=0)


def launches(
    mine: Sequence[HostCall],
    events: Sequence[GpuEvent],
    starts: Mapping[Key, HostCall],
    idle: Intervals,
) -> Launches:
    """The launch calls of a device and the idle gaps they explain.

    `starts` holds the host call of each piece of work; empty, if the file lacks too many of them.
    """
    next_work: dict[int, GpuEvent] = {}
    for event in events:
        next_work.setdefault(event.start, event)
    covered = graph_gaps = answered = 0
    for start, end in idle:
        work = next_work.get(end)
        call = starts.get(key_of(work)) if work is not None else None
        if work is not None and work.in_graph:
            graph_gaps += 1
        elif call is not None:
            answered += 1
            covered += max(0, min(end, call.end) - max(start, call.start))
    lengths = [end - start for start, end in idle]
    micro = [length for length in lengths if length < MICRO_GAP]
    return Launches(
        count=len(mine),
        api_time=sum(call.end - call.start for call in mine),
        gap=covered if starts and (answered or not graph_gaps) else None,
        graph_gaps=graph_gaps,
        micro_gaps=len(micro),
        micro_idle=sum(micro),
        macro_gaps=len(lengths) - len(micro),
        macro_idle=sum(lengths) - sum(micro),
    )
