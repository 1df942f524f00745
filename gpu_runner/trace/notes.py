"""What a reader must know before believing the numbers, and what the numbers suggest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_runner.trace.events import Trace
from gpu_runner.trace.intervals import measure
from gpu_runner.trace.metrics import DeviceMetrics
from gpu_runner.trace.quality import ENOUGH_COVERAGE
from gpu_runner.trace.transfers import PAGEABLE

FEW_PINNED = 0.5
NOTICEABLE = 0.02  # of the region
ALL_ON_DEFAULT = 0.9
WORTH_HIDING = 0.1  # of the copies: less kernel time than this is no reason for streams


def notes_of(trace: Trace, devices: Sequence[DeviceMetrics]) -> tuple[str, ...]:
    """Sentences for people: first about the file, then about each device."""
    said: dict[str, list[str]] = {}
    for device in devices:
        for sentence in _about_device(device):
            said.setdefault(sentence, []).append(str(device.device))
    several = len(devices) > 1
    about_devices = [
        f"{_listed(numbers)}: {sentence}" if several else sentence
        for sentence, numbers in said.items()
    ]
    return (*_about_file(trace), *about_devices)


def _listed(numbers: Sequence[str]) -> str:
    if len(numbers) == 1:
        return f"Device {numbers[0]}"
    return f"Devices {', '.join(numbers[:-1])} and {numbers[-1]}"


def _about_file(trace: Trace) -> Iterator[str]:
    defects = trace.defects
    if trace.modelled:
        yield "These numbers are modelled, not measured: the stream model wrote this trace."
    if trace.partial:
        yield f"Partial result: {trace.partial}."
    if not trace.events and not defects.without_time:
        launched = sum(call.role.value.endswith("launch") for call in trace.calls)
        yield (
            f"No GPU work was recorded, although the host launched {launched} kernels: the "
            "profiler had no access to the GPU's records (`hostside doctor` tells why)."
            if launched
            else "The file holds no GPU work, only the host's: record with CUDA activities on."
        )
    if defects.unreadable:
        yield f"Left out because they could not be read: {_count(defects.unreadable, 'event')}."
    if defects.without_time:
        left_out = _count(defects.without_time, "GPU event")
        all_of_them = "" if trace.events else ", which is all of them"
        yield f"Left out because they have no usable times: {left_out}{all_of_them}."
    if defects.dropped_records:
        yield "The profiler reports dropped records, so busy times are lower bounds."
    if defects.whole_graphs:
        yield (
            "CUDA graphs were recorded as one block each, so copies inside them are hidden: record "
            "with `--cuda-graph-trace=node`."
        )
    if trace.resolution > 1 and trace.events:
        yield "Times are rounded to 1 µs, so each boundary may be off by as much."


def _about_device(device: DeviceMetrics) -> Iterator[str]:
    yield from _about_records(device)
    yield from _about_copies(device)
    region = max(1, device.region)
    blocked, stall = device.waits.blocked, device.waits.blocked_stall
    if stall > NOTICEABLE * region:
        yield (
            f"A host thread is blocked for {100 * blocked / region:.1f} % of the region, "
            f"and in {100 * stall / region:.1f} % the GPU has nothing to do meanwhile."
        )
    if device.overhead > NOTICEABLE * region:
        yield (
            f"The profiler itself was at work for {100 * device.overhead / region:.1f} % of the "
            "region: take no latency from this file."
        )


def _about_records(device: DeviceMetrics) -> Iterator[str]:
    match = device.coverage
    if not match.complete and match.of_launches is not None:
        yield (
            f"Incomplete trace: {match.launches - match.launches_with_work} of {match.launches} "
            f"launches left no kernel in it ({100 * match.of_launches:.1f} % covered, "
            f"{100 * ENOUGH_COVERAGE:.1f} % needed), so no overlap is given."
        )
    if match.cut_off:
        yield f"The capture ended before the work of {_count(match.cut_off, 'launch', 'es')}."
    if match.of_works is not None and not match.host_complete:
        yield (
            f"Only {100 * match.of_works:.1f} % of the GPU work has its host call in the file, so "
            "launch gaps are not given."
        )
    if device.cleaned.clipped:
        yield (
            f"{_count(device.cleaned.clipped, 'event')} ran far into the next on the same stream "
            "(late timestamps) and were cut there."
        )
    if device.launches.graph_gaps:
        yield "Work inside graphs has no launch of its own: launch gaps before it are not counted."


def _about_copies(device: DeviceMetrics) -> Iterator[str]:
    copies, kernels = measure(device.lanes.copies), measure(device.lanes.kernels)
    if not copies:
        return
    if device.overlap_shown and 0 < kernels < copies:
        yield (
            f"Kernels run for {100 * kernels / copies:.1f} % of the copies' time, so no schedule "
            "can hide more than that of the copying."
        )
    share = device.transfers.pinned_share
    pageable = dict(device.transfers.host_memory_bytes).get(PAGEABLE, 0)
    if share is not None and share < FEW_PINNED and pageable:
        yield (
            f"{100 * (1 - share):.0f} % of the bytes are in pageable memory, which is copied "
            "through a staging buffer and cannot overlap freely: pin it."
        )
    on_default = device.default_stream_copies / device.host_copies if device.host_copies else 0
    overlap = measure(device.lanes.overlap)
    if on_default > ALL_ON_DEFAULT and kernels > WORTH_HIDING * copies and not overlap:
        yield (
            "The copies are on the default stream, where they wait for the kernels and the kernels "
            "for them: overlap needs a stream of its own."
        )


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else plural}"
