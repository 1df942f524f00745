"""Which lines ran, and at which of them the host waited."""

from __future__ import annotations

import gzip
import json
import sys
import threading
import types
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from trace_files import call, copy, event, kernel, kineto, region

from gpu_runner import measure, traced
from gpu_runner.line_log import LineLog, with_lines
from gpu_runner.models import BenchmarkRun
from gpu_runner.records import Backend, Limits, Protocol, Variant
from gpu_runner.rounds import TimingPass
from gpu_runner.trace.read import read_trace
from gpu_runner.trace.sites import sites_of

PROGRAM = """\
def inner(n):
    return n + 1


def outer(names):
    total = 0
    for name in names:
        total += inner(total)
    if total > 100:
        total = inner(0)
    return sorted(names, key=len)
"""


def program(directory: Path) -> Callable[[list[str]], list[str]]:
    """`outer` as if it stood in a file below this folder."""
    space: dict[str, Any] = {}
    exec(compile(PROGRAM, str(directory / "pkg" / "train.py"), "exec"), space)
    return space["outer"]


def noted(log: LineLog) -> list[dict[str, Any]]:
    return json.loads(b"[" + log.events() + b"]")


def test_every_line_that_runs_is_noted_and_no_other(tmp_path: Path) -> None:
    outer = program(tmp_path)
    before = sys.gettrace()
    with LineLog(str(tmp_path)) as log:
        outer(["a", "b"])
        json.dumps([1])
    assert sys.gettrace() is None
    sys.settrace(before)  # of a coverage tool
    lines = [each["name"] for each in noted(log)]
    assert lines == [f"pkg/train.py:{number}" for number in (6, 7, 8, 2, 8, 7, 8, 2, 8, 7, 9, 11)]
    assert {each["tid"] for each in noted(log)} == {threading.get_native_id()}
    times = [(each["ts"], each["ts"] + each["dur"]) for each in noted(log)]
    assert all(end <= start + 0.002 for (_, end), (start, _) in pairwise(times))


def test_the_notes_become_events_of_the_file(tmp_path: Path) -> None:
    with LineLog(str(tmp_path)) as log:
        program(tmp_path)([])
    plain = json.dumps({"traceEvents": [kernel(0, 1)]}).encode()
    events = json.loads(with_lines(plain, log))["traceEvents"]
    assert events[-1]["cat"] == "kernel"
    assert len(events) == 1 + len(noted(log))
    assert with_lines(b"{}", log) == b"{}"


def line(name: str, ts: float, dur: float, thread: int = 1) -> dict[str, Any]:
    return event("hostside_line", name, ts, dur, 4000, thread)


def sites(path: Path, *events: dict[str, Any]) -> dict[str, tuple[int, int, float]]:
    trace = read_trace(kineto(path / "t.json", region("r", 1000, 500), *events), "r")
    return {f"{s.path}:{s.line}": (s.runs, s.waits, s.wait_us) for s in sites_of(trace)}


LAUNCH = call("cudaLaunchKernel", 1001, 2, correlation=5)
WORK = kernel(1004, 50, correlation=5)


def test_a_wait_belongs_to_the_line_during_which_it_was_made(tmp_path: Path) -> None:
    found = sites(
        tmp_path,
        LAUNCH,
        WORK,
        call("cudaStreamSynchronize", 1042, 40),
        line("train.py:3", 0, 10),
        line("train.py:4", 10, 290),
        line("train.py:3", 300, 10),
    )
    assert found == {"train.py:4": (1, 1, 40.0), "train.py:3": (2, 0, 0.0)}


@pytest.mark.parametrize(
    ("start", "length", "waits"),
    [
        pytest.param(50, 15, {}, id="shorter than the clocks are sure of"),
        pytest.param(5, 60, {"a.py:1": 1}, id="begins a little early"),
        pytest.param(-30, 60, {}, id="begins far too early"),
    ],
)
def test_a_wait_is_given_only_where_the_clocks_leave_no_doubt(
    tmp_path: Path, start: int, length: int, waits: dict[str, int]
) -> None:
    found = sites(
        tmp_path,
        LAUNCH,
        WORK,
        call("cudaStreamSynchronize", 1100 + start, length),
        line("a.py:9", 0, 100),
        line("a.py:1", 110, 200),
        line("a.py:2", 310, 10),
        line("a.py:3", 400, 10),
    )
    assert {name: count for name, (_, count, _) in found.items() if count} == waits
    assert "a.py:9" not in found or start == 50  # it may have been the one that waited
    assert found["a.py:3"] == (1, 0, 0.0)


def test_a_copy_of_pageable_memory_that_blocks_is_a_wait(tmp_path: Path) -> None:
    found = sites(
        tmp_path,
        call("cudaMemcpyAsync", 1012, 30, correlation=9),
        copy(1015, 25, correlation=9, memory="Pageable"),
        line("train.py:4", 10, 90),
    )
    assert found == {"train.py:4": (1, 1, 30.0)}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((call("cudaStreamSynchronize", 1012, 40, thread=2),), id="another thread"),
        pytest.param((), id="no calls at all"),
        pytest.param((region("r", 1600, 10), LAUNCH), id="two regions"),
    ],
)
def test_nothing_is_told_where_it_is_not_known_whose_calls_were_whose(
    tmp_path: Path, events: tuple[dict[str, Any], ...]
) -> None:
    assert sites(tmp_path, WORK, *events, line("train.py:4", 0, 90)) == {}


def test_a_line_that_may_have_waited_is_neither_one_nor_the_other(tmp_path: Path) -> None:
    found = sites(
        tmp_path,
        LAUNCH,
        WORK,
        call("cudaMalloc", 1042, 40),
        line("train.py:3", 0, 10),
        line("train.py:4", 10, 90),
    )
    assert found == {"train.py:3": (1, 0, 0.0)}


@pytest.mark.parametrize(
    "name",
    ["", "train.py", ":3", "train.py:x", "train.py:-1", "train.py:0", "\u202e:99999999999999"],
)
def test_odd_names_of_lines_do_no_harm(tmp_path: Path, name: str) -> None:
    found = sites(tmp_path, LAUNCH, WORK, line(name, 0, 90), line("a.py:1", 200, 1))
    assert set(found) <= {"a.py:1", "?:99999999999999"}


def test_the_profiler_and_the_notes_make_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for torch.profiler, which is not installed here."""
    outer = program(tmp_path)
    thread = threading.get_native_id()

    class Profile:
        def __init__(self, **_: object) -> None:
            pass

        def __enter__(self) -> Profile:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def export_chrome_trace(self, path: str) -> None:
            kineto(
                Path(path), region(traced.REGION, 1000, 1e9), WORK,
                call("cudaLaunchKernel", 1000.001, 2, correlation=5),
                event("user_annotation", "x", 0, 1),
            )  # fmt: skip

    class Named(Profile):
        def __init__(self, _: str) -> None:
            pass

    kinds = types.SimpleNamespace(CPU=0, CUDA=1)
    module: Any = types.ModuleType("torch.profiler")
    module.profile, module.record_function, module.ProfilerActivity = Profile, Named, kinds
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "torch.profiler", module)
    before = sys.gettrace()
    packed = traced.kineto(lambda _: outer(["a"]) and None, 1, 2, str(tmp_path))
    sys.settrace(before)
    events = json.loads(gzip.decompress(packed))["traceEvents"]
    lines = [each for each in events if each["cat"] == "hostside_line"]
    assert {each["tid"] for each in lines} == {thread}
    assert sum(each["name"] == "pkg/train.py:9" for each in lines) == 2
    packed = traced.kineto(lambda _: None, 0, 1)
    assert b"hostside_line" not in gzip.decompress(packed)


@pytest.mark.parametrize("broken", [False, True], ids=["told", "a pass that fails"])
def test_the_heads_first_pass_knows_its_lines_and_all_else_stands_without_them(
    tmp_path: Path, broken: bool
) -> None:
    asked: list[bool] = []

    class Talk:
        def open(self, *_: object) -> None:
            pass

        def prepare(self, seeds: list[int]) -> None:
            pass

        def trace(self, warm_up: int, calls: int, lines: bool = False) -> bytes:
            asked.append(lines)
            wait = call("cudaStreamSynchronize", 1042, 40)
            events = [region(traced.REGION, 1000, 500), LAUNCH, WORK, wait]
            noted = [line("a.py:3", 10, 290)] if lines else []
            packed = kineto(tmp_path / "t.json.gz", *events, *noted).read_bytes()
            return packed[:20] if lines and broken else packed

        def leave(self) -> None:
            pass

    talk: Any = Talk()
    subject: Any = types.SimpleNamespace(
        name="x", benchmark=None, facts=types.SimpleNamespace(name="x"), index=0
    )
    bench = measure.Bench(
        Backend.CUDA, Protocol(), Limits(), (Variant.BASE, Variant.HEAD),
        lambda _: nullcontext(talk), lambda: None, lambda _: None, 0.0,
    )  # fmt: skip
    found = measure.with_traces(
        bench, subject, BenchmarkRun("x", "gpu_bench"), bench.variants, TimingPass((), "")
    )
    assert asked == [False] * 4 + [True]
    assert found.log is None
    assert [(t.variant, t.traced_pass) for t in found.traces if t.sites] == (
        [] if broken else [(Variant.HEAD, 0)]
    )
