"""What-ifs from a trace: the replay must repeat the trace before it may say anything."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_runner import founding
from gpu_runner.errors import RunnerError
from gpu_runner.founding import Images
from gpu_runner.model import ModelGpu
from gpu_runner.model_trace import kineto
from gpu_runner.recording import LEGACY, Hardware, Memory, Recording, Work
from gpu_runner.trace.events import Trace
from gpu_runner.trace.read import read_trace
from gpu_runner.what_if import describe, pinned_instead

SHARED = Path(__file__).parents[2] / "shared" / "traces"


def traced(recording: Recording, folder: Path) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps(kineto(recording)))
    return read_trace(path)


@pytest.mark.parametrize("name", founding.PROGRAMS)
def test_the_founding_traces_are_repeated_exactly(name: str, tmp_path: Path) -> None:
    found = pinned_instead(traced(founding.run(name).recording, tmp_path), 25.0)
    assert found.error == 0
    assert found.trusted
    original = founding.run(name).recording.operations
    assert [(each.start, each.end) for each in found.replayed.operations] == [
        (each.start, each.end) for each in original
    ]


def test_pinning_the_loop_gives_what_a_pinned_loop_costs(tmp_path: Path) -> None:
    images = Images()
    gpu = ModelGpu()
    for _ in range(images.count):
        gpu.copy(Work.H2D, images.size, Memory.PINNED)
        gpu.launch("k", gpu.hardware.traffic_ns(2 * images.size))
        gpu.synchronize()
        gpu.copy(Work.D2H, images.size, Memory.PINNED, wait=True)
    direct = gpu.finish().wall_ns
    found = pinned_instead(traced(founding.run("per-image").recording, tmp_path), 25.0)
    assert found.changed.wall_ns == direct
    assert found.changed.wall_ns < found.replayed.wall_ns / 3


def test_a_trace_without_pageable_copies_gains_nothing(tmp_path: Path) -> None:
    found = pinned_instead(traced(founding.run("ring").recording, tmp_path), 50.0)
    assert found.changed.wall_ns == found.replayed.wall_ns


STEPS = st.tuples(
    st.sampled_from(["up", "down", "launch", "inside", "sync", "stream sync", "host work"]),
    st.integers(0, 2),
    st.integers(1, 40),
    st.sampled_from(Memory),
)


def play(program: list[tuple[str, int, int, Memory]], call_ns: int) -> Recording:
    gpu = ModelGpu(Hardware(pinned_gb_per_s=1.0, pageable_gb_per_s=0.5, call_ns=call_ns))
    streams = [LEGACY, gpu.stream(), gpu.stream()]
    gpu.host_work(1)  # a call from 0 to 0 would count as one without a time
    gpu.launch("first", 1)
    for action, index, amount, memory in program:
        match action:
            case "up" | "down":
                work = Work.H2D if action == "up" else Work.D2H
                gpu.copy(work, amount, memory, streams[index], wait=amount % 3 == 0)
            case "launch":
                gpu.launch("k", amount, streams[index])
            case "inside":
                gpu.copy_on_device(amount * 1000, streams[index])
            case "sync":
                gpu.synchronize()
            case "stream sync":
                gpu.stream_synchronize(streams[index])
            case _:
                gpu.host_work(amount)
    return gpu.finish()


@given(program=st.lists(STEPS, max_size=25))
@example(program=[("down", 2, 2, Memory.PINNED), ("up", 1, 1, Memory.PAGEABLE)])  # at once
@settings(max_examples=100, deadline=None)
def test_programs_without_hidden_waits_are_repeated(
    program: list[tuple[str, int, int, Memory]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    recording = play(program, call_ns=0)
    found = pinned_instead(traced(recording, tmp_path_factory.mktemp("t")), 1.0)
    assert [(each.start, each.end) for each in found.replayed.operations] == [
        (each.start - 1, each.end - 1) for each in recording.operations
    ]


@given(program=st.lists(STEPS, max_size=25))
@settings(max_examples=100, deadline=None)
def test_at_most_the_cost_of_each_call_is_lost(
    program: list[tuple[str, int, int, Memory]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A trace does not tell a call's own cost from its wait when both go on at once."""
    found = pinned_instead(traced(play(program, 2), tmp_path_factory.mktemp("t")), 1.0)
    assert -2 * (len(program) + 1) <= found.replayed.wall_ns - found.traced_ns <= 0


def test_a_wait_between_streams_that_the_trace_hides_makes_it_refuse(tmp_path: Path) -> None:
    gpu = ModelGpu()
    copying, computing = gpu.stream(blocking=False), gpu.stream(blocking=False)
    gpu.copy(Work.H2D, 25_000_000, Memory.PINNED, copying)
    gpu.wait_event(gpu.record(copying), computing)
    gpu.launch("k", 1_000_000, computing)
    gpu.synchronize()
    found = pinned_instead(traced(gpu.finish(), tmp_path), 25.0)
    assert not found.trusted
    assert found.error == pytest.approx(-0.5, abs=0.01)
    assert "too far off to say" in describe(found)
    assert "With every pageable copy" not in describe(found)


def test_work_without_its_host_call_makes_it_refuse(tmp_path: Path) -> None:
    whole = traced(founding.run("per-image").recording, tmp_path)
    calls = tuple(call for call in whole.calls if call.correlation != 2)
    found = pinned_instead(replace(whole, calls=calls), 25.0)
    assert not found.trusted
    assert "without 1 of 24 pieces of GPU work" in describe(found)


def test_the_sentences_carry_the_label_and_the_ceiling(tmp_path: Path) -> None:
    said = describe(pinned_instead(traced(founding.run("per-image").recording, tmp_path), 25.0))
    assert said.startswith("What if, modelled and not measured: the model repeats the traced 25.49")
    assert "25.49 ms (+0.0%)" in said
    assert "0.0 % of a possible 0.8 % before" in said


@pytest.mark.parametrize(
    ("change", "device", "complaint"),
    [
        pytest.param({"events": ()}, None, "holds no GPU work", id="no GPU work"),
        pytest.param({"calls": ()}, None, "record with CPU activities on", id="no host calls"),
        pytest.param({}, 5, "has no device 5; devices with work: 0", id="no such device"),
    ],
)
def test_what_cannot_be_replayed_is_refused_in_a_sentence(
    change: dict[str, tuple[()]], device: int | None, complaint: str, tmp_path: Path
) -> None:
    whole = traced(founding.run("ring").recording, tmp_path)
    with pytest.raises(RunnerError, match=complaint):
        pinned_instead(replace(whole, **change), 25.0, device)


def test_several_devices_need_a_choice(tmp_path: Path) -> None:
    whole = traced(founding.run("ring").recording, tmp_path)
    two = replace(whole, events=(*whole.events, whole.events[0]._replace(device=1)))
    with pytest.raises(RunnerError, match="work on devices 0, 1; name one with --device"):
        pinned_instead(two, 25.0)
    assert pinned_instead(two, 25.0, device=0).trusted


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real traces lie in ../shared/traces")
@pytest.mark.parametrize(
    ("name", "trusted"),
    [
        pytest.param("alexnet_pageable.json.gz", True, id="pageable copies on one stream"),
        pytest.param("b200_eager.json.gz", True, id="host-bound inference"),
        pytest.param("event_sync_multi_stream.json.gz", True, id="three streams with events"),
        pytest.param("a100_resnet_control.json.gz", False, id="training with hidden waits"),
        pytest.param("tiny_two_streams.json.gz", False, id="a sample without its host calls"),
    ],
)
def test_real_traces_are_repeated_or_refused(name: str, trusted: bool) -> None:
    found = pinned_instead(read_trace(SHARED / name), 25.0)
    assert found.trusted == trusted
    if trusted:
        assert abs(found.error) < 0.001
