"""The trace reader's metrics of a modelled trace equal what the model knows to be true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_runner import founding
from gpu_runner.model import REGION, ModelGpu
from gpu_runner.model_trace import kineto, summary
from gpu_runner.recording import LEGACY, Hardware, Memory, Recording, Work
from gpu_runner.trace.intervals import intersect, measure
from gpu_runner.trace.metrics import DeviceMetrics, device_metrics
from gpu_runner.trace.read import read_trace

SMALL = Hardware(pinned_gb_per_s=1.0, pageable_gb_per_s=0.5, memory_gb_per_s=1.0, call_ns=2)
STEPS = st.tuples(
    st.sampled_from(["up", "down", "launch", "inside", "fill", "sync", "host work"]),
    st.integers(0, 3),
    st.integers(1, 40),
    st.sampled_from(Memory),
)


def read_back(recording: Recording, path: Path, **options: Any) -> DeviceMetrics:
    path.write_text(json.dumps(kineto(recording, **options)))
    (device,) = device_metrics(read_trace(path, REGION), region=REGION)
    return device


def play(program: list[tuple[str, int, int, Memory]]) -> Recording:
    gpu = ModelGpu(SMALL)
    streams = [LEGACY, gpu.stream(), gpu.stream(), gpu.stream(blocking=False)]
    with gpu.region():
        gpu.launch("first", 1)
        for action, index, amount, memory in program:
            match action:
                case "up" | "down":
                    work = Work.H2D if action == "up" else Work.D2H
                    gpu.copy(work, amount, memory, streams[index], wait=amount % 3 == 0)
                case "launch":
                    gpu.launch("k", amount, streams[index])
                case "inside":
                    gpu.copy_on_device(amount, streams[index])
                case "fill":
                    gpu.memset(amount, streams[index])
                case "sync":
                    gpu.stream_synchronize(streams[index])
                case _:
                    gpu.host_work(amount)
        gpu.synchronize()
    return gpu.finish()


def agree(device: DeviceMetrics, recording: Recording) -> None:
    truth, lanes = summary(recording), device.lanes
    read = {
        "region_us": device.region,
        "kernel_busy_us": measure(lanes.kernels),
        "h2d_busy_us": measure(lanes.h2d),
        "d2h_busy_us": measure(lanes.d2h),
        "copy_busy_us": measure(lanes.copies),
        "kernel_copy_overlap_us": measure(lanes.overlap),
        "exposed_copy_us": measure(lanes.copies) - measure(lanes.overlap),
        "gpu_idle_us": measure(lanes.idle),
        "no_kernel_us": device.region - measure(lanes.kernels),
        "host_sync_us": device.waits.blocked,
        "host_sync_stall_us": device.waits.blocked_stall,
    }
    assert {name: value / 1000 for name, value in read.items()} == {
        name: getattr(truth, name) for name in read
    }
    both = measure(intersect(lanes.h2d, lanes.d2h))
    least = min(measure(lanes.h2d), measure(lanes.d2h))
    assert truth.duplex_percent == (100 * both / least if least else None)
    assert device.kernels == device.launches.count == truth.launches
    assert device.overlap_shown


@given(program=st.lists(STEPS, max_size=25))
@settings(max_examples=100, deadline=None)
def test_the_reader_measures_what_the_model_knows(
    program: list[tuple[str, int, int, Memory]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    recording = play(program)
    agree(read_back(recording, tmp_path_factory.mktemp("trace") / "t.json"), recording)


@pytest.mark.parametrize("name", founding.PROGRAMS)
def test_the_founding_traces_are_read_as_modelled(name: str, tmp_path: Path) -> None:
    recording = founding.run(name).recording
    device = read_back(recording, tmp_path / "t.json", device=3, base_ns=1_800_000_000_000_000_000)
    agree(device, recording)
    assert device.device == 3
    assert device.name == "modelled GPU (modelled, not measured)"
