"""Each way in which traces have misled a tool before is a small trace here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trace_files import (
    call,
    copy,
    event,
    gpu,
    kernel,
    kineto,
    memset,
    metrics,
    numbers,
    region,
    report,
)


def test_durations_on_two_streams_are_united_not_summed(tmp_path: Path) -> None:
    file = kineto(tmp_path / "t.json", kernel(0, 10, stream=7), kernel(5, 10, stream=8))
    found = numbers(file)
    assert (found["kernel_busy_us"], found["kernel_sum_us"]) == (15.0, 20.0)
    assert found["kernel_concurrency"] == 1.333


def test_intervals_of_different_devices_are_never_merged(tmp_path: Path) -> None:
    file = kineto(tmp_path / "t.json", kernel(0, 10, device=0), copy(0, 10, device=1))
    first, second = report(file)["devices"]
    assert (first["device"], first["kernel_busy_us"], first["overlap_percent"]) == (0, 10.0, None)
    assert (second["device"], second["copy_busy_us"], second["overlap_percent"]) == (1, 10.0, 0.0)


def test_small_overlaps_on_one_stream_are_real_and_counted(tmp_path: Path) -> None:
    file = kineto(tmp_path / "t.json", kernel(0, 10), kernel(9, 10), kernel(30, 1))
    found = numbers(file)
    assert (found["same_stream_overlaps"], found["clipped"]) == (1, 0)
    assert (found["kernel_busy_us"], found["kernel_sum_us"]) == (20.0, 21.0)


def test_events_of_no_length_count_but_take_no_time(tmp_path: Path) -> None:
    file = kineto(
        tmp_path / "t.json", kernel(0, 10), kernel(5, 0), copy(20, 10, bytes=1000), copy(30, 0)
    )
    found = numbers(file)
    assert (found["kernels"], found["zero_length"], found["copies"]) == (2, 2, {"HtoD": 2})
    assert (found["kernel_busy_us"], found["copy_busy_us"]) == (10.0, 10.0)
    assert found["gb_per_s"] == {"HtoD": 0.1}, "the copy of no length has no speed"
    assert found["bytes"] == {"HtoD": 2000}
    assert (found["clipped"], found["same_stream_overlaps"]) == (0, 0)


@pytest.mark.parametrize(
    ("start", "resolution", "bound"),
    [
        pytest.param(5, 1.0, 2.0, id="whole microseconds"),
        pytest.param(5.001, 0.001, 0.0, id="nanoseconds"),
    ],
)
def test_rounded_times_are_said_to_be_rounded(
    tmp_path: Path, start: float, resolution: float, bound: float
) -> None:
    found = report(kineto(tmp_path / "t.json", kernel(0, 10), copy(start, 2)))
    assert found["quality"]["resolution_us"] == resolution
    assert found["quality"]["overlap_error_bound_us"] == bound
    assert any("rounded to 1 µs" in note for note in found["notes"]) is (resolution == 1.0)


def test_touching_work_does_not_overlap(tmp_path: Path) -> None:
    found = numbers(kineto(tmp_path / "t.json", copy(0, 10), kernel(10, 10)))
    assert (found["overlap_percent"], found["gpu_idle_us"]) == (0.0, 0.0)


@pytest.mark.parametrize("category", ["cuda_sync", "gpu_user_annotation", "overhead"])
def test_what_carries_a_stream_without_being_work_is_not_counted(
    tmp_path: Path, category: str
) -> None:
    impostor = event(category, "Context Sync", 0, 1000, 0, 7, device=0, stream=7)
    found = numbers(kineto(tmp_path / "t.json", kernel(100, 10), impostor))
    assert (found["region_us"], found["kernels"], found["gpu_idle_us"]) == (10.0, 1, 0.0)


def test_the_profilers_own_wait_at_the_stop_is_outside_the_region(tmp_path: Path) -> None:
    file = kineto(tmp_path / "t.json", kernel(0, 10), call("cudaDeviceSynchronize", 70, 158_000))
    found = numbers(file)
    assert found["host_sync_us"] == 0.0
    assert found["host_sync_unclipped_us"] == 158_000.0


@pytest.mark.parametrize(
    ("stream", "host", "share"),
    [
        pytest.param(7, "cudaMemcpyAsync", 100.0, id="CUDA's legacy stream"),
        pytest.param(20, "cudaMemcpyAsync", 0.0, id="a stream of its own"),
        pytest.param(0, "hipMemcpyAsync", 100.0, id="ROCm's legacy stream"),
        pytest.param(7, "hipMemcpyAsync", 0.0, id="ROCm's seventh stream"),
    ],
)
def test_the_share_of_copies_on_the_default_stream_is_told(
    tmp_path: Path, stream: int, host: str, share: float
) -> None:
    file = kineto(
        tmp_path / "t.json", copy(10, 10, stream=stream, correlation=5), call(host, 0, 2, 5)
    )
    assert numbers(file)["default_stream_copies_percent"] == share


def test_serial_copies_on_the_default_stream_get_the_reason(tmp_path: Path) -> None:
    file = kineto(tmp_path / "t.json", copy(0, 10, stream=7), kernel(10, 10))
    assert any("default stream" in note for note in report(file)["notes"])


def test_an_asynchronous_copy_of_pageable_memory_that_blocks_is_a_hidden_wait(
    tmp_path: Path,
) -> None:
    file = kineto(
        tmp_path / "t.json",
        copy(10, 100, memory="Pageable", correlation=1),
        call("cudaMemcpyAsync", 0, 90, 1),
        copy(200, 100, memory="Pageable", correlation=2),
        call("cudaMemcpyAsync", 190, 20, 2),
        copy(300, 100, memory="Pinned", correlation=3),
        call("cudaMemcpyAsync", 300, 90, 3),
    )
    found = numbers(file)
    assert found["implicit_sync_us"] == 80.0, "only the first, and only inside the region"
    assert (found["host_sync_us"], found["host_blocked_us"]) == (0.0, 80.0)
    assert found["pinned_share"] == 0.333333


def test_copies_inside_a_device_are_no_copies_to_overlap(tmp_path: Path) -> None:
    found = numbers(kineto(tmp_path / "t.json", kernel(0, 10), copy(0, 10, kind="DtoD")))
    assert (found["overlap_percent"], found["copy_busy_us"]) == (None, 0.0)
    assert (found["d2d_busy_us"], found["copies"]) == (10.0, {"DtoD": 1})


def test_peer_copies_are_a_class_of_their_own_and_find_their_device(tmp_path: Path) -> None:
    peer = gpu("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 20, 5, 7, 0, bytes=9)
    del peer["args"]["device"]
    peer["args"] |= {"fromDevice": 0, "inDevice": 2, "toDevice": 2}
    first, second = report(kineto(tmp_path / "t.json", kernel(0, 10), peer))["devices"]
    assert (first["device"], first["p2p_busy_us"]) == (0, 0.0)
    assert (second["device"], second["p2p_busy_us"], second["copy_busy_us"]) == (2, 5.0, 0.0)


def test_kernels_of_a_graph_have_no_launch_gap_of_their_own(tmp_path: Path) -> None:
    node: dict[str, Any] = {"graph id": 3, "graph node id": 12, "correlation": 5}
    file = kineto(
        tmp_path / "t.json",
        call("cudaGraphLaunch", 0, 5, 5),
        kernel(10, 10, **node),
        kernel(30, 10, **node),
    )
    found = numbers(file)
    assert (found["launches"], found["kernels"]) == (1, 2)
    assert (found["launch_gap_us"], found["launch_gaps_of_graphs"]) == (None, 1)
    assert found["complete"]


def test_branches_of_a_graph_that_share_a_stream_number_are_not_clipped(tmp_path: Path) -> None:
    node: dict[str, Any] = {"graph node id": 12, "correlation": 5}
    found = numbers(kineto(tmp_path / "t.json", kernel(0, 100, **node), kernel(10, 100, **node)))
    assert (found["clipped"], found["kernel_sum_us"]) == (0, 200.0)


def launched(count: int, lost: int) -> list[dict[str, Any]]:
    events = [copy(0, 4)]
    for number in range(1, count + 1):
        events.append(call("cudaLaunchKernel", number * 10, 2, number))
        if number > lost:
            events.append(kernel(number * 10 + 3, 2, correlation=number))
    return events


@pytest.mark.parametrize(
    ("count", "lost", "complete"),
    [
        pytest.param(1000, 0, True, id="nothing lost"),
        pytest.param(1000, 5, True, id="at the limit"),
        pytest.param(1000, 6, False, id="below the limit"),
        pytest.param(2, 1, False, id="half lost"),
    ],
)
def test_no_overlap_is_given_when_launches_left_no_kernel(
    tmp_path: Path, count: int, lost: int, complete: bool
) -> None:
    found = report(kineto(tmp_path / "t.json", *launched(count, lost)))
    (device,) = found["devices"]
    assert device["complete"] is complete is found["quality"]["complete"]
    assert device["coverage"] == (count - lost) / count
    assert found["quality"]["launches_without_work"] == lost
    assert (device["overlap_percent"] is None) is not complete
    assert any("Incomplete trace" in note for note in found["notes"]) is not complete


def test_the_end_of_a_profiled_run_must_not_be_missing_either(tmp_path: Path) -> None:
    events = [*launched(10, 0), call("cudaLaunchKernel", 200, 2, 99)]
    assert not numbers(kineto(tmp_path / "t.json", *events))["complete"]


def test_launches_that_are_captured_into_a_graph_run_nothing(tmp_path: Path) -> None:
    file = kineto(
        tmp_path / "t.json",
        call("cudaStreamBeginCapture_v10000", 0, 1),
        call("cudaLaunchKernel", 2, 1, 41),
        call("cudaStreamEndCapture", 4, 1),
        call("cudaLaunchKernel", 6, 1, 42),
        kernel(10, 5, correlation=42),
        copy(20, 5),
    )
    found = numbers(file)
    assert (found["complete"], found["launches"]) == (True, 1)


def test_launches_of_triton_and_hip_are_launches(tmp_path: Path) -> None:
    names = (
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cudaLaunchKernelExC",
        "hipExtModuleLaunchKernel",
    )
    events = [
        entry
        for number, name in enumerate(names, start=1)
        for entry in (
            call(name, number * 10, 1, number),
            kernel(number * 10 + 2, 3, correlation=number),
        )
    ]
    found = numbers(kineto(tmp_path / "t.json", *events))
    assert (found["launches"], found["launch_api_us"]) == (4, 4.0)


@pytest.mark.parametrize(
    ("ts", "dur"),
    [
        pytest.param(0, 0, id="no timestamp collected"),
        pytest.param(5, float("nan"), id="NaN duration"),
        pytest.param(float("nan"), 5, id="NaN start"),
        pytest.param(5, float("inf"), id="endless"),
        pytest.param(5, -1, id="negative duration"),
        pytest.param(5, None, id="no duration"),
        pytest.param("soon", 1, id="words"),
        pytest.param(1e300, 1, id="beyond all clocks"),
    ],
)
def test_events_without_usable_times_are_dropped_and_counted(
    tmp_path: Path, ts: Any, dur: Any
) -> None:
    found = report(kineto(tmp_path / "t.json", kernel(10, 10), kernel(ts, dur)))
    assert found["quality"]["without_timestamp"] == 1
    assert [device["kernels"] for device in found["devices"]] == [1]
    assert any("no usable times" in note for note in found["notes"])


def test_late_timestamps_are_clipped_to_the_successor_and_counted(tmp_path: Path) -> None:
    file = kineto(tmp_path / "t.json", kernel(0, 1_600_000), kernel(100, 50), kernel(200, 50))
    found = numbers(file)
    assert (found["clipped"], found["same_stream_overlaps"]) == (1, 1)
    assert found["kernel_busy_us"] == 200.0
    assert found["region_us"] == 250.0


def test_a_long_kernel_with_another_stream_beside_it_is_not_clipped(tmp_path: Path) -> None:
    file = kineto(tmp_path / "t.json", kernel(0, 1_600_000, stream=7), kernel(100, 50, stream=8))
    assert numbers(file)["clipped"] == 0


def test_a_host_wait_costs_only_what_leaves_the_gpu_idle(tmp_path: Path) -> None:
    file = kineto(
        tmp_path / "t.json",
        kernel(0, 100),
        call("cudaStreamSynchronize", 50, 100),
        kernel(200, 10),
    )
    found = numbers(file)
    assert (found["host_sync_us"], found["host_sync_stall_us"]) == (100.0, 50.0)
    assert found["host_sync_by_call_us"] == {"cudaStreamSynchronize": 100.0}


def test_two_threads_that_wait_at_once_wait_no_longer(tmp_path: Path) -> None:
    file = kineto(
        tmp_path / "t.json",
        kernel(0, 100),
        call("cudaStreamSynchronize", 0, 60, thread=1),
        call("cudaEventSynchronize", 20, 60, thread=2),
        call("cudaMemcpy", 70, 10, thread=2),
    )
    found = numbers(file)
    assert (found["host_sync_us"], found["host_sync_unclipped_us"]) == (60.0, 80.0)


def test_allocations_block_too_and_are_told_apart(tmp_path: Path) -> None:
    file = kineto(
        tmp_path / "t.json",
        kernel(0, 10),
        call("cudaMalloc", 10, 20),
        call("cudaHostAlloc", 40, 5),
        call("cudaMallocAsync", 50, 5),
        kernel(90, 10),
    )
    found = numbers(file)
    assert (found["allocation_us"], found["host_sync_us"]) == (25.0, 0.0)
    assert found["host_blocked_stall_us"] == 25.0


def test_exposed_copies_are_what_no_kernel_hides(tmp_path: Path) -> None:
    file = kineto(tmp_path / "t.json", kernel(0, 10), copy(5, 20), copy(40, 10, kind="DtoH"))
    found = numbers(file)
    assert found["exposed_copy_us"] == 25.0
    assert found["overlap_percent"] == 16.67
    assert found["overlap_ceiling_percent"] == 33.33
    assert found["overlap_efficiency_percent"] == 50.0
    assert (found["h2d_overlap_percent"], found["d2h_overlap_percent"]) == (25.0, 0.0)
    assert found["overlap_of_kernels_percent"] == 50.0


def test_duplex_is_the_share_of_the_shorter_direction(tmp_path: Path) -> None:
    file = kineto(tmp_path / "t.json", copy(0, 100), copy(80, 40, kind="DtoH", stream=21))
    found = numbers(file)
    assert (found["duplex_us"], found["duplex_percent"]) == (20.0, 50.0)


def test_no_kernel_and_nothing_at_all_are_two_numbers(tmp_path: Path) -> None:
    file = kineto(tmp_path / "t.json", kernel(0, 2), copy(2, 95), kernel(98, 2))
    found = numbers(file)
    assert (found["no_kernel_percent"], found["gpu_idle_percent"]) == (96.0, 1.0)


def test_rocm_copies_that_run_as_kernels_are_no_compute(tmp_path: Path) -> None:
    file = kineto(
        tmp_path / "t.json",
        kernel(0, 10, name="__amd_rocclr_copyBuffer.kd"),
        kernel(20, 10, name="__amd_rocclr_fillBufferAligned.kd"),
        kernel(40, 10, name="gemm"),
    )
    found = numbers(file)
    assert (found["kernels"], found["memsets"], found["copies"]) == (1, 1, {"unknown": 1})
    assert (found["kernel_busy_us"], found["d2d_busy_us"], found["memset_busy_us"]) == (10, 10, 10)


def test_the_launch_gap_is_the_idle_time_under_the_next_launch(tmp_path: Path) -> None:
    file = kineto(
        tmp_path / "t.json",
        kernel(0, 10, correlation=1),
        call("cudaLaunchKernel", -5, 4, 1),
        call("cudaLaunchKernel", 20, 6, 2),
        kernel(30, 10, correlation=2),
        call("cudaLaunchKernel", 31, 6, 3),
        kernel(45, 10, correlation=3),
    )
    found = numbers(file)
    assert found["launch_gap_us"] == 6.0, "the third was launched while the second ran"
    assert (found["micro_gaps"], found["micro_idle_us"]) == (1, 5.0)
    assert (found["macro_gaps"], found["macro_idle_us"]) == (1, 20.0)


def test_launch_gaps_are_unknown_where_the_host_is_not_in_the_file(tmp_path: Path) -> None:
    found = report(kineto(tmp_path / "t.json", kernel(0, 10), kernel(20, 10)))
    (device,) = found["devices"]
    assert (device["launch_gap_us"], device["host_coverage"]) == (None, 0.0)
    assert any("launch gaps are not given" in note for note in found["notes"])


def test_only_the_profilers_own_overhead_is_held_against_the_file(tmp_path: Path) -> None:
    file = kineto(
        tmp_path / "t.json",
        kernel(0, 100),
        event("overhead", "Buffer Flush", 0, 30, -1, 0),
        event("overhead", "Command Buffer Full", 40, 60, -1, 0),
    )
    found = report(file)
    assert found["quality"]["profiler_overhead_us"] == 30.0
    assert any("take no latency" in note for note in found["notes"])


def test_nccl_kernels_are_kernels_and_compared_with_the_others(tmp_path: Path) -> None:
    file = kineto(
        tmp_path / "t.json",
        kernel(0, 10, stream=9, name="ncclDevKernel_AllReduce_Sum_f16"),
        kernel(8, 10),
    )
    found = numbers(file)
    assert (found["kernel_busy_us"], found["nccl_busy_us"]) == (18.0, 10.0)
    assert found["nccl_compute_overlap_percent"] == 20.0


def test_small_copies_and_the_speed_of_large_ones_are_told_apart(tmp_path: Path) -> None:
    file = kineto(
        tmp_path / "t.json",
        copy(0, 1000, bytes=20_000_000),
        copy(2000, 1000, bytes=10_000_000),
        copy(4000, 500, bytes=1000),
    )
    (transfer,) = numbers(file)["transfers"]
    assert (transfer["copies"], transfer["small_copies"]) == (3, 1)
    assert transfer["median_large_gb_per_s"] == 15.0
    assert transfer["gb_per_s"] == 12.0


def test_a_memset_is_neither_kernel_nor_copy(tmp_path: Path) -> None:
    found = numbers(kineto(tmp_path / "t.json", memset(0, 10), copy(5, 10)))
    assert (found["memset_busy_us"], found["kernel_busy_us"]) == (10.0, 0.0)
    assert found["partition_us"]["exposed_h2d"] == 10.0
    assert found["partition_us"]["memset_and_device_copies"] == 5.0


def test_a_region_clips_everything_to_its_ranges(tmp_path: Path) -> None:
    file = kineto(
        tmp_path / "t.json",
        region("step#1", 100, 100),
        region("step#2", 300, 100),
        region("other", 0, 50),
        kernel(0, 10),
        kernel(150, 100, stream=7),
        copy(190, 120),
        kernel(500, 10),
        call("cudaDeviceSynchronize", 180, 1000),
    )
    found = numbers(file, "step#*")
    assert (found["region_us"], found["kernels"]) == (200.0, 1)
    assert (found["kernel_busy_us"], found["h2d_busy_us"]) == (50.0, 20.0)
    assert (found["host_sync_us"], found["gpu_idle_us"]) == (120.0, 140.0)
    assert sum(found["partition_percent"].values()) == 100.0


def test_a_device_without_work_in_the_region_is_idle(tmp_path: Path) -> None:
    file = kineto(
        tmp_path / "t.json", region("step", 100, 50), kernel(0, 10), kernel(120, 10, device=1)
    )
    first, second = metrics(file, "step")
    assert (first.region, first.partition.idle) == (50_000, 50_000)
    assert second.partition.compute == 10_000
