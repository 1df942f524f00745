"""What a trace holds once its format no longer matters: GPU work, host calls, named regions.

Times are integer nanoseconds on the trace's own clock. The three event types are named tuples
instead of frozen dataclasses because a trace has a million of them: a quarter of the time to make.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

KINETO, NSYS = "Kineto", "Nsight Systems"  # the layouts of `Trace.layout`


class Kind(enum.Enum):
    """What a piece of GPU work is; only H2D and D2H travel between host and device."""

    KERNEL = "kernel"
    H2D = "h2d"
    D2H = "d2h"
    D2D = "d2d"  # inside one device: work of its memory, not of the bus
    P2P = "p2p"  # between devices
    UNIFIED = "unified"  # pages migrated by unified memory
    HOST = "host"  # host to host, recorded by the driver
    MEMSET = "memset"


class Role(enum.Enum):
    """What a host call means to the measurement; calls without a role are not kept."""

    WAIT = "wait"  # waits for the GPU by its nature
    COPY = "copy"  # starts a copy; may block all the same
    BLOCKING_COPY = "blocking copy"  # starts a copy and waits, under an asynchronous name
    MEMSET = "memset"
    LAUNCH = "launch"
    GRAPH_LAUNCH = "graph launch"
    ALLOCATE = "allocate"  # waits for the device while it allocates or frees
    CAPTURE_BEGIN = "capture begin"  # launches up to the end are recorded into a graph, not run
    CAPTURE_END = "capture end"


class GpuEvent(NamedTuple):
    """One kernel, copy or memset on a device."""

    start: int
    end: int
    kind: Kind
    device: int
    stream: int
    process: int  # streams and correlations are numbered per process
    correlation: int  # -1 where the file does not say
    name: str
    direction: str = ""  # "HtoD", as CUPTI spells it; empty for kernels and memsets
    memory: str = ""  # kind of the host side's memory: "Pinned", "Pageable", "Host" …
    size: int | None = None  # bytes; None where the file does not say
    in_graph: bool = False
    on_default_stream: bool = False


class HostCall(NamedTuple):
    """One call of the CUDA or HIP runtime or driver."""

    start: int
    end: int
    role: Role
    process: int
    thread: int
    correlation: int
    name: str


class Annotation(NamedTuple):
    """A named range: a profiler step, a record_function, an NVTX range."""

    start: int
    end: int
    name: str
    on_gpu: bool


class LineRun(NamedTuple):
    """A line of the project's code while it ran; times count from the region's beginning."""

    start: int
    end: int
    thread: int
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Defects:
    """What was left out while reading, counted."""

    unreadable: int = 0  # events whose text is broken
    without_time: int = 0  # GPU events without a usable start and end (0/0, NaN, negative)
    dropped_records: int = 0  # as far as the profiler admits it
    whole_graphs: int = 0  # graph launches recorded as one block


@dataclass(frozen=True, slots=True)
class Trace:
    """One file, read."""

    source: str
    layout: str  # KINETO or NSYS
    events: tuple[GpuEvent, ...]
    calls: tuple[HostCall, ...]
    annotations: tuple[Annotation, ...]  # those of the region asked for
    region_names: tuple[str, ...]  # the first few of all
    device_names: tuple[tuple[int, str], ...]
    resolution: int  # nanoseconds
    overheads: tuple[tuple[int, int], ...]  # when the profiler itself was at work
    defects: Defects
    partial: str = ""  # why this is not the whole file; empty if it is
    modelled: bool = False  # written by the stream model: nothing in it was measured
    lines: tuple[LineRun, ...] = ()  # only of a pass that notes them

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices that did something, ascending."""
        return tuple(sorted({event.device for event in self.events}))
