"""The stream model obeys CUDA's ordering rules, and its metrics are what its own times say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_runner.model import ModelGpu
from gpu_runner.model_trace import LABEL, kineto, summary
from gpu_runner.recording import (
    ENGINES,
    LEGACY,
    Hardware,
    Memory,
    Operation,
    Recording,
    Work,
)
from gpu_runner.trace.events import Kind
from gpu_runner.trace.kineto import read_kineto

PINNED, PAGEABLE = Memory.PINNED, Memory.PAGEABLE
# Round numbers: a pinned copy of n bytes takes n ns, a pageable one 2 n, a call nothing.
PLAIN = Hardware(pinned_gb_per_s=1.0, pageable_gb_per_s=0.5, memory_gb_per_s=10.0, call_ns=0)


def times(program: Callable[[ModelGpu], None], hardware: Hardware = PLAIN) -> dict[str, str]:
    """Start and end of every operation by name: copies are called up, down, inside; fill."""
    gpu = ModelGpu(hardware)
    program(gpu)
    short = {Work.H2D: "up", Work.D2H: "down", Work.D2D: "inside", Work.MEMSET: "fill"}
    return {
        each.name or short[each.work]: f"{each.start}-{each.end}"
        for each in gpu.finish().operations
    }


def one_stream(gpu: ModelGpu) -> None:
    stream = gpu.stream()
    gpu.copy(Work.H2D, 100, PINNED, stream)
    gpu.launch("k", 50, stream)
    gpu.copy(Work.D2H, 100, PINNED, stream)


def default_waits_for_blocking(gpu: ModelGpu) -> None:
    gpu.copy(Work.H2D, 100, PINNED, gpu.stream())
    gpu.launch("k", 50)


def blocking_waits_for_default(gpu: ModelGpu) -> None:
    gpu.copy(Work.H2D, 100, PINNED)
    gpu.launch("k", 50, gpu.stream())


def non_blocking_ignores_default(gpu: ModelGpu) -> None:
    gpu.copy(Work.H2D, 100, PINNED)
    gpu.launch("k", 50, gpu.stream(blocking=False))


def default_between_two_streams(gpu: ModelGpu) -> None:
    one, two = gpu.stream(), gpu.stream()
    gpu.copy(Work.H2D, 100, PINNED, one)
    gpu.launch("default", 10)
    gpu.copy(Work.D2H, 100, PINNED, two)


def both_directions(gpu: ModelGpu) -> None:
    gpu.copy(Work.H2D, 100, PINNED, gpu.stream())
    gpu.copy(Work.D2H, 80, PINNED, gpu.stream())


def pageable_async(gpu: ModelGpu) -> None:
    gpu.copy(Work.H2D, 100, PAGEABLE, gpu.stream(blocking=False))
    gpu.launch("k", 50, gpu.stream(blocking=False))


def pinned_async(gpu: ModelGpu) -> None:
    gpu.copy(Work.H2D, 100, PINNED, gpu.stream(blocking=False))
    gpu.launch("k", 50, gpu.stream(blocking=False))


def event_orders_streams(gpu: ModelGpu) -> None:
    copying, computing = gpu.stream(blocking=False), gpu.stream(blocking=False)
    gpu.copy(Work.H2D, 100, PINNED, copying)
    event = gpu.record(copying)
    gpu.copy(Work.D2H, 500, PINNED, copying)
    gpu.wait_event(event, computing)
    gpu.launch("k", 50, computing)


def first_ready_goes_first(gpu: ModelGpu) -> None:
    slow, quick = gpu.stream(blocking=False), gpu.stream(blocking=False)
    gpu.copy(Work.H2D, 100, PINNED, slow)
    gpu.launch("late", 50, slow)  # issued first, ready at 100
    gpu.launch("early", 10, quick)  # issued second, ready at once


def host_work_in_between(gpu: ModelGpu) -> None:
    gpu.launch("a", 50)
    gpu.host_work(200)
    gpu.launch("b", 50)


def synchronized(gpu: ModelGpu) -> None:
    gpu.copy(Work.H2D, 100, PINNED, gpu.stream(blocking=False))
    gpu.synchronize()
    gpu.launch("k", 50, gpu.stream(blocking=False))


def only_one_stream_awaited(gpu: ModelGpu) -> None:
    gpu.copy(Work.H2D, 100, PINNED, gpu.stream(blocking=False))
    other = gpu.stream(blocking=False)
    gpu.launch("k", 50, other)
    gpu.stream_synchronize(other)
    gpu.copy(Work.D2H, 10, PINNED, other)


def event_awaited_by_host(gpu: ModelGpu) -> None:
    stream = gpu.stream(blocking=False)
    gpu.launch("a", 50, stream)
    event = gpu.record(stream)
    gpu.launch("b", 500, stream)
    gpu.event_synchronize(event)
    gpu.copy(Work.H2D, 10, PINNED, gpu.stream(blocking=False))


def device_side_work(gpu: ModelGpu) -> None:
    gpu.memset(1_000, gpu.stream(blocking=False))
    gpu.copy_on_device(1_000, gpu.stream(blocking=False))
    gpu.copy(Work.H2D, 100, PINNED, gpu.stream(blocking=False))


def two_kernels(gpu: ModelGpu) -> None:
    gpu.launch("a", 50, gpu.stream())
    gpu.launch("b", 50, gpu.stream())


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param(
            one_stream,
            {"up": "0-100", "k": "100-150", "down": "150-250"},
            id="a stream is in order",
        ),
        pytest.param(
            default_waits_for_blocking,
            {"up": "0-100", "k": "100-150"},
            id="the default stream waits for blocking streams",
        ),
        pytest.param(
            blocking_waits_for_default,
            {"up": "0-100", "k": "100-150"},
            id="blocking streams wait for the default stream",
        ),
        pytest.param(
            non_blocking_ignores_default,
            {"up": "0-100", "k": "0-50"},
            id="non-blocking streams ignore the default stream",
        ),
        pytest.param(
            default_between_two_streams,
            {"up": "0-100", "default": "100-110", "down": "110-210"},
            id="work on the default stream separates all others",
        ),
        pytest.param(
            both_directions, {"up": "0-100", "down": "0-80"}, id="the bus carries both directions"
        ),
        pytest.param(
            pageable_async,
            {"up": "0-200", "k": "200-250"},
            id="a pageable copy is slow and holds the host",
        ),
        pytest.param(
            pinned_async, {"up": "0-100", "k": "0-50"}, id="a pinned copy leaves the host free"
        ),
        pytest.param(
            event_orders_streams,
            {"up": "0-100", "k": "100-150", "down": "100-600"},
            id="an event orders two streams without the host",
        ),
        pytest.param(
            first_ready_goes_first,
            {"up": "0-100", "early": "0-10", "late": "100-150"},
            id="an engine takes what is ready first",
        ),
        pytest.param(
            host_work_in_between,
            {"a": "0-50", "b": "200-250"},
            id="nothing starts before its issue",
        ),
        pytest.param(
            synchronized, {"up": "0-100", "k": "100-150"}, id="a device sync holds the host"
        ),
        pytest.param(
            only_one_stream_awaited,
            {"up": "0-100", "k": "0-50", "down": "50-60"},
            id="a stream sync waits for its stream only",
        ),
        pytest.param(
            event_awaited_by_host,
            {"a": "0-50", "b": "50-550", "up": "50-60"},
            id="an event sync waits for what came before the event",
        ),
        pytest.param(
            device_side_work,
            {"fill": "0-100", "inside": "100-300", "up": "0-100"},
            id="memset and device copies use the compute engine",
        ),
        pytest.param(two_kernels, {"a": "0-50", "b": "50-100"}, id="kernels fill the GPU"),
    ],
)
def test_the_model_follows_the_rules_of_streams(
    program: Callable[[ModelGpu], None], expected: dict[str, str]
) -> None:
    assert times(program) == expected


def test_small_kernels_may_run_at_once() -> None:
    together = times(two_kernels, replace(PLAIN, kernels_at_once=2))
    assert together == {"a": "0-50", "b": "0-50"}


def test_issuing_costs_the_host_time() -> None:
    assert times(one_stream, replace(PLAIN, call_ns=7)) == {
        "up": "7-107",
        "k": "107-157",
        "down": "157-257",
    }
    assert times(two_kernels, replace(PLAIN, call_ns=60)) == {"a": "60-110", "b": "120-170"}


def test_an_unknown_stream_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no stream 99; make one with stream\(\)"):
        ModelGpu().launch("k", 1, 99)


# --- random programs ------------------------------------------------------------------------

ACTIONS = st.tuples(
    st.sampled_from(
        ["up", "down", "launch", "inside", "fill", "sync", "stream sync", "event", "host work"]
    ),
    st.integers(0, 3),  # stream: 0 the default, 1 and 2 blocking, 3 not
    st.integers(1, 40),
    st.booleans(),
)
PROGRAMS = st.lists(ACTIONS, max_size=25)
SMALL = Hardware(pinned_gb_per_s=1.0, pageable_gb_per_s=0.5, memory_gb_per_s=1.0, call_ns=2)


def play(program: list[tuple[str, int, int, bool]], hardware: Hardware = SMALL) -> Recording:
    gpu = ModelGpu(hardware)
    streams = [LEGACY, gpu.stream(), gpu.stream(), gpu.stream(blocking=False)]
    with gpu.region():
        for action in program:
            _play(gpu, streams, *action)
    return gpu.finish()


def _play(gpu: ModelGpu, streams: list[int], *step: Any) -> None:
    action, index, amount, flag = step
    stream, memory = streams[index], PAGEABLE if flag else PINNED
    match action:
        case "up" | "down":
            gpu.copy(Work.H2D if action == "up" else Work.D2H, amount, memory, stream)
        case "launch":
            gpu.launch("k", amount, stream)
        case "inside":
            gpu.copy_on_device(amount, stream)
        case "fill":
            gpu.memset(amount, stream)
        case "sync":
            gpu.synchronize()
        case "stream sync":
            gpu.stream_synchronize(stream)
        case "event":
            event = gpu.record(stream)
            gpu.wait_event(event, streams[amount % 4])
            if flag:
                gpu.event_synchronize(event)
        case _:
            gpu.host_work(amount)


@given(PROGRAMS)
@settings(max_examples=150, deadline=None)
def test_metrics_equal_a_count_of_nanoseconds(program: list[tuple[str, int, int, bool]]) -> None:
    recording = play(program)
    found = summary(recording)
    moments = range(recording.wall_ns)

    def busy(*works: Work) -> set[int]:
        chosen = [each for each in recording.operations if each.work in works]
        return {moment for each in chosen for moment in range(each.start, each.end)}

    kernels, up, down = busy(Work.KERNEL), busy(Work.H2D), busy(Work.D2H)
    copies, anything = up | down, busy(*Work)
    waiting = {m for c in recording.calls if c.waits for m in range(c.start, c.end)}
    counted = {
        "kernel_busy_us": kernels,
        "h2d_busy_us": up,
        "d2h_busy_us": down,
        "copy_busy_us": copies,
        "kernel_copy_overlap_us": kernels & copies,
        "exposed_copy_us": copies - kernels,
        "gpu_idle_us": set(moments) - anything,
        "no_kernel_us": set(moments) - kernels,
        "host_sync_us": waiting,
        "host_sync_stall_us": waiting - anything,
    }
    assert {name: getattr(found, name) for name in counted} == {
        name: len(moment) / 1000 for name, moment in counted.items()
    }
    if copies:
        assert found.overlap_percent == 100 * len(kernels & copies) / len(copies)
        assert found.overlap_percent <= (found.overlap_ceiling_percent or 0)
    else:
        assert found.overlap_percent is None
    if up and down:
        assert found.duplex_percent == 100 * len(up & down) / min(len(up), len(down))


@given(PROGRAMS)
@settings(max_examples=150, deadline=None)
def test_streams_are_in_order_and_engines_do_one_thing_at_a_time(
    program: list[tuple[str, int, int, bool]],
) -> None:
    operations = play(program).operations
    for key in (lambda each: each.stream, lambda each: ENGINES[each.work]):
        groups: dict[object, list[Operation]] = {}
        for each in operations:
            groups.setdefault(key(each), []).append(each)
        for group in groups.values():
            assert all(before.end <= after.start for before, after in pairwise(group))


@dataclass(frozen=True)
class Ready:
    operation: Operation
    since: int


@given(st.lists(ACTIONS.filter(lambda action: action[0] != "event"), max_size=25))
@settings(max_examples=150, deadline=None)
def test_no_operation_waits_without_a_reason(program: list[tuple[str, int, int, bool]]) -> None:
    """Each starts when ready, or its engine was busy with what had been ready no later."""
    recording = play(program)
    issued = {call.correlation: call.start + SMALL.call_ns for call in recording.calls}
    waiting: list[Ready] = []
    in_order = sorted(recording.operations, key=lambda each: each.correlation)
    for place, each in enumerate(in_order):
        needs = [other.end for other in in_order[:place] if _ordered(other.stream, each.stream)]
        waiting.append(Ready(each, max([issued[each.correlation], *needs])))
    for one in waiting:
        covered = one.since
        engine = [w for w in waiting if ENGINES[w.operation.work] == ENGINES[one.operation.work]]
        for other in sorted(engine, key=lambda each: each.operation.start):
            if other.operation.start <= covered < other.operation.end and other is not one:
                if other.operation.start >= one.since:
                    assert other.since <= one.since
                covered = other.operation.end
        assert one.operation.start == covered


def _ordered(before: int, after: int) -> bool:
    """Whether the legacy rules put an earlier operation's stream before a later one's."""
    non_blocking = LEGACY + 3
    return before == after or (LEGACY in (before, after) and non_blocking not in (before, after))


@given(PROGRAMS)
@settings(max_examples=60, deadline=None)
def test_the_same_program_gives_the_same_recording(
    program: list[tuple[str, int, int, bool]],
) -> None:
    assert play(program) == play(program)


@given(program=PROGRAMS)
@settings(max_examples=60, deadline=None)
def test_the_trace_reader_finds_every_event_again(
    program: list[tuple[str, int, int, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    recording = play(program)
    if not recording.calls:
        return
    path = tmp_path_factory.mktemp("model") / "trace.json"
    path.write_text(json.dumps(kineto(recording), allow_nan=False))
    trace = read_kineto(path, "gpu_bench_region")
    works = {
        Work.KERNEL: Kind.KERNEL,
        Work.H2D: Kind.H2D,
        Work.D2H: Kind.D2H,
        Work.D2D: Kind.D2D,
        Work.MEMSET: Kind.MEMSET,
    }
    assert sorted((e.start, e.end, e.correlation) for e in trace.events) == sorted(
        (each.start, each.end, each.correlation) for each in recording.operations
    )
    by_correlation = {each.correlation: each for each in recording.operations}
    for event in trace.events:
        operation = by_correlation[event.correlation]
        assert event.kind == works[operation.work]
        assert event.stream == operation.stream
        assert event.on_default_stream == (operation.stream == LEGACY)
        assert event.memory == (operation.memory or "")
        if operation.work != Work.KERNEL:
            assert event.size == operation.size
    assert not trace.partial


def test_a_modelled_trace_says_so_in_the_file(tmp_path: Path) -> None:
    trace = kineto(play([("up", 1, 10, False), ("launch", 2, 10, False)]))
    assert trace["traceName"] == LABEL == "modelled, not measured"
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    assert read_kineto(path).device_names == ((0, "modelled GPU (modelled, not measured)"),)
