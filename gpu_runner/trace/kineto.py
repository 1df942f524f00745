"""Kineto traces (`torch.profiler`, `export_chrome_trace`) as events: NVIDIA and ROCm, old and new.

Spellings differ by year (`Kernel` / `kernel`), by vendor (`Pinned -> Device` / `Host -> Device`)
and by unit: microseconds printed with three decimals from whole nanoseconds, relative to
`baseTimeNanoseconds` since 2024 and absolute before. Reading the digits instead of a float keeps
them exact in either case. Source: libkineto/src/output_json.cpp.
"""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

from gpu_runner.errors import FormatError
from gpu_runner.trace import names
from gpu_runner.trace.collect import LATEST, Collector, FullError
from gpu_runner.trace.decoding import msgspec
from gpu_runner.trace.events import KINETO, Annotation, GpuEvent, HostCall, Kind, LineRun, Trace
from gpu_runner.trace.json_events import EventFile
from gpu_runner.trace.json_loose import Arguments, Event
from gpu_runner.trace.source import Source

KERNEL, COPY, MEMSET, CALL, RANGE, GPU_RANGE, OVERHEAD, LINE = range(8)
# cuda_sync rows and gpu_user_annotation carry a stream but are no work of the GPU.
_SPELLED = {
    "kernel": KERNEL,
    "gpu_memcpy": COPY,
    "memcpy": COPY,
    "gpu_memset": MEMSET,
    "memset": MEMSET,
    "cuda_runtime": CALL,
    "cuda_driver": CALL,
    "hip_runtime": CALL,
    "runtime": CALL,
    "user_annotation": RANGE,
    "gpu_user_annotation": GPU_RANGE,
    "overhead": OVERHEAD,
    "hostside_line": LINE,  # as `gpu_runner/line_log.py` writes it
}
CATEGORIES = _SPELLED | {name.capitalize(): what for name, what in _SPELLED.items()}
CUDA_LEGACY_STREAM = 7  # CUPTI's number for the default stream of the first context
ROCM_LEGACY_STREAM = 0
NO_TIME = -LATEST  # fails the collector's check, so the event is counted as without a time
NOWHERE = -1
MODELLED = "modelled, not measured"  # as the stream model names its traces


def read_kineto(path: Path, region: str | None = None) -> Trace:
    """The trace in a `.json` or `.json.gz` file; a damaged one gives what could be read."""
    collector = Collector(path.name, KINETO, region)
    with path.open("rb") as file:
        content = EventFile(Source(file))
        full = ""
        try:
            for batch in content.batches():
                for event in batch:
                    _take(event, collector)
        except FullError as limit:
            full = str(limit)
    collector.lost(unreadable=content.unreadable)
    _name_devices(content.metadata.get("deviceProperties"), collector)
    collector.modelled = MODELLED in str(content.metadata.get("traceName", ""))
    partial = full or content.problem
    seen = collector.events or collector.calls or collector.annotations
    if partial and not seen and not collector.defects.without_time:
        raise FormatError(f"nothing could be measured: {partial}")
    _mark_default_streams(collector)
    return collector.finish(partial)


def _take(event: Event, collector: Collector) -> None:
    if event.ph != "X" or not isinstance(event.cat, str):
        return
    what = CATEGORIES.get(event.cat)
    if what is None:
        return
    start = nanoseconds(bytes(event.ts))
    length = nanoseconds(bytes(event.dur))
    end = NO_TIME if start is None or length is None else start + length
    start = NO_TIME if start is None else start
    if what in (KERNEL, COPY, MEMSET):
        collector.gpu(_gpu_event(what, event, start, end, collector))
    elif what == CALL:
        _take_call(event, start, end, collector)
    elif what == LINE:
        _take_line(event, start, end, collector)
    elif what == OVERHEAD:
        if names.profilers_own(str(event.name)):
            collector.overhead(start, end)
    else:
        name = collector.name(event.name)
        collector.annotation(Annotation(start, end, name, what == GPU_RANGE))


def _take_call(event: Event, start: int, end: int, collector: Collector) -> None:
    name = str(event.name)
    role = names.role_of(name)
    if role is None:
        return
    thread = collector.thread((str(event.pid), str(event.tid)))
    correlation = _number(event.args.correlation) if event.args else NOWHERE
    collector.call(HostCall(start, end, role, 0, thread, correlation, collector.name(name)))


def _take_line(event: Event, start: int, end: int, collector: Collector) -> None:
    path, _, line = str(event.name).rpartition(":")
    number = _number(line)
    if path and number > 0:
        thread = collector.thread((str(event.pid), str(event.tid)))
        collector.line(LineRun(start, end, thread, collector.name(path), number))


def _gpu_event(what: int, event: Event, start: int, end: int, collector: Collector) -> GpuEvent:
    arguments = event.args or Arguments()
    name = collector.name(event.name)
    kind, direction, memory = Kind.KERNEL, "", ""
    if what == COPY:
        kind, direction, memory = names.copy_of(name)
    elif what == MEMSET:
        kind = Kind.MEMSET
    size = _number(arguments.bytes)
    return GpuEvent(
        start=start,
        end=end,
        kind=kind,
        device=_device(event, arguments),
        # `tid` is sanitised and, for sync rows, shifted: the stream is only an argument.
        stream=_number(event.tid if arguments.stream is None else arguments.stream),
        process=0,
        correlation=_number(arguments.correlation),
        name=name,
        direction=direction,
        memory=memory,
        size=size if size >= 0 else None,
        in_graph=_number(arguments.graph) > 0,
    )


def _device(event: Event, arguments: Arguments) -> int:
    # Peer copies have no `device`; the old files' `pid` is the device.
    for candidate in (arguments.device, arguments.in_device, event.pid):
        number = _number(candidate)
        if number >= 0:
            return number
    return 0


def _number(value: Any) -> int:
    """A whole number, also from text; NOWHERE for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < LATEST else NOWHERE
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < LATEST:
        return int(value)
    return NOWHERE


def nanoseconds(token: bytes) -> int | None:
    """Exact nanoseconds of microseconds as written in the file; None for NaN and nonsense."""
    whole, _, fraction = token.partition(b".")
    if whole and len(fraction) <= 3 and len(whole) < 20:
        try:
            return int(whole + fraction.ljust(3, b"0"))
        except ValueError:
            pass  # an exponent, quotes, NaN: the long way
    return _nanoseconds_of_decimal(token)


def _nanoseconds_of_decimal(token: bytes) -> int | None:
    try:
        value = decimal.Decimal(token.decode().strip('" '))
        if not value.is_finite() or abs(value) * 1000 >= LATEST:
            return None
        return int((value * 1000).to_integral_value(decimal.ROUND_HALF_EVEN))
    except (decimal.DecimalException, UnicodeDecodeError, ValueError):
        return None


def _name_devices(properties: object, collector: Collector) -> None:
    if not isinstance(properties, list):
        return
    for entry in msgspec.convert(properties, list[Any])[:256]:
        if isinstance(entry, dict):
            found = msgspec.convert(entry, dict[str, Any])
            number, name = _number(found.get("id")), found.get("name")
            if number >= 0 and isinstance(name, str):
                collector.device_names[number] = collector.name(name)


def _mark_default_streams(collector: Collector) -> None:
    """Tell the legacy default stream by its number, which depends on the vendor."""
    rocm = any(call.name.startswith("hip") for call in collector.calls) or any(
        event.memory == "Host" for event in collector.events
    )
    legacy = ROCM_LEGACY_STREAM if rocm else CUDA_LEGACY_STREAM
    collector.events = [
        event._replace(on_default_stream=True) if event.stream == legacy else event
        for event in collector.events
    ]
