"""Kineto files of every year, vendor and state of repair are read exactly, or say why not."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import call, copy, event, kernel, kineto, numbers, report, write

from gpu_runner.errors import FormatError, RunnerError
from gpu_runner.trace import collect, json_events, source
from gpu_runner.trace.events import Kind
from gpu_runner.trace.kineto import nanoseconds, read_kineto
from gpu_runner.trace.names import copy_of, role_of
from gpu_runner.trace.read import read_trace


@given(st.integers(-(10**18), 10**18))
def test_microseconds_with_three_decimals_are_read_exactly(exact: int) -> None:
    whole, rest = divmod(abs(exact), 1000)
    written = f"{'-' if exact < 0 else ''}{whole}.{rest:03}"
    assert nanoseconds(written.encode()) == exact


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(b"1661203463029566", 1661203463029566000, id="absolute whole"),
        pytest.param(b"1661203463029566.123", 1661203463029566123, id="absolute fraction"),
        pytest.param(b"1.6", 1600, id="one decimal"),
        pytest.param(b"1.5e3", 1500000, id="exponent"),
        pytest.param(b"0.0004", 0, id="below a nanosecond"),
        pytest.param(b'"12.5"', 12500, id="quoted"),
        pytest.param(b"NaN", None, id="NaN"),
        pytest.param(b"", None, id="missing"),
        pytest.param(b"null", None, id="null"),
        pytest.param(b"1e999999999", None, id="absurd"),
        pytest.param(b"9" * 5000, None, id="five thousand digits"),
    ],
)
def test_a_time_is_exact_or_nothing(written: bytes, expected: int | None) -> None:
    assert nanoseconds(written) == expected


def test_a_float_could_not_hold_what_is_read(tmp_path: Path) -> None:
    start = "1661203463029566.123"
    text = json.dumps({"traceEvents": [kernel(0, 1), kernel(5, 1)]})
    text = text.replace('"ts": 0,', f'"ts": {start},')
    text = text.replace('"ts": 5,', '"ts": 1661203463029571.124,')
    first, second = read_kineto(write(tmp_path / "t.json", text)).events
    assert first.start == int(Decimal(start) * 1000)
    assert second.start - first.start == 5001


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("Memcpy HtoD (Pinned -> Device)", (Kind.H2D, "HtoD", "Pinned"), id="pinned"),
        pytest.param(
            "Memcpy DtoH (Device -> Pageable)", (Kind.D2H, "DtoH", "Pageable"), id="pageable"
        ),
        pytest.param(
            "MEMCPY HTOD (PINNED -> DEVICE)", (Kind.H2D, "HtoD", "Pinned"), id="upper-cased"
        ),
        pytest.param("Memcpy HtoD (Host -> Device)", (Kind.H2D, "HtoD", "Host"), id="ROCm"),
        pytest.param("Memcpy HtoA (Pinned -> Array)", (Kind.H2D, "HtoA", "Pinned"), id="array"),
        pytest.param("Memcpy PtoP (Device -> Device)", (Kind.P2P, "PtoP", ""), id="peer"),
        pytest.param("Memcpy HtoH (Pinned -> Pinned)", (Kind.HOST, "HtoH", ""), id="host"),
        pytest.param("Memcpy HtoD", (Kind.H2D, "HtoD", ""), id="no memory kinds"),
        pytest.param("Memcpy <unknown> (A -> B)", (Kind.D2D, "unknown", ""), id="unknown"),
        pytest.param("unknown", (Kind.D2D, "unknown", ""), id="unprintable name"),
    ],
)
def test_a_copys_name_tells_direction_and_memory(
    name: str, expected: tuple[Kind, str, str]
) -> None:
    assert copy_of(name) == expected


@pytest.mark.parametrize(
    ("names", "role"),
    [
        pytest.param(
            "cudaDeviceSynchronize cudaStreamSynchronize_ptsz cuCtxSynchronize hipEventSynchronize "
            "cudaMemcpy cudaMemcpy2D cuMemcpyHtoD_v2 hipMemcpyDtoH",
            "wait",
            id="waits",
        ),
        pytest.param(
            "cudaMemcpyAsync_v3020 cuMemcpyHtoDAsync_v2 cudaMemcpy2DAsync", "copy", id="copies"
        ),
        pytest.param("hipMemcpyWithStream", "blocking copy", id="blocking copies"),
        pytest.param(
            "cudaLaunchKernel cudaLaunchKernelExC_v11060 cuLaunchKernelEx hipLaunchKernel "
            "hipModuleLaunchKernel cudaLaunchCooperativeKernel hipExtLaunchKernel",
            "launch",
            id="launches",
        ),
        pytest.param("cudaGraphLaunch cuGraphLaunch hipGraphLaunch", "graph launch", id="graphs"),
        pytest.param("cudaMalloc cudaFree cudaHostAlloc cuMemAlloc_v2", "allocate", id="memory"),
    ],
)
def test_host_calls_have_their_roles(names: str, role: str) -> None:
    found = {name: getattr(role_of(name), "value", None) for name in names.split()}
    assert found == dict.fromkeys(names.split(), role)


@pytest.mark.parametrize(
    "name",
    ["cudaGetDevice", "cudaEventRecord", "cudaLaunchHostFunc", "cudaMallocAsync", "INVALID", ""],
)
def test_other_calls_are_not_kept(name: str) -> None:
    assert role_of(name) is None


def test_the_spellings_of_2021_are_read(tmp_path: Path) -> None:
    old = [
        {**kernel(0, 10), "cat": "Kernel"},
        {**copy(5, 10), "cat": "Memcpy"},
        {**call("cudaDeviceSynchronize", 2, 4), "cat": "Runtime"},
    ]
    found = numbers(kineto(tmp_path / "t.json", *old))
    assert (found["kernels"], found["overlap_percent"], found["host_sync_us"]) == (1, 50.0, 4.0)


def test_a_bare_list_of_events_is_a_trace_too_even_unclosed(tmp_path: Path) -> None:
    text = json.dumps([kernel(0, 10), copy(5, 10)])
    assert numbers(write(tmp_path / "t.json", text))["overlap_percent"] == 50.0
    unclosed = report(write(tmp_path / "u.json", text[:-1]))
    assert unclosed["devices"][0]["overlap_percent"] == 50.0
    assert unclosed["quality"]["partial"] is not None


def test_metadata_before_and_after_the_events_is_found(tmp_path: Path) -> None:
    events = json.dumps([kernel(0, 10)])
    devices = json.dumps([{"id": 0, "name": "Test GPU"}])
    for text in (
        f'{{"deviceProperties": {devices}, "traceEvents": {events}}}',
        f'{{"traceEvents": {events}, "deviceProperties": {devices}}}',
    ):
        assert numbers(write(tmp_path / "t.json", text))["name"] == "Test GPU"


def test_a_modelled_trace_says_so(tmp_path: Path) -> None:
    found = report(kineto(tmp_path / "t.json", kernel(0, 1), traceName="modelled, not measured"))
    assert found["modelled"]
    assert any("not measured" in note for note in found["notes"])


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read a few hundred bytes at a time, so cuts fall everywhere."""
    monkeypatch.setattr(source, "PIECE", 300)
    monkeypatch.setattr(source, "PACKED_PIECE", 50)


AWKWARD: list[dict[str, Any]] = [
    kernel(0, 10, name='a "quoted" },{"ph":"X" kernel'),
    kernel(20, 10, name="braces }, { and ] brackets"),
    {**kernel(40, 10), "args": {"device": 0, "stream": 7, "inner": [{"a": 1}, {"b": {}}]}},
    copy(45, 10, note="\\\\"),
    {"ph": "M", "name": "process_name", "pid": 0, "args": {"labels": [{"ph": "X"}, {"ph": "X"}]}},
    kernel(60, 10),
] * 5


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("indent", [None, 1], ids=["one line", "indented"])
def test_cuts_between_events_are_never_mistaken(
    tmp_path: Path, suffix: str, indent: int | None
) -> None:
    text = json.dumps(
        {"traceEvents": AWKWARD, "deviceProperties": [{"id": 0, "name": "x"}]}, indent=indent
    )
    trace = read_kineto(write(tmp_path / f"t{suffix}", text))
    assert [event.start for event in trace.events] == [0, 20000, 40000, 45000, 60000] * 5
    assert (trace.partial, trace.defects.unreadable) == ("", 0)
    assert trace.device_names == ((0, "x"),)


@pytest.mark.usefixtures("small_pieces")
@given(cut=st.integers(0, 5000))
def test_a_file_cut_anywhere_gives_what_came_before(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    text = json.dumps({"traceEvents": AWKWARD})
    path = write(tmp_path_factory.mktemp("cut") / "t.json", text[:cut])
    first_end = len('{"traceEvents": [' + json.dumps(AWKWARD[0]))
    if cut < first_end:
        with pytest.raises(FormatError):
            read_trace(path)
        return
    trace = read_trace(path)
    assert len(trace.events) <= len(AWKWARD)
    assert trace.partial or trace.defects.unreadable or cut >= len(text) - 1


def test_a_truncated_gzip_file_gives_a_partial_result(tmp_path: Path) -> None:
    events = [kernel(number * 10, 5) for number in range(3000)]
    whole = kineto(tmp_path / "t.json.gz", *events).read_bytes()
    path = tmp_path / "cut.json.gz"
    path.write_bytes(whole[: len(whole) // 2])
    found = report(path)
    assert 0 < found["devices"][0]["kernels"] < 3000
    assert "ends in the middle" in found["quality"]["partial"]
    assert not found["quality"]["complete"]
    assert found["notes"][0].startswith("Partial result")


def test_damaged_gzip_data_gives_a_partial_result_or_a_sentence(tmp_path: Path) -> None:
    whole = bytearray(
        kineto(tmp_path / "t.json.gz", *[kernel(n, 1) for n in range(3000)]).read_bytes()
    )
    whole[len(whole) // 2 :] = b"\xff" * (len(whole) // 2)
    path = tmp_path / "bad.json.gz"
    path.write_bytes(whole)
    assert report(path)["quality"]["partial"].startswith("the gzip data ")


def test_several_gzip_members_are_one_file(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [kernel(0, 10), copy(5, 10)]}).encode()
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(text[:90]) + gzip.compress(text[90:]) + b"\0" * 20)
    assert numbers(path)["overlap_percent"] == 50.0


def test_a_gzip_bomb_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b'{"traceEvents": [')
        for _ in range(100):
            file.write(b" " * (1 << 20))
    with pytest.raises(FormatError, match="unpacks to more than 200 times"):
        read_trace(path)


def test_a_gzip_bomb_after_real_events_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb") as file:
        file.write(b'{"traceEvents": [' + json.dumps(kernel(0, 10)).encode() + b",")
        for _ in range(100):
            file.write(b" " * (1 << 20))
    found = report(path)
    assert found["devices"][0]["kernels"] == 1
    assert "200 times" in found["quality"]["partial"]


BROKEN = '{"ph": "X", "cat": "kernel", "name": "op<"x">", "pid": 0, "tid": 7, "ts": 5, "dur": 1}'


def with_inserted(*texts: str) -> str:
    first, last = json.dumps(kernel(0, 10)), json.dumps(copy(5, 10))
    return '{"traceEvents": [' + ", ".join((first, *texts, last)) + "]}"


@pytest.mark.parametrize(
    ("texts", "unreadable", "without_time"),
    [
        pytest.param([BROKEN], 1, 0, id="a quote inside a name"),
        pytest.param([BROKEN] * 3, 3, 0, id="three of them"),
        pytest.param(["17", "null", '"x"', "[[]]"], 4, 0, id="things that are no events"),
        pytest.param(['{"ph": "X", "ts": 01}'], 1, 0, id="a number JSON forbids"),
        pytest.param(['{"ph":"X","cat":"kernel","ts":-nan,"dur":1}'], 0, 1, id="C's -nan"),
        pytest.param(['{"ph":"X","cat":"cpu_op","args":{"x":nan,"y":-inf}}'], 0, 0, id="C's nan"),
        pytest.param(['{"ph":"X","cat":"cpu_op","args":7}'], 0, 0, id="arguments of a wrong type"),
        pytest.param(
            ['{"ph":"X","args":' + "[" * 100_000 + "]" * 100_000 + "}"], 1, 0, id="nested too deep"
        ),
    ],
)
def test_a_broken_event_costs_only_itself(
    tmp_path: Path, texts: list[str], unreadable: int, without_time: int
) -> None:
    found = report(write(tmp_path / "t.json", with_inserted(*texts)))
    quality = found["quality"]
    assert found["devices"][0]["overlap_percent"] == 50.0
    assert (quality["unreadable_events"], quality["without_timestamp"]) == (
        unreadable,
        without_time,
    )


def test_a_trailing_comma_is_forgiven(tmp_path: Path) -> None:
    text = with_inserted().replace("}]}", "},\n]}")
    found = report(write(tmp_path / "t.json", text))
    assert (found["quality"]["partial"], found["quality"]["unreadable_events"]) == (None, 0)
    assert found["devices"][0]["overlap_percent"] == 50.0


def test_invalid_utf8_in_names_costs_nothing(tmp_path: Path) -> None:
    text = (
        with_inserted(json.dumps(kernel(20, 5, name="BAD")))
        .encode()
        .replace(b"BAD", b"\xff\xfe\x80")
    )
    found = report(write(tmp_path / "t.json", text))
    assert (found["devices"][0]["kernels"], found["quality"]["unreadable_events"]) == (2, 0)


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    assert numbers(write(tmp_path / "t.json", "\ufeff" + with_inserted()))["kernels"] == 1


def test_names_cannot_steer_the_terminal(tmp_path: Path) -> None:
    trace = read_kineto(kineto(tmp_path / "t.json", kernel(0, 1, name="\x1b[2Jx\u202egnp" * 90)))
    (event_,) = trace.events
    assert event_.name.startswith("?[2Jx?gnp")
    assert len(event_.name) == 200


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b"", "it is empty", id="empty"),
        pytest.param(b"  \n ", "nothing but blanks", id="blank"),
        pytest.param(b"hello", "neither JSON nor", id="prose"),
        pytest.param(b'{"a": 1}', "without a `traceEvents` list", id="other JSON"),
        pytest.param(b'{"traceEvents": {}}', "without a `traceEvents` list", id="no list"),
        pytest.param(b'{"schemaVersion": 1, "dev', "cut short", id="cut in the header"),
        pytest.param(b"PK\x03\x04....", "zip archive", id="zip"),
        pytest.param(b"\x1f\x8b\x08", "gzip data ends in the middle", id="cut gzip header"),
        pytest.param("{}".encode("utf-16"), "UTF-16", id="UTF-16"),
        pytest.param(b"SQLite format 3\0" + b"x" * 99, "damaged|Nsight", id="cut database"),
        pytest.param(b'{"traceEvents": [{"ph": "X", "ca', "ends in the middle", id="cut event"),
    ],
)
def test_what_is_no_trace_gets_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=sentence) as problem:
        read_trace(path)
    assert str(problem.value).startswith(f"{path} cannot be read: ")
    assert "\n" not in str(problem.value)


def test_a_directory_and_a_missing_file_get_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="it is a directory"):
        read_trace(tmp_path)
    with pytest.raises(RunnerError, match="cannot be opened: No such file"):
        read_trace(tmp_path / "absent.json")


def test_a_file_with_only_the_host_in_it_is_measured_as_nothing(tmp_path: Path) -> None:
    found = report(kineto(tmp_path / "t.json", event("cpu_op", "aten::add", 0, 5)))
    (device,) = found["devices"]
    assert (device["device"], device["region_us"], device["overlap_percent"]) == (None, 0.0, None)
    assert any("no GPU work" in note for note in found["notes"])


def test_launches_without_any_gpu_record_point_to_the_profiler(tmp_path: Path) -> None:
    found = report(kineto(tmp_path / "t.json", call("cudaLaunchKernel", 0, 5)))
    assert any("hostside doctor" in note for note in found["notes"])


def test_an_endless_event_ends_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_events, "LONGEST_EVENT", 1 << 20)
    monkeypatch.setattr(source, "PIECE", 1 << 19)
    text = with_inserted('{"ph": "X", "name": "' + "x" * (4 << 20))
    found = report(write(tmp_path / "t.json", text))
    assert "longer than" in found["quality"]["partial"]
    assert found["devices"][0]["kernels"] == 1


def test_more_events_than_are_kept_give_a_partial_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "MOST_KEPT", 3)
    found = report(kineto(tmp_path / "t.json", *[kernel(n * 10, 5) for n in range(1, 9)]))
    assert found["devices"][0]["kernels"] == 3
    assert found["quality"]["partial"] == "only the first 3 relevant events were read"


WATCHED = """
import re, sys
from pathlib import Path
from gpu_runner.trace.read import read_trace
trace = read_trace(Path(sys.argv[1]))
# getrusage would count what this process was forked from, too.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(len(trace.events), int(peak[1]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, suffix: str) -> None:
    randbytes = random.Random(1).randbytes
    one = json.dumps(event("cpu_op", "aten::add", 1, 2, note="x" * 200)).encode() + b","
    opened = gzip.open if suffix == ".json.gz" else open
    path = tmp_path / f"t{suffix}"
    with opened(path, "wb") as file:
        file.write(b'{"traceEvents": [')
        for _ in range(300):
            noise = randbytes(20_000).hex()  # so that it packs no better than a real trace
            file.write(one * 2000 + json.dumps({"name": noise}).encode() + b",")
        file.write(json.dumps(kernel(0, 10)).encode() + b"]}")
    size = 300 * 2000 * len(one) >> 20
    command = [sys.executable, "-c", WATCHED, str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    events, megabytes = map(int, output.split())
    assert (events, size > 150) == (1, True)
    assert megabytes < 120
