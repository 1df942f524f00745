"""No damage to a file makes the reader do anything but answer or refuse in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trace_files import call, copy, kernel, memset, nsys, region, report, write

from gpu_runner.errors import RunnerError

EVENTS = [
    region("step", 0, 900),
    *(kernel(number * 50, 20 + number, correlation=number) for number in range(1, 9)),
    *(call("cudaLaunchKernel", number * 50 - 20, 4, number) for number in range(1, 9)),
    copy(30, 100, memory="Pageable", correlation=70),
    call("cudaMemcpyAsync", 20, 90, 70),
    memset(500, 3),
    call("cudaStreamSynchronize", 600, 200),
]
TEXT = json.dumps(
    {"traceEvents": EVENTS, "traceName": "x", "deviceProperties": [{"id": 0}]}
).encode()
PLACE = "start, end, deviceId, contextId, streamId, correlationId, globalPid"
PATCHES = st.lists(
    st.tuples(
        st.integers(0, 1 << 16),
        st.integers(0, 9),
        st.one_of(
            st.binary(max_size=6),
            st.sampled_from(
                [
                    b"NaN",
                    b"-1e999",
                    b"null",
                    b"{",
                    b"}",
                    b"[",
                    b"]",
                    b'"',
                    b",",
                    b"\\u0000",
                    b"1" * 400,
                ]
            ),
        ),
    ),
    min_size=1,
    max_size=6,
)
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def damaged(data: bytes, patches: list[tuple[int, int, bytes]]) -> bytes:
    for at, removed, inserted in patches:
        start = at % (len(data) + 1)
        data = data[:start] + inserted + data[start + removed :]
    return data


def answered_or_refused(path: Path) -> bool:
    """Whether there is a report that adds up, or one line that says why not."""
    try:
        found = report(path)
    except RunnerError as problem:
        return "\n" not in str(problem)
    for device in found["devices"]:
        parts = device["partition_us"].values()
        assert abs(sum(parts) - device["region_us"]) < 1e-6 * (1 + device["region_us"])
        assert all(part >= 0 for part in parts)
        assert (device["overlap_percent"] or 0) <= (device["overlap_ceiling_percent"] or 0)
    json.dumps(found, allow_nan=False)
    return True


@PATIENT
@given(PATCHES)
def test_damaged_json_is_answered_or_refused(
    tmp_path: Path, patches: list[tuple[int, int, bytes]]
) -> None:
    assert answered_or_refused(write(tmp_path / "t.json", damaged(TEXT, patches)))


@PATIENT
@given(PATCHES)
def test_damaged_gzip_is_answered_or_refused(
    tmp_path: Path, patches: list[tuple[int, int, bytes]]
) -> None:
    whole = write(tmp_path / "whole.json.gz", TEXT).read_bytes()
    path = tmp_path / "t.json.gz"
    path.write_bytes(damaged(whole, patches))
    assert answered_or_refused(path)


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    rows = [(n * 100, n * 100 + 60, n % 2, 1, 7, n, 1 << 24, 5) for n in range(1, 60)]
    copies = [(n * 100 + 30, n * 100 + 90, 0, 1, 14, n, 1 << 24, 64, 1, 1, 2) for n in range(1, 9)]
    path = nsys(
        tmp_path_factory.mktemp("export") / "t.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=(f"{PLACE}, demangledName", rows),
        CUPTI_ACTIVITY_KIND_MEMCPY=(f"{PLACE}, bytes, copyKind, srcKind, dstKind", copies),
        StringIds=("id, value", [(5, "gemm")]),
    )
    return path.read_bytes()


@PATIENT
@given(PATCHES)
def test_a_damaged_export_is_answered_or_refused(
    tmp_path: Path, export: bytes, patches: list[tuple[int, int, bytes]]
) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(damaged(export, patches))
    assert answered_or_refused(path)
