"""Nsight Systems exports of any version are read by the columns they have."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from trace_files import metrics, nsys, numbers, report

from gpu_runner.errors import FormatError
from gpu_runner.trace.nsys import read_nsys
from gpu_runner.trace.read import read_trace

PLACE = "start, end, deviceId, contextId, streamId, correlationId, globalPid"
PID = 0x1000000 * 111
KERNELS = (f"{PLACE}, demangledName", [(1000, 2000, 0, 1, 7, 1, PID, 5)])
STRINGS = (
    "id, value",
    [(5, "gemm"), (6, "cudaLaunchKernel_v7000"), (7, "cudaStreamSynchronize_v3020")],
)


def copies(*rows: tuple[Any, ...]) -> tuple[str, list[tuple[Any, ...]]]:
    return f"{PLACE}, bytes, copyKind, srcKind, dstKind", list(rows)


def one_copy(direction: int, source: int, target: int, start: int = 1500) -> tuple[Any, ...]:
    return (start, start + 1000, 0, 1, 14, 2, PID, 4000, direction, source, target)


def test_memory_kinds_are_numbered_by_nsys_not_by_cupti(tmp_path: Path) -> None:
    file = nsys(
        tmp_path / "t.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=KERNELS,
        CUPTI_ACTIVITY_KIND_MEMCPY=copies(one_copy(1, 1, 2), one_copy(2, 2, 0, 5000)),
        StringIds=STRINGS,
    )
    found = numbers(file)
    assert found["host_memory_bytes"] == {"Pageable": 4000, "Pinned": 4000}
    assert found["copies"] == {"DtoH": 1, "HtoD": 1}
    assert found["overlap_percent"] == 25.0


def test_the_files_own_tables_decide_what_the_numbers_mean(tmp_path: Path) -> None:
    file = nsys(
        tmp_path / "t.sqlite",
        CUPTI_ACTIVITY_KIND_MEMCPY=copies(one_copy(40, 41, 42)),
        ENUM_CUDA_MEM_KIND=("id, name, label", [(41, "X", "Pinned"), (42, "Y", "Device")]),
        ENUM_CUDA_MEMCPY_OPER=(
            "id, name, label",
            [(40, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device")],
        ),
    )
    assert numbers(file)["host_memory_bytes"] == {"Pinned": 4000}


@pytest.mark.parametrize(
    ("direction", "key"),
    [
        pytest.param(8, "d2d_busy_us", id="inside the device"),
        pytest.param(10, "p2p_busy_us", id="between devices"),
        pytest.param(11, "unified_memory_busy_us", id="unified memory"),
    ],
)
def test_other_copies_are_classes_of_their_own(tmp_path: Path, direction: int, key: str) -> None:
    file = nsys(tmp_path / "t.sqlite", CUPTI_ACTIVITY_KIND_MEMCPY=copies(one_copy(direction, 2, 2)))
    found = numbers(file)
    assert (found[key], found["copy_busy_us"], found["overlap_percent"]) == (1.0, 0.0, None)


def test_zero_times_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [*KERNELS[1], (0, 0, 0, 1, 7, 3, PID, 5), (0, 9000, 0, 1, 7, 3, PID, 5)]
    file = nsys(tmp_path / "t.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=(KERNELS[0], rows))
    found = report(file)
    assert found["quality"]["without_timestamp"] == 2
    assert found["devices"][0]["region_us"] == 1.0


def test_the_default_stream_is_the_one_nobody_created(tmp_path: Path) -> None:
    rows = [(1000, 2000, 0, 1, 7, 1, PID, 5), (1000, 2000, 1, 2, 15, 1, PID, 5)]
    rows += [(3000, 4000, 0, 1, 16, 1, PID, 5)]
    created = [(111, 1, 14, 1), (111, 1, 16, 2), (111, 2, 22, 1)]
    file = nsys(
        tmp_path / "t.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=(KERNELS[0], rows),
        TARGET_INFO_CUDA_STREAM=("processId, contextId, streamId, flag", created),
    )
    on_default = {event.stream: event.on_default_stream for event in read_nsys(file).events}
    assert on_default == {7: True, 15: True, 16: False}


def test_streams_of_two_processes_are_two_streams(tmp_path: Path) -> None:
    other = 0x1000000 * 112
    rows = [(0, 100_000, 0, 1, 7, 1, PID, 5), (10, 90_000, 0, 1, 7, 1, other, 5)]
    rows = [(start + 1, *rest) for start, *rest in rows]
    file = nsys(tmp_path / "t.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=(KERNELS[0], rows))
    (device,) = metrics(file)
    assert (device.cleaned.same_stream_overlaps, device.cleaned.clipped) == (0, 0)


def test_calls_belong_to_the_devices_of_their_process(tmp_path: Path) -> None:
    calls = [(1100, 1900, PID + 1, 9, 7, 0), (1100, 1900, 0x1000000 * 112, 9, 7, 0)]
    kernels = [*KERNELS[1], (1000, 2000, 1, 1, 7, 1, 0x1000000 * 113, 5)]
    file = nsys(
        tmp_path / "t.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=(KERNELS[0], kernels),
        CUPTI_ACTIVITY_KIND_RUNTIME=(
            "start, end, globalTid, correlationId, nameId, returnValue",
            calls,
        ),
        StringIds=STRINGS,
    )
    assert [device.waits.sync for device in metrics(file)] == [800, 0]


def launches(*rows: tuple[int, int, int]) -> tuple[str, list[tuple[Any, ...]]]:
    columns = "start, end, globalTid, correlationId, nameId, returnValue"
    return columns, [
        (start, start + 10, PID + 1, number, 6, failed) for start, number, failed in rows
    ]


@pytest.mark.parametrize(
    ("rows", "complete", "cut_off"),
    [
        pytest.param([(500, 1, 0)], True, 0, id="served"),
        pytest.param([(500, 1, 0), (600, 2, 0)], True, 1, id="the capture ended before"),
        pytest.param([(400, 9, 0), (500, 1, 0)], False, 0, id="lost in between"),
        pytest.param([(400, 9, 700), (500, 1, 0)], True, 0, id="a launch that failed"),
    ],
)
def test_a_launch_is_lost_only_if_later_ones_were_served(
    tmp_path: Path, rows: list[tuple[int, int, int]], complete: bool, cut_off: int
) -> None:
    file = nsys(
        tmp_path / "t.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=KERNELS,
        CUPTI_ACTIVITY_KIND_RUNTIME=launches(*rows),
        StringIds=STRINGS,
    )
    quality = report(file)["quality"]
    assert (quality["complete"], quality["launches_cut_off"]) == (complete, cut_off)


def test_whole_graphs_count_as_kernels_and_are_said_to_hide_copies(tmp_path: Path) -> None:
    row = (1000, 5000, 0, 1, 7, 1, PID)
    file = nsys(tmp_path / "t.sqlite", CUPTI_ACTIVITY_KIND_GRAPH_TRACE=(PLACE, [row]))
    found = report(file)
    assert found["devices"][0]["kernel_busy_us"] == 4.0
    assert found["quality"]["graphs_as_one_block"] == 1
    assert any("--cuda-graph-trace=node" in note for note in found["notes"])


def test_nvtx_ranges_are_regions(tmp_path: Path) -> None:
    ranges = [(1500, 3500, 59, "step", None), (0, 9000, 60, None, 5), (7, None, 34, "mark", None)]
    file = nsys(
        tmp_path / "t.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=KERNELS,
        NVTX_EVENTS=("start, end, eventType, text, textId", ranges),
        StringIds=STRINGS,
    )
    assert numbers(file, "step")["partition_us"]["compute"] == 0.5
    assert read_trace(file).region_names == ("step", "gemm")


def test_dropped_records_are_reported(tmp_path: Path) -> None:
    file = nsys(
        tmp_path / "t.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=KERNELS,
        DIAGNOSTIC_EVENT=("text", [("Some CUDA records were dropped",), ("fine",)]),
    )
    found = report(file)
    assert found["quality"]["dropped_record_messages"] == 1
    assert any("lower bounds" in note for note in found["notes"])


def test_an_export_without_gpu_work_says_so(tmp_path: Path) -> None:
    found = report(nsys(tmp_path / "t.sqlite", META_DATA_EXPORT=("name, value", [])))
    assert any("no GPU work" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        pytest.param("users", "not an Nsight Systems export", id="other data"),
        pytest.param("rocpd_kernel", "rocprofv3", id="rocprofv3"),
    ],
)
def test_another_database_gets_one_sentence(tmp_path: Path, table: str, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        read_trace(nsys(tmp_path / "t.sqlite", **{table: ("id", [(1,)])}))


def test_values_of_wrong_types_are_losses_not_crashes(tmp_path: Path) -> None:
    rows = [*KERNELS[1], ("x", None, b"\0", 1.5, "seven", None, "p", b"\xff"), (1, 2, *[None] * 6)]
    file = nsys(tmp_path / "t.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=(KERNELS[0], rows))
    assert report(file)["quality"]["without_timestamp"] == 1
    first, _ = read_nsys(file).events
    assert (first.name, first.end) == ("kernel", 2000)


def test_a_view_in_place_of_a_table_is_not_run(tmp_path: Path) -> None:
    file = nsys(tmp_path / "t.sqlite", CUPTI_ACTIVITY_KIND_MEMCPY=copies(one_copy(1, 1, 2)))
    endless = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS start FROM n"
    )
    with sqlite3.connect(file) as connection:
        connection.execute(f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}")
    connection.close()
    assert numbers(file)["kernels"] == 0


def test_a_damaged_database_gives_a_sentence_or_a_partial_result(tmp_path: Path) -> None:
    rows = [(n * 10 + 1, n * 10 + 5, 0, 1, 7, n, PID, 5) for n in range(1, 5000)]
    whole = bytearray(
        nsys(tmp_path / "t.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=(KERNELS[0], rows)).read_bytes()
    )
    whole[len(whole) // 2 :] = b"\xaa" * (len(whole) - len(whole) // 2)
    path = tmp_path / "bad.sqlite"
    path.write_bytes(whole)
    found = report(path)
    assert "damaged" in found["quality"]["partial"]
    assert 0 < found["devices"][0]["kernels"] < 4999


def test_nothing_is_written_beside_the_file_even_where_one_may_not(tmp_path: Path) -> None:
    file = nsys(tmp_path / "a b#%?.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=KERNELS)
    before = file.read_bytes()
    assert numbers(file)["kernels"] == 1
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert file.read_bytes() == before


def test_nsights_own_format_points_to_the_export(tmp_path: Path) -> None:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"whatever")
    with pytest.raises(FormatError, match="nsys export -t sqlite"):
        read_trace(path)
