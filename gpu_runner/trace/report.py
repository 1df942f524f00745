"""The numbers as JSON, under the names of docs/trace.md: the interface of `hostside trace`.

Times are microseconds with the nanoseconds kept as decimals, percentages have two decimals and
bandwidths three. What cannot be known is null, never zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_runner.trace.events import Trace
from gpu_runner.trace.intervals import Intervals, intersect, measure
from gpu_runner.trace.metrics import DeviceMetrics
from gpu_runner.trace.notes import notes_of

VERSION = 1
Json = dict[str, Any]


def microseconds(nanoseconds: int) -> float:
    """The time as the JSON has it: the nearest float, so three decimals survive."""
    return nanoseconds / 1000


def percent(part: int, whole: int) -> float | None:
    """Two decimals; None of nothing."""
    return round(100 * part / whole, 2) if whole else None


def hundred_percent(parts: Sequence[int]) -> tuple[float, ...]:
    """Percentages of two decimals that sum to exactly 100, the largest remainders rounded up."""
    whole = sum(parts)
    if not whole:
        return tuple(0.0 for _ in parts)
    hundredths = [10_000 * part // whole for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda i: 10_000 * parts[i] % whole, reverse=True)
    for index in by_remainder[: 10_000 - sum(hundredths)]:
        hundredths[index] += 1
    return tuple(count / 100 for count in hundredths)


def trace_json(trace: Trace, devices: Sequence[DeviceMetrics], region: str | None = None) -> Json:
    """Everything measured in one file."""
    return {
        "version": VERSION,
        "source": trace.source,
        "format": trace.layout,
        "modelled": trace.modelled,
        "region": region,
        "devices": [device_json(device) for device in devices],
        "quality": _quality(trace, devices),
        "notes": list(notes_of(trace, devices)),
    }


def device_json(device: DeviceMetrics) -> Json:
    """Everything measured on one device."""
    return {
        "device": device.device,
        "name": device.name,
        **_activity(device),
        **_overlap(device),
        **_idle(device),
        **_host(device),
        **_transfers(device),
        **_communication(device),
        "zero_length": len(device.cleaned.zero_length),
        "same_stream_overlaps": device.cleaned.same_stream_overlaps,
        "clipped": device.cleaned.clipped,
        "coverage": _share(device.coverage.of_launches),
        "host_coverage": _share(device.coverage.of_works),
        "complete": device.coverage.complete,
    }


def _activity(device: DeviceMetrics) -> Json:
    lanes = device.lanes
    busy = measure(lanes.kernels)
    return {
        "region_us": microseconds(device.region),
        "kernels": device.kernels,
        "copies": dict(device.transfers.counts),
        "memsets": device.memsets,
        "kernel_busy_us": microseconds(busy),
        "kernel_sum_us": microseconds(device.kernel_sum),
        "kernel_concurrency": round(device.kernel_sum / busy, 3) if busy else None,
        "h2d_busy_us": _us(lanes.h2d),
        "d2h_busy_us": _us(lanes.d2h),
        "copy_busy_us": _us(lanes.copies),
        "d2d_busy_us": _us(lanes.d2d),
        "p2p_busy_us": _us(lanes.peer),
        "unified_memory_busy_us": _us(lanes.unified),
        "memset_busy_us": _us(lanes.memset),
        "default_stream_kernels_percent": percent(device.default_stream_kernels, device.kernels),
        "default_stream_copies_percent": percent(device.default_stream_copies, device.host_copies),
    }


def _overlap(device: DeviceMetrics) -> Json:
    lanes = device.lanes
    both, copies, kernels = (measure(some) for some in (lanes.overlap, lanes.copies, lanes.kernels))
    possible = min(copies, kernels)
    shown = device.overlap_shown
    duplex = measure(intersect(lanes.h2d, lanes.d2h))
    least = min(measure(lanes.h2d), measure(lanes.d2h))
    return {
        "kernel_copy_overlap_us": microseconds(both) if shown else None,
        "overlap_percent": percent(both, copies) if shown else None,
        "overlap_ceiling_percent": percent(possible, copies) if shown else None,
        "overlap_efficiency_percent": percent(both, possible) if shown else None,
        "overlap_of_kernels_percent": percent(both, kernels) if shown else None,
        "h2d_overlap_percent": _under_kernels(device, lanes.h2d),
        "d2h_overlap_percent": _under_kernels(device, lanes.d2h),
        "duplex_us": microseconds(duplex),
        "duplex_percent": percent(duplex, least),
        "exposed_copy_us": microseconds(copies - both),
    }


def _under_kernels(device: DeviceMetrics, copies: Intervals) -> float | None:
    if not device.overlap_shown:
        return None
    return percent(measure(intersect(copies, device.lanes.kernels)), measure(copies))


def _idle(device: DeviceMetrics) -> Json:
    region, part = device.region, device.partition
    no_kernel = region - measure(device.lanes.kernels)
    lengths = (part.compute, part.exposed_h2d, part.exposed_d2h, part.other, part.idle)
    keys = ("compute", "exposed_h2d", "exposed_d2h", "memset_and_device_copies", "idle")
    return {
        "no_kernel_us": microseconds(no_kernel),
        "no_kernel_percent": percent(no_kernel, region),
        "gpu_idle_us": microseconds(part.idle),
        "gpu_idle_percent": percent(part.idle, region),
        "partition_us": dict(zip(keys, map(microseconds, lengths), strict=True)),
        "partition_percent": dict(zip(keys, hundred_percent(lengths), strict=True)),
    }


def _host(device: DeviceMetrics) -> Json:
    waits, launches = device.waits, device.launches
    gap = launches.gap
    return {
        "host_sync_us": microseconds(waits.sync),
        # To one decimal, as the reference values for whole files are given.
        "host_sync_unclipped_us": round(microseconds(waits.sync_everywhere), 1),
        "host_sync_stall_us": microseconds(waits.sync_stall),
        "host_sync_by_call_us": {name: microseconds(time) for name, time in waits.by_call},
        "implicit_sync_us": microseconds(waits.implicit),
        "allocation_us": microseconds(waits.allocation),
        "host_blocked_us": microseconds(waits.blocked),
        "host_blocked_stall_us": microseconds(waits.blocked_stall),
        "launches": launches.count,
        "launch_api_us": microseconds(launches.api_time),
        "launch_gap_us": None if gap is None else microseconds(gap),
        "launch_gaps_of_graphs": launches.graph_gaps,
        "micro_gaps": launches.micro_gaps,
        "micro_idle_us": microseconds(launches.micro_idle),
        "macro_gaps": launches.macro_gaps,
        "macro_idle_us": microseconds(launches.macro_idle),
    }


def _transfers(device: DeviceMetrics) -> Json:
    found = device.transfers
    speeds = {direction: round(speed, 3) for direction, speed in found.gb_per_s}
    exact = dict(found.gb_per_s)
    return {
        "bytes": dict(found.bytes),
        "host_memory_bytes": dict(found.host_memory_bytes),
        "gb_per_s": speeds,
        "h2d_gb_per_s": _rounded(exact.get("HtoD"), 2),
        "d2h_gb_per_s": _rounded(exact.get("DtoH"), 2),
        "pinned_share": _share(found.pinned_share),
        "transfers": [
            {
                "direction": entry.direction,
                "memory": entry.memory or None,
                "copies": entry.copies,
                "small_copies": entry.small_copies,
                "bytes": entry.bytes,
                "gb_per_s": _rounded(entry.gb_per_s, 3),
                "median_large_gb_per_s": _rounded(entry.median_large_gb_per_s, 3),
            }
            for entry in found.by_memory
        ],
    }


def _communication(device: DeviceMetrics) -> Json:
    lanes = device.lanes
    talking = measure(lanes.communication)
    under = measure(intersect(lanes.communication, lanes.computation))
    return {
        "nccl_busy_us": microseconds(talking),
        "nccl_compute_overlap_percent": percent(under, talking),
    }


def _quality(trace: Trace, devices: Sequence[DeviceMetrics]) -> Json:
    defects = trace.defects
    boundaries = [2 * len(device.lanes.overlap) for device in devices]
    error = 0 if trace.resolution == 1 else max(boundaries, default=0) * trace.resolution
    return {
        "resolution_us": microseconds(trace.resolution),
        "overlap_error_bound_us": microseconds(error),
        "devices": len(trace.devices),
        "partial": trace.partial or None,
        "complete": all(device.coverage.complete for device in devices) and not trace.partial,
        "coverage": min(_known(device.coverage.of_launches for device in devices), default=None),
        "launches_without_work": sum(
            device.coverage.launches - device.coverage.launches_with_work for device in devices
        ),
        "launches_cut_off": sum(device.coverage.cut_off for device in devices),
        "unreadable_events": defects.unreadable,
        "without_timestamp": defects.without_time,
        "dropped_record_messages": defects.dropped_records,
        "graphs_as_one_block": defects.whole_graphs,
        "zero_length": sum(len(device.cleaned.zero_length) for device in devices),
        "same_stream_overlaps": sum(device.cleaned.same_stream_overlaps for device in devices),
        "clipped": sum(device.cleaned.clipped for device in devices),
        "profiler_overhead_us": microseconds(max((d.overhead for d in devices), default=0)),
        "profiler_ratio": None,  # known only where the same run was timed without the profiler
    }


def _us(intervals: Intervals) -> float:
    return microseconds(measure(intervals))


def _share(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _known(shares: Any) -> list[float]:
    return [round(share, 6) for share in shares if share is not None]
