"""Real traces give exactly the reference values that lie beside them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpu_runner.trace.metrics import device_metrics
from gpu_runner.trace.read import read_trace
from gpu_runner.trace.report import trace_json

TRACES = Path(__file__).parents[2] / "shared" / "traces"
EXPECTED: dict[str, Any] = (
    json.loads((TRACES / "expected.json").read_text()) if TRACES.exists() else {}
)
pytestmark = pytest.mark.skipif(not EXPECTED, reason="../shared/traces is absent")

# The reference gives this over the whole file; `host_sync_us` is ours for the region.
RENAMED = {"host_sync_us": "host_sync_unclipped_us"}


def reported(name: str) -> dict[str, Any]:
    trace = read_trace(TRACES / name)
    return json.loads(json.dumps(trace_json(trace, device_metrics(trace))))


def as_expected(expected: dict[str, Any], device: dict[str, Any]) -> dict[str, Any]:
    return {key: device[RENAMED.get(key, key)] for key in expected}


@pytest.mark.parametrize("name", sorted(name for name in EXPECTED if name.endswith(".gz")))
def test_a_kineto_trace_has_the_reference_values(name: str) -> None:
    (device,) = reported(name)["devices"]
    assert as_expected(EXPECTED[name], device) == EXPECTED[name]


@pytest.mark.parametrize("number", [0, 1], ids=["first device", "second device"])
def test_an_nsight_export_has_the_reference_values(number: int) -> None:
    expected = copy.deepcopy(EXPECTED["h100_2gpu_1s.sqlite"][f"gpu{number}"])
    device = reported("h100_2gpu_1s.sqlite")["devices"][number]
    assert device["device"] == number
    # The reference gives the ceiling to one decimal here, and counts the host memory of uploads
    # only; for the Kineto files it counts downloads too, as we do everywhere.
    assert round(device["overlap_ceiling_percent"], 1) == expected.pop("overlap_ceiling_percent")
    uploads = [entry for entry in device["transfers"] if entry["direction"] == "HtoD"]
    assert {entry["memory"]: entry["bytes"] for entry in uploads} == expected["host_memory_bytes"]
    downloads = [entry for entry in device["transfers"] if entry["direction"] == "DtoH"]
    expected["host_memory_bytes"]["Pinned"] += sum(entry["bytes"] for entry in downloads)
    assert as_expected(expected, device) == expected


@pytest.mark.parametrize("name", sorted(name for name in EXPECTED if not name.startswith("_")))
def test_the_partition_of_a_real_trace_sums_to_the_region(name: str) -> None:
    for device in reported(name)["devices"]:
        parts = device["partition_us"].values()
        assert round(sum(parts), 3) == device["region_us"]
        assert round(sum(device["partition_percent"].values()), 2) in (100.0, 0.0)


def test_real_traces_keep_to_the_published_schema() -> None:
    schema = json.loads((Path(__file__).parents[1] / "docs/schema/trace.schema.json").read_text())
    for name in EXPECTED:
        if not name.startswith("_"):
            jsonschema.validate(reported(name), schema)


def test_an_export_is_read_without_leaving_anything_beside_it() -> None:
    before = sorted(path.name for path in TRACES.iterdir())
    read_trace(TRACES / "h100_2gpu_1s.sqlite")
    assert sorted(path.name for path in TRACES.iterdir()) == before
