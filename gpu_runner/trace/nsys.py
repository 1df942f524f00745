"""Nsight Systems exports (`nsys export -t sqlite`) as events.

Tables are created only when something fills them and their columns vary by version, so every query
is built from what is there. The numbers of memory kinds are nsys' own, not CUPTI's: the file's ENUM
tables decide.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from gpu_runner.errors import FormatError
from gpu_runner.trace import names
from gpu_runner.trace.collect import LATEST, Collector, FullError
from gpu_runner.trace.events import NSYS, Annotation, GpuEvent, HostCall, Kind, Trace
from gpu_runner.trace.nsys_tables import Row, Tables, connect, whole

PREFIX = "CUPTI_ACTIVITY_KIND_"
# As nsys numbers them, for exports too old to bring their own tables.
MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 7: "Unknown"}
DIRECTIONS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "UVM HtoD",
    12: "UVM DtoH",
    13: "UVM DtoD",
}
RANGE_TYPES = "(59, 60)"  # NVTX push/pop and start/end ranges
STREAM_NULL = 3  # CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL
PID_UNIT = 0x1000000  # a globalTid is this times the process, plus the thread
WORK = ("KERNEL", "MEMCPY", "MEMSET")
PLACE = (
    "start",
    "end",
    "deviceId",
    "streamId",
    "globalPid",
    "correlationId",
    "contextId",
    "graphNodeId",
)


class Place(NamedTuple):
    """The columns that all GPU work shares, in the order of PLACE."""

    start: int
    end: int
    device: int
    stream: int
    process: int
    correlation: int
    context: int
    node: int


def read_nsys(path: Path, region: str | None = None) -> Trace:
    """The trace in an Nsight Systems `.sqlite` export."""
    collector = Collector(path.name, NSYS, region)
    partial = ""
    try:
        with closing(connect(path)) as connection:
            tables = Tables(connection)
            _check(tables)
            _read(tables, collector)
    except FullError as limit:
        partial = str(limit)
    except (sqlite3.Error, UnicodeDecodeError) as problem:  # it quotes the damage undecoded
        said = "its schema is no text" if isinstance(problem, UnicodeDecodeError) else problem
        partial = f"the database is damaged ({said}), so the reading stopped there"
        if not collector.events:
            raise FormatError(f"nothing could be measured: {partial}") from problem
    return collector.finish(partial)


def _check(tables: Tables) -> None:
    known = {"META_DATA_EXPORT", "NVTX_EVENTS"} & tables.names
    if known or any(name.startswith(PREFIX) for name in tables.names):
        return
    if any(name.startswith("rocpd_") for name in tables.names):
        raise FormatError(
            "it is a rocprofv3 database, which is not read; record with torch.profiler, whose "
            "JSON is"
        )
    raise FormatError(
        "it is an SQLite database but not an Nsight Systems export (`nsys export -t sqlite` makes "
        "one)"
    )


def _read(tables: Tables, collector: Collector) -> None:
    for number, name in tables.rows("TARGET_INFO_GPU", ("id", "name")):
        if name is not None and whole(number) >= 0:
            collector.device_names[whole(number)] = collector.name(name)
    try:
        defaults = _default_streams(tables)
    except sqlite3.DatabaseError:  # damaged: what can be read of the events is worth more
        defaults = {}
    for place, event in chain(_kernels(tables, collector), _copies(tables), _memsets(tables)):
        collector.gpu(
            event._replace(
                in_graph=place.node > 0,
                on_default_stream=defaults.get((place.process, place.context)) == place.stream,
            )
        )
    for event in _graphs(tables):
        collector.gpu(event)
        collector.lost(whole_graphs=1)
    _calls(tables, collector)
    _ranges(tables, collector)
    for start, end, name in tables.rows(f"{PREFIX}OVERHEAD", ("start", "end", "name:nameId")):
        if names.profilers_own(str(name)):
            collector.overhead(*_times(whole(start), whole(end)))
    for (text,) in tables.rows("DIAGNOSTIC_EVENT", ("text",)):
        message = str(text).lower()
        if "dropped" in message or "lost" in message:
            collector.lost(dropped_records=1)


def _placed(tables: Tables, table: str, *more: str) -> Iterator[tuple[Place, Row]]:
    for row in tables.rows(f"{PREFIX}{table}", (*PLACE, *more)):
        start, end, *others = map(whole, row[: len(PLACE)])
        yield Place(*_times(start, end), *others), row[len(PLACE) :]


def _event(place: Place, kind: Kind, name: str) -> GpuEvent:
    return GpuEvent(
        start=place.start,
        end=place.end,
        kind=kind,
        device=place.device,
        stream=place.stream,
        process=place.process,
        correlation=place.correlation,
        name=name,
    )


def _kernels(tables: Tables, collector: Collector) -> Iterator[tuple[Place, GpuEvent]]:
    for place, (name,) in _placed(tables, "KERNEL", "name:demangledName"):
        label = collector.name("kernel" if name is None else name)
        yield place, _event(place, Kind.KERNEL, label)


def _copies(tables: Tables) -> Iterator[tuple[Place, GpuEvent]]:
    memory = tables.labels("ENUM_CUDA_MEM_KIND", "label") or MEMORY
    directions = _directions(tables)
    for place, values in _placed(tables, "MEMCPY", "bytes", "copyKind", "srcKind", "dstKind"):
        size, kind, source, target = map(whole, values)
        direction = directions.get(kind, names.UNKNOWN_COPY)
        ends = memory.get(source, "Unknown"), memory.get(target, "Unknown")
        event = _event(place, names.direction_kind(direction), f"Memcpy {direction}")
        yield (
            place,
            event._replace(
                direction=direction,
                memory=names.host_side(direction, *ends),
                size=size if size >= 0 else None,
            ),
        )


def _directions(tables: Tables) -> dict[int, str]:
    """nsys' number of a copy's direction -> CUPTI's spelling, by the file's own symbols."""
    symbols = tables.labels("ENUM_CUDA_MEMCPY_OPER", "name")
    spelled = {
        number: symbol.rpartition("KIND_")[2].replace("UVM_", "UVM ").replace("TO", "to")
        for number, symbol in symbols.items()
    }
    return spelled or DIRECTIONS


def _memsets(tables: Tables) -> Iterator[tuple[Place, GpuEvent]]:
    for place, _ in _placed(tables, "MEMSET"):
        yield place, _event(place, Kind.MEMSET, "Memset")


def _graphs(tables: Tables) -> Iterator[GpuEvent]:
    """Whole graph launches: all there is of a graph's work unless its nodes were asked for."""
    for place, _ in _placed(tables, "GRAPH_TRACE"):
        yield _event(place, Kind.KERNEL, "CUDA graph")._replace(in_graph=True)


def _default_streams(tables: Tables) -> dict[tuple[int, int], int]:
    """The null stream of each process and context.

    It is not among the streams that were created, and got its number before all of them.
    """
    created: dict[tuple[int, int], int] = {}
    rows = tables.rows("TARGET_INFO_CUDA_STREAM", ("processId", "contextId", "streamId", "flag"))
    for process, context, stream, flag in rows:
        if whole(flag) != STREAM_NULL:
            key = whole(process), whole(context)
            created[key] = min(whole(stream), created.get(key, LATEST))
    found: dict[tuple[int, int], int] = {}
    for table in WORK:
        columns = ("globalPid", "contextId", "streamId")
        used = tables.rows(f"{PREFIX}{table}", columns, "GROUP BY 1, 2, 3")
        for process, context, stream in used:
            key = whole(process), whole(context)
            first_created = created.get((key[0] // PID_UNIT % PID_UNIT, key[1]), LATEST)
            if whole(stream) < first_created:
                found[key] = min(whole(stream), found.get(key, LATEST))
    return found


def _calls(tables: Tables, collector: Collector) -> None:
    wanted = ("start", "end", "globalTid", "correlationId", "returnValue", "name:nameId")
    for *numbers, name in tables.rows(f"{PREFIX}RUNTIME", wanted):
        start, end, thread, correlation, returned = map(whole, numbers)
        call = names.bare_call(str(name))
        role = names.role_of(call)
        if role is None or returned > 0:  # a call that failed started nothing
            continue
        times = _times(start, end)
        process, number = thread - thread % PID_UNIT, collector.thread(thread)
        label = collector.name(call)
        collector.call(HostCall(*times, role, process, number, correlation, label))


def _ranges(tables: Tables, collector: Collector) -> None:
    typed = tables.has("NVTX_EVENTS", "eventType")
    suffix = f"WHERE t.eventType IN {RANGE_TYPES}" if typed else ""
    wanted = ("start", "end", "text", "name:textId")
    for start, end, text, registered in tables.rows("NVTX_EVENTS", wanted, suffix):
        name = registered if text is None else text
        if name is not None and end is not None:
            times = _times(whole(start), whole(end))
            collector.annotation(Annotation(*times, collector.name(name), on_gpu=False))


def _times(start: int, end: int) -> tuple[int, int]:
    """Both times, or two the collector refuses: CUPTI writes 0 for a time it does not have."""
    return (start, end) if start > 0 and end > 0 else (-LATEST, -LATEST)
