"""What a traced program might have cost with other copies: its trace, replayed on the model.

Host calls keep their order, their own cost and the time between them; GPU work keeps its length and
stream. A change then gives copies another length, and a pageable upload that becomes pinned no
longer holds the host. Before anything is said, the unchanged trace is replayed: where the model
cannot repeat what was traced (it does not see waits between streams), no what-if is given.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runner.errors import RunnerError
from gpu_runner.model import Event, ModelGpu
from gpu_runner.model_trace import summary
from gpu_runner.recording import LEGACY, Hardware, Memory, Recording, Work
from gpu_runner.records import TraceSummary
from gpu_runner.trace.events import GpuEvent, HostCall, Kind, Role, Trace

TRUSTED = 0.05  # the replay of the unchanged trace must be this close to it
COMPLETE = 0.995  # share of the GPU work whose host call is in the trace
ISSUE_NS = 5_000  # the host's time to issue a copy that no longer waits
IMPLICIT_SHARE = 0.5  # an asynchronous call this long against its copy has waited for it
COPIES = {Kind.H2D: Work.H2D, Kind.D2H: Work.D2H}

Key = tuple[int, int]


@dataclass(frozen=True)
class WhatIf:
    """A trace, its replay, and its replay with pinned copies; times in nanoseconds."""

    traced_ns: int
    replayed: Recording
    changed: Recording
    rate: float
    works: int  # pieces of GPU work in the trace; those without a host call are not replayed

    @property
    def error(self) -> float:
        """How far the unchanged replay is from the trace, as a share of the trace."""
        return self.replayed.wall_ns / self.traced_ns - 1

    @property
    def trusted(self) -> bool:
        """Whether the model repeats the trace well enough to ask it what if."""
        whole = len(self.replayed.operations) >= COMPLETE * self.works
        return whole and abs(self.error) <= TRUSTED


def pinned_instead(trace: Trace, rate: float, device: int | None = None) -> WhatIf:
    """The trace with every pageable copy pinned, at `rate` GB/s each way."""
    device = _device(trace, device)
    unchanged = _Replay(trace, device, None)
    return WhatIf(
        traced_ns=unchanged.traced_ns,
        replayed=unchanged.run(),
        changed=_Replay(trace, device, rate).run(),
        rate=rate,
        works=len(unchanged.events),
    )


def describe(found: WhatIf) -> str:
    """The what-if in words, with how well the model repeats the trace; or why there is none."""
    start = (
        f"What if, modelled and not measured: the model repeats the traced "
        f"{found.traced_ns / 1e6:.2f} ms as {found.replayed.wall_ns / 1e6:.2f} ms "
        f"({found.error:+.1%})"
    )
    missing = found.works - len(found.replayed.operations)
    if missing > (1 - COMPLETE) * found.works:
        return (
            f"{start}, without {missing} of {found.works} pieces of GPU work whose host call is "
            "not in the trace. That is too little to say what pinned copies would change."
        )
    if not found.trusted:
        return f"{start}. That is too far off to say what pinned copies would change."
    before, after = summary(found.replayed), summary(found.changed)
    return (
        f"{start}.\nWith every pageable copy pinned at {found.rate:g} GB/s, no upload waited for: "
        f"{found.changed.wall_ns / 1e6:.2f} ms; overlap {_overlap(before)} before, "
        f"{_overlap(after)} after; host waits {before.host_sync_us / 1000:.2f} ms before, "
        f"{after.host_sync_us / 1000:.2f} ms after."
    )


def _overlap(metrics: TraceSummary) -> str:
    if metrics.overlap_percent is None or metrics.overlap_ceiling_percent is None:
        return "none (no copies)"
    return f"{metrics.overlap_percent:.1f} % of a possible {metrics.overlap_ceiling_percent:.1f} %"


def _device(trace: Trace, device: int | None) -> int:
    chosen = trace.devices[0] if device is None and len(trace.devices) == 1 else device
    there = ", ".join(map(str, trace.devices))
    if not there:
        raise RunnerError(f"{trace.source} holds no GPU work, so there is nothing to replay")
    if chosen is None:
        raise RunnerError(f"{trace.source} has work on devices {there}; name one with --device")
    if chosen not in trace.devices:
        raise RunnerError(f"{trace.source} has no device {chosen}; devices with work: {there}")
    return chosen


class _Replay:
    """One replay: walks the host's calls and issues the work that each of them started."""

    def __init__(self, trace: Trace, device: int, pinned_rate: float | None) -> None:
        self.rate = pinned_rate
        self.events = sorted(
            (event for event in trace.events if event.device == device),
            key=lambda event: (event.start, event.end),  # of two at once either may come first
        )
        self.works: dict[Key, list[GpuEvent]] = defaultdict(list)
        for event in self.events:
            if event.correlation >= 0:
                self.works[event.process, event.correlation].append(event)
        self.calls = self._calls(trace.calls)
        if not self.calls:
            raise RunnerError(
                f"{trace.source} has no host calls that belong to its GPU work, so it cannot be "
                "replayed; record with CPU activities on"
            )
        self.end = max(event.end for event in self.events)
        self.start = self.calls[0].start
        at_once = _most_at_once([each for each in self.events if each.kind not in COPIES])
        self.gpu = ModelGpu(Hardware(call_ns=0, kernels_at_once=at_once))
        self.streams = self._streams()
        self.issued: list[Event] = []
        self.ends: list[tuple[int, int]] = []  # sorted: end in the trace, place in `issued`

    @property
    def traced_ns(self) -> int:
        """From the first call that started work to the last end of GPU work or of a wait for it."""
        return max(self.end, self.calls[-1].end) - self.start

    def run(self) -> Recording:
        """The whole replay."""
        cursor = self.start
        for call in self.calls:
            self.gpu.host_work(max(0, call.start - cursor))
            works = self.works.get((call.process, call.correlation), ())
            begun = max(call.start, cursor)  # another thread's call may still be running
            cursor = max(cursor, call.end)
            if works:
                self._issue(begun, call, works)
            elif call.role is Role.WAIT:
                self._wait(begun, call)
            else:
                self.gpu.host_work(max(0, call.end - begun))
        return self.gpu.finish()

    def _calls(self, calls: Sequence[HostCall]) -> list[HostCall]:
        """From the first call that started work on the device to the last one that mattered.

        A wait that begins after all work has ended is the profiler's own.
        """
        ordered = sorted(calls, key=lambda call: call.start)
        working = [call for call in ordered if (call.process, call.correlation) in self.works]
        if not working:
            return []
        end = max(event.end for event in self.events)
        return [call for call in ordered if working[0].start <= call.start < end]

    def _streams(self) -> dict[int, int]:
        """Model streams; one is non-blocking if it was seen running beside the default stream."""
        default = [event for event in self.events if event.on_default_stream]
        streams: dict[int, int] = {}
        for number in sorted({event.stream for event in self.events}):
            mine = [event for event in self.events if event.stream == number]
            if any(event.on_default_stream for event in mine):
                streams[number] = LEGACY
            else:
                streams[number] = self.gpu.stream(blocking=not _at_once(mine, default))
        return streams

    def _issue(self, begun: int, call: HostCall, works: Sequence[GpuEvent]) -> None:
        for place, event in enumerate(works):
            first, waits = place == 0, _waits(call, event)
            before = self._own_cost(begun, call, event, waits) if first else 0
            if self._becomes_pinned(event) and event.kind is Kind.H2D:
                before, waits = min(before, ISSUE_NS), False
            self.gpu.host_work(before)
            self._start(event, waits)
            if first and not (waits or self._becomes_pinned(event)):
                self.gpu.host_work(max(0, call.end - begun - before))
            elif waits:
                self.gpu.host_work(max(0, call.end - event.end))

    def _own_cost(self, begun: int, call: HostCall, event: GpuEvent, waits: bool) -> int:
        """The call's time before its work could start, without what it waited for."""
        if not waits:
            return max(0, min(event.start, call.end) - begun)
        ended = self._ended_by(event.start)
        return max(0, event.start - max(begun, ended[0] if ended else begun))

    def _ended_by(self, moment: int) -> tuple[int, int] | None:
        """The last of the issued work to end in the trace by that moment."""
        place = bisect.bisect_right(self.ends, (moment, len(self.issued)))
        return self.ends[place - 1] if place else None

    def _becomes_pinned(self, event: GpuEvent) -> bool:
        pageable = event.kind in COPIES and event.memory == Memory.PAGEABLE
        return self.rate is not None and pageable and event.size is not None

    def _start(self, event: GpuEvent, waits: bool) -> None:
        stream, took = self.streams[event.stream], event.end - event.start
        if event.kind in COPIES:
            memory = Memory.PAGEABLE if event.memory == Memory.PAGEABLE else Memory.PINNED
            if self._becomes_pinned(event):
                memory, took = Memory.PINNED, round((event.size or 0) / (self.rate or 1))
            self.gpu.copy(
                COPIES[event.kind], event.size or 0, memory, stream, wait=waits, nanoseconds=took
            )
        else:
            self.gpu.launch(event.name, took, stream)
        latest = self.gpu.latest(stream)
        if latest is not None:
            bisect.insort(self.ends, (event.end, len(self.issued)))
            self.issued.append(latest)

    def _wait(self, begun: int, call: HostCall) -> None:
        """A wait waits for the last work that had been issued and ended before it returned."""
        ended = self._ended_by(call.end)
        if ended is not None:
            self.gpu.event_synchronize(self.issued[ended[1]])
        self.gpu.host_work(max(0, call.end - max(begun, ended[0] if ended else begun)))


def _waits(call: HostCall, event: GpuEvent) -> bool:
    """Whether the call came back only after its copy."""
    if call.role in (Role.WAIT, Role.BLOCKING_COPY):
        return True
    long = call.end - call.start > IMPLICIT_SHARE * (event.end - event.start)
    return event.kind in COPIES and event.memory == Memory.PAGEABLE and long


def _at_once(some: Sequence[GpuEvent], others: Sequence[GpuEvent]) -> bool:
    """Whether any of the events ran at the same time as any of the others; both by start."""
    place = 0
    for event in some:
        while place < len(others) and others[place].end <= event.start:
            place += 1
        if place < len(others) and others[place].start < event.end:
            return True
    return False


def _most_at_once(events: Sequence[GpuEvent]) -> int:
    """The most events that were running at any moment; at least one."""
    changes = sorted([(e.end, -1) for e in events] + [(e.start, 1) for e in events])
    running = most = 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return max(1, most)
