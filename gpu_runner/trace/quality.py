"""What a trace can be trusted with: repairs, losses, and whether its numbers may be shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpu_runner.trace.events import GpuEvent, HostCall, Role

ENOUGH_COVERAGE = 0.995
# ROCm's late timestamps make events seconds too long (TraceLens issue 669).
OVERRUN = 10_000  # ns
OVERRUN_SHARE = 0.5

Key = tuple[int, int]  # process, correlation


@dataclass(frozen=True, slots=True)
class Correlations:
    """The keys a whole file knows: a launch served by another device is not missing."""

    calls: frozenset[Key]
    works: frozenset[Key]


def key_of(entry: GpuEvent | HostCall) -> Key:
    """What GPU work and the host call that started it have in common."""
    return entry.process, entry.correlation


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The events of one device after repair, and what had to be repaired."""

    events: tuple[GpuEvent, ...]  # all of positive length, by stream and start
    zero_length: tuple[GpuEvent, ...]
    same_stream_overlaps: int
    clipped: int


def cleaned(events: Iterable[GpuEvent]) -> Cleaned:
    """Events with impossible overruns clipped to their successor on the same stream.

    Small overlaps on one stream are real (dependent launches on Blackwell, jitter on Volta): they
    are counted and left alone. The branches of a graph may share a stream number, so they too.
    """
    ordered = sorted(
        events, key=lambda event: (event.process, event.stream, event.start, event.end)
    )
    solid = [event for event in ordered if event.end > event.start]
    overlaps = clipped = 0
    for index, (event, after) in enumerate(pairwise(solid)):
        if (event.process, event.stream) != (after.process, after.stream):
            continue
        overrun = event.end - after.start
        if overrun <= 0:
            continue
        overlaps += 1
        limit = max(OVERRUN, OVERRUN_SHARE * (event.end - event.start))
        if overrun > limit and after.start > event.start and not event.in_graph:
            solid[index] = event._replace(end=after.start)
            clipped += 1
    empty = tuple(event for event in ordered if event.end == event.start)
    return Cleaned(tuple(solid), empty, overlaps, clipped)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How well host calls and GPU work of one device match, by correlation."""

    launches: int = 0  # kernel launches inside the scope that must have left a kernel
    launches_with_work: int = 0
    cut_off: int = 0  # launches whose work came after the end of the capture
    works: int = 0
    works_with_call: int = 0

    @property
    def of_launches(self) -> float | None:
        """Share of the launches whose kernel was recorded; None without any launch."""
        return self.launches_with_work / self.launches if self.launches else None

    @property
    def of_works(self) -> float | None:
        """Share of the GPU work whose host call was recorded; None without any work."""
        return self.works_with_call / self.works if self.works else None

    @property
    def complete(self) -> bool:
        """Whether no GPU records were dropped, as far as the file can tell."""
        share = self.of_launches
        return share is None or share >= ENOUGH_COVERAGE

    @property
    def host_complete(self) -> bool:
        """Whether the host's side of the GPU work is there."""
        share = self.of_works
        return share is not None and share >= ENOUGH_COVERAGE


def coverage(
    events: Sequence[GpuEvent], launches: Sequence[HostCall], known: Correlations, cut: bool
) -> Coverage:
    """The match of one device's events with the launches that could be theirs.

    `cut` says that the capture may end while launched work is still to come (a profiler that waits
    for the GPU before it stops leaves none): launches after the last one served are then not lost.
    """
    keyed = [key_of(event) for event in events]
    with_call = sum(key in known.calls for key in keyed)
    if not any(correlation >= 0 for _, correlation in keyed):
        launches = ()  # the file numbers nothing, so nothing can be said
    served = [key_of(launch) in known.works for launch in launches]
    last = len(served) - 1
    if cut and True in served:
        last -= served[::-1].index(True)
    return Coverage(
        launches=last + 1,
        launches_with_work=sum(served[: last + 1]),
        cut_off=len(served) - last - 1,
        works=len(events),
        works_with_call=with_call,
    )


def real_launches(calls: Iterable[HostCall]) -> tuple[HostCall, ...]:
    """Kernel and graph launches that run something, in order of time.

    Those between the begin and the end of a stream capture are only written into a graph.
    """
    recording: set[tuple[int, int]] = set()
    found: list[HostCall] = []
    for call in sorted(calls, key=lambda call: call.start):
        thread = (call.process, call.thread)
        if call.role is Role.CAPTURE_BEGIN:
            recording.add(thread)
        elif call.role is Role.CAPTURE_END:
            recording.discard(thread)
        elif call.role is Role.GRAPH_LAUNCH or (
            call.role is Role.LAUNCH and thread not in recording
        ):
            found.append(call)
    return tuple(found)
