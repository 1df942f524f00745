"""Metrics of random traces agree with brute force, and ignore what must not matter."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gpu_runner.trace.events import KINETO, Defects, GpuEvent, Kind, Trace
from gpu_runner.trace.metrics import DeviceMetrics, device_metrics
from gpu_runner.trace.report import device_json

GRID = 60
COPY_KINDS = {Kind.H2D: "HtoD", Kind.D2H: "DtoH", Kind.D2D: "DtoD", Kind.P2P: "PtoP"}
KINDS = st.sampled_from([Kind.KERNEL, Kind.KERNEL, Kind.MEMSET, *COPY_KINDS])


@st.composite
def events(draw: st.DrawFn) -> GpuEvent:
    start, kind = draw(st.integers(0, GRID)), draw(KINDS)
    length = draw(st.integers(0, 15))
    return GpuEvent(
        start=start,
        end=start + length,
        kind=kind,
        device=0,
        stream=draw(st.integers(1, 3)),
        process=0,
        correlation=-1,
        name="work",
        direction=COPY_KINDS.get(kind, ""),
        memory="Pinned" if kind in (Kind.H2D, Kind.D2H) else "",
        size=64 if kind in COPY_KINDS else None,
    )


TRACES = st.lists(events(), min_size=1, max_size=25)


def trace_of(found: list[GpuEvent]) -> Trace:
    return Trace("t", KINETO, tuple(found), (), (), (), (), 1, (), Defects())


def measured(found: list[GpuEvent]) -> DeviceMetrics:
    (device,) = device_metrics(trace_of(found))
    return device


def cells(found: list[GpuEvent], *kinds: Kind) -> set[int]:
    return {
        cell for event in found if event.kind in kinds for cell in range(event.start, event.end)
    }


@given(TRACES)
def test_the_numbers_equal_those_of_a_one_nanosecond_grid(found: list[GpuEvent]) -> None:
    device = device_json(measured(found))
    kernels, h2d, d2h = (cells(found, kind) for kind in (Kind.KERNEL, Kind.H2D, Kind.D2H))
    copies, busy = h2d | d2h, cells(found, *Kind)
    length = max(busy) + 1 - min(busy) if busy else 0
    lone_h2d, lone_d2h = h2d - kernels, d2h - kernels - h2d
    assert device["region_us"] == length / 1000
    assert device["kernel_busy_us"] == len(kernels) / 1000
    assert device["copy_busy_us"] == len(copies) / 1000
    assert device["kernel_copy_overlap_us"] == len(kernels & copies) / 1000
    assert device["exposed_copy_us"] == len(copies - kernels) / 1000
    assert device["duplex_us"] == len(h2d & d2h) / 1000
    assert device["no_kernel_us"] == (length - len(kernels)) / 1000
    assert device["gpu_idle_us"] == (length - len(busy)) / 1000
    assert device["partition_us"] == {
        "compute": len(kernels) / 1000,
        "exposed_h2d": len(lone_h2d) / 1000,
        "exposed_d2h": len(lone_d2h) / 1000,
        "memset_and_device_copies": len(busy - kernels - copies) / 1000,
        "idle": (length - len(busy)) / 1000,
    }


@given(TRACES)
def test_overlap_never_exceeds_its_ceiling_and_the_partition_is_whole(
    found: list[GpuEvent],
) -> None:
    device = measured(found)
    shown = device_json(device)
    if shown["overlap_percent"] is not None:
        assert shown["overlap_percent"] <= shown["overlap_ceiling_percent"] <= 100
    if device.region:
        assert round(sum(shown["partition_percent"].values()), 2) == 100
    part = device.partition
    whole = part.compute + part.exposed_h2d + part.exposed_d2h + part.other + part.idle
    assert whole == device.region


@given(TRACES, st.randoms(use_true_random=False))
def test_the_order_and_the_numbers_of_streams_do_not_matter(
    found: list[GpuEvent], random: Random
) -> None:
    shuffled = [event._replace(stream=900 - event.stream) for event in found]
    random.shuffle(shuffled)
    assert device_json(measured(shuffled)) == device_json(measured(found))


@given(TRACES)
def test_a_shift_of_13_days_changes_nothing(found: list[GpuEvent]) -> None:
    far = 1 << 50
    moved = [event._replace(start=event.start + far, end=event.end + far) for event in found]
    assert device_json(measured(moved)) == device_json(measured(found))


@given(TRACES, st.integers(0, 24))
def test_an_event_cut_in_two_is_busy_for_as_long(found: list[GpuEvent], index: int) -> None:
    event = found[index % len(found)]
    middle = (event.start + event.end) // 2
    halves = [event._replace(end=middle), event._replace(start=middle)]
    cut = [*found[: index % len(found)], *halves, *found[index % len(found) + 1 :]]
    one, other = device_json(measured(found)), device_json(measured(cut))
    for key in ("kernel_busy_us", "copy_busy_us", "kernel_copy_overlap_us", "partition_us"):
        assert one[key] == other[key]


@given(TRACES, TRACES)
def test_devices_are_measured_as_if_they_were_alone(
    left: list[GpuEvent], right: list[GpuEvent]
) -> None:
    second = [event._replace(device=1) for event in right]
    both = device_metrics(trace_of([*left, *second]))
    alone = measured(left), replace(measured(right), device=1)
    assert [device_json(device) for device in both] == [device_json(device) for device in alone]
