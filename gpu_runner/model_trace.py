"""What a profiler would have written about a modelled run, and what is true of it.

`kineto` gives the chrome trace that `torch.profiler` exports; `summary` gives the metrics straight
from the model's own times, so that a trace reader can be held against them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gpu_runner.recording import Call, Hardware, Memory, Operation, Recording, Work
from gpu_runner.records import TraceSummary, Variant
from gpu_runner.timeline import Lane, Track, text_timeline
from gpu_runner.trace.intervals import Intervals, intersect, measure, subtract, union
from gpu_runner.tracks import lanes_of

HOST, THREAD = 4_000, 4_000  # made-up process and thread numbers of the host
LABEL = "modelled, not measured"
LANES = ("kernels", "H2D", "D2H", "host waits", "overlap")

Json = dict[str, Any]


def kineto(recording: Recording, device: int = 0, base_ns: int = 0) -> Json:
    """The run as a Kineto trace, ready for `json.dump`; its name says that it is modelled."""
    events: list[Json] = [_annotation(name, start, end) for name, start, end in recording.regions]
    begun = {call.correlation: call.start for call in recording.calls}
    events += [_call(each) for each in recording.calls]
    for operation in recording.operations:
        number, stream = operation.correlation, operation.stream
        events.append(_operation(operation, device))
        events.append(_flow("s", number, begun[number], (HOST, THREAD)))
        events.append({**_flow("f", number, operation.start, (device, stream)), "bp": "e"})
    return {
        "schemaVersion": 1,
        "deviceProperties": [_device(recording.hardware, device)],
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base_ns,
        "traceName": LABEL,
        "traceEvents": events,
    }


def _device(hardware: Hardware, device: int) -> Json:
    return {"id": device, "name": f"{hardware.name} ({LABEL})", "totalGlobalMem": 0}


def _microseconds(nanoseconds: int) -> float:
    return nanoseconds / 1000  # the shortest decimal of this quotient has at most three decimals


def _complete(category: str, name: str, start: int, end: int, place: tuple[int, int]) -> Json:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": place[0],
        "tid": place[1],
        "ts": _microseconds(start),
        "dur": _microseconds(end - start),
    }


def _annotation(name: str, start: int, end: int) -> Json:
    return _complete("user_annotation", name, start, end, (HOST, THREAD))


def _call(call: Call) -> Json:
    event = _complete("cuda_runtime", call.name, call.start, call.end, (HOST, THREAD))
    return {**event, "args": {"cbid": 0, "correlation": call.correlation}}


def _flow(phase: str, number: int, moment: int, place: tuple[int, int]) -> Json:
    """One end of the arrow from a call to its work on the device."""
    event = _complete("ac2g", "ac2g", moment, moment, place)
    del event["dur"]
    return {**event, "ph": phase, "id": number}


def _operation(operation: Operation, device: int) -> Json:
    arguments: Json = {
        "device": device,
        "context": 1,
        "stream": operation.stream,
        "correlation": operation.correlation,
    }
    took = operation.end - operation.start
    if operation.work != Work.KERNEL:
        arguments["bytes"] = operation.size
        if took:
            arguments["memory bandwidth (GB/s)"] = operation.size / took
    name, category = _name(operation)
    place = (device, operation.stream)
    return {**_complete(category, name, operation.start, operation.end, place), "args": arguments}


def _name(operation: Operation) -> tuple[str, str]:
    if operation.work == Work.KERNEL:
        return operation.name, "kernel"
    if operation.work == Work.MEMSET:
        return "Memset (Device)", "gpu_memset"
    host = operation.memory or Memory.PINNED
    ends = {
        Work.H2D: f"{host} -> Device",
        Work.D2H: f"Device -> {host}",
        Work.D2D: "Device -> Device",
    }
    return f"Memcpy {operation.work} ({ends[operation.work]})", "gpu_memcpy"


def summary(
    recording: Recording, variant: Variant = Variant.HEAD, traced_pass: int = 0
) -> TraceSummary:
    """The true metrics of the run; the region is the whole run, start to end of the host."""
    kernels = _busy(recording, lambda each: each.work == Work.KERNEL)
    up = _busy(recording, lambda each: each.work == Work.H2D)
    down = _busy(recording, lambda each: each.work == Work.D2H)
    copies, busy = union((*up, *down)), _busy(recording, lambda _: True)
    everything = union([(0, recording.wall_ns)])
    waits = union((each.start, each.end) for each in recording.calls if each.waits)
    idle = subtract(everything, busy)
    overlap, ceiling = intersect(kernels, copies), min(measure(kernels), measure(copies))
    lanes = map(Lane, LANES, (kernels, up, down, waits, overlap))
    track = Track(f"{variant}, modelled", 0, recording.wall_ns, tuple(lanes))
    return TraceSummary(
        variant=variant,
        traced_pass=traced_pass,
        timeline=text_timeline([track]),
        length_ns=track.length,
        lanes=lanes_of(track),
        region_us=recording.wall_ns / 1000,
        kernel_busy_us=measure(kernels) / 1000,
        h2d_busy_us=measure(up) / 1000,
        d2h_busy_us=measure(down) / 1000,
        copy_busy_us=measure(copies) / 1000,
        kernel_copy_overlap_us=measure(overlap) / 1000,
        exposed_copy_us=measure(subtract(copies, kernels)) / 1000,
        gpu_idle_us=measure(idle) / 1000,
        no_kernel_us=measure(subtract(everything, kernels)) / 1000,
        host_sync_us=measure(waits) / 1000,
        host_sync_stall_us=measure(intersect(waits, idle)) / 1000,
        overlap_percent=_percent(measure(overlap), measure(copies)),
        overlap_ceiling_percent=_percent(ceiling, measure(copies)),
        overlap_efficiency_percent=_percent(measure(overlap), ceiling),
        duplex_percent=_percent(measure(intersect(up, down)), min(measure(up), measure(down))),
        h2d_gb_per_s=_rate(recording.operations, Work.H2D, up),
        d2h_gb_per_s=_rate(recording.operations, Work.D2H, down),
        pinned_share=_pinned_share(recording.operations),
        launches=sum(each.work == Work.KERNEL for each in recording.operations),
        coverage=1.0,
    )


def _busy(recording: Recording, wanted: Callable[[Operation], bool]) -> Intervals:
    return union((each.start, each.end) for each in recording.operations if wanted(each))


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _rate(operations: Iterable[Operation], work: Work, busy: Intervals) -> float | None:
    moved = sum(each.size for each in operations if each.work == work)
    return moved / measure(busy) if busy else None


def _pinned_share(operations: Iterable[Operation]) -> float | None:
    sizes = [(each.size, each.memory) for each in operations if each.memory is not None]
    total = sum(size for size, _ in sizes)
    pinned = sum(size for size, memory in sizes if memory == Memory.PINNED)
    return pinned / total if total else None
