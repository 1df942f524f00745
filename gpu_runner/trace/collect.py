"""Where both readers put what they find: names stored once, memory bounded, losses counted."""

from __future__ import annotations

import fnmatch
from collections.abc import Hashable
from dataclasses import replace

from gpu_runner.trace import names
from gpu_runner.trace.events import Annotation, Defects, GpuEvent, HostCall, Kind, LineRun, Trace

# About 250 bytes each: half a gigabyte at the most, enough for any trace that is not a mistake.
MOST_KEPT = 2_000_000
MOST_SHARED = 100_000  # names: with more than this every name is another one
NAMES_LISTED = 40
LATEST = 1 << 62  # ns; nothing real is later, and sums stay exact in other programs too
MICROSECOND = 1000


class FullError(Exception):
    """More events than are kept: the reader stops and the result says so."""


class Collector:
    """Takes events one by one and gives back a `Trace`."""

    def __init__(self, source: str, layout: str, region: str | None = None) -> None:
        self.source, self.layout, self.region = names.printable(source), layout, region
        self.events: list[GpuEvent] = []
        self.calls: list[HostCall] = []
        self.annotations: list[Annotation] = []
        self.overheads: list[tuple[int, int]] = []
        self.lines: list[LineRun] = []
        self.device_names: dict[int, str] = {}
        self.defects = Defects()
        self.modelled = False
        self._names: dict[str, str] = {}
        self._threads: dict[Hashable, int] = {}
        self._region_names: dict[str, None] = {}
        self._kept = 0
        self._fine = False  # a time that is not a whole microsecond was seen

    def gpu(self, event: GpuEvent) -> None:
        """Keep a piece of GPU work whose times make sense."""
        if not _sane(event.start, event.end):
            self.lost(without_time=1)
            return
        self._room()
        self._notice(event.start, event.end)
        if event.kind is Kind.KERNEL:
            kind, direction = names.kernel_kind(event.name)
            if kind is not Kind.KERNEL:
                event = event._replace(kind=kind, direction=direction)
        self.events.append(event)

    def call(self, call: HostCall) -> None:
        """Keep a host call; one without a usable time is of no use and no harm."""
        if _sane(call.start, call.end):
            self._room()
            self._notice(call.start, call.end)
            self.calls.append(call)

    def annotation(self, annotation: Annotation) -> None:
        """Keep a named range if it is the region asked for; remember what others there are."""
        if len(self._region_names) < NAMES_LISTED:
            self._region_names[annotation.name] = None
        if self.region is None or not _sane(annotation.start, annotation.end):
            return
        if annotation.name == self.region or fnmatch.fnmatchcase(annotation.name, self.region):
            self._room()
            self.annotations.append(annotation)

    def line(self, run: LineRun) -> None:
        """Keep a line that ran."""
        if _sane(run.start, run.end + 1):
            self._room()
            self.lines.append(run)

    def overhead(self, start: int, end: int) -> None:
        """Keep a time in which the profiler itself was busy."""
        if _sane(start, end):
            self._room()
            self.overheads.append((start, end))

    def name(self, text: object) -> str:
        """One shared copy of a name, cut to a bearable length."""
        raw = str(text)
        known = self._names.get(raw)
        if known is not None:
            return known
        shown = names.printable(raw)
        if len(self._names) < MOST_SHARED and len(raw) <= names.LONGEST:
            self._names[raw] = shown
        return shown

    def thread(self, key: Hashable) -> int:
        """A small number for a thread, whatever the file calls it."""
        return self._threads.setdefault(key, len(self._threads))

    def lost(
        self,
        unreadable: int = 0,
        without_time: int = 0,
        dropped_records: int = 0,
        whole_graphs: int = 0,
    ) -> None:
        """Count what could not be kept."""
        now = self.defects
        self.defects = replace(
            now,
            unreadable=now.unreadable + unreadable,
            without_time=now.without_time + without_time,
            dropped_records=now.dropped_records + dropped_records,
            whole_graphs=now.whole_graphs + whole_graphs,
        )

    def finish(self, partial: str = "") -> Trace:
        """The trace, once everything is read; `partial` says why it is not the whole file."""
        return Trace(
            source=self.source,
            layout=self.layout,
            events=tuple(self.events),
            calls=tuple(self.calls),
            annotations=tuple(self.annotations),
            region_names=tuple(self._region_names),
            device_names=tuple(sorted(self.device_names.items())),
            resolution=1 if self._fine or not self.events else MICROSECOND,
            overheads=tuple(self.overheads),
            defects=self.defects,
            partial=partial,
            modelled=self.modelled,
            lines=tuple(self.lines),
        )

    def _notice(self, start: int, end: int) -> None:
        if not self._fine and (start % MICROSECOND or end % MICROSECOND):
            self._fine = True

    def _room(self) -> None:
        self._kept += 1
        if self._kept > MOST_KEPT:
            raise FullError(f"only the first {MOST_KEPT:,} relevant events were read")


def _sane(start: int, end: int) -> bool:
    # CUPTI writes 0/0 where it has no timestamp.
    return -LATEST < start <= end < LATEST and (start != 0 or end != 0)
