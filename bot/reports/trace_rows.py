"""The lines of a trace report: which numbers, in what words, and whether a change is good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

LOWER, NEUTRAL, HIGHER = -1, 0, 1
MISSING = "n/a"


@dataclass(frozen=True, slots=True)
class Row:
    """One number of a device."""

    key: str
    label: str
    unit: str  # "time", "%", "points of share", "GB/s", "count", "bytes"
    better: int = NEUTRAL
    always: bool = False  # shown even where it is zero everywhere


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that answer one question."""

    title: str
    rows: tuple[Row, ...]


PARTITION = (
    ("compute", "kernels"),
    ("exposed_h2d", "H2D alone"),
    ("exposed_d2h", "D2H alone"),
    ("memset_and_device_copies", "other GPU work alone"),
    ("idle", "idle"),
)
GROUPS = (
    Group(
        "Overlap of copies and kernels",
        (
            Row("overlap_percent", "overlap", "%", HIGHER, always=True),
            Row("overlap_ceiling_percent", "possible at most", "%", always=True),
            Row("overlap_efficiency_percent", "reached of that", "%", HIGHER),
            Row("exposed_copy_us", "exposed copies", "time", LOWER),
            Row("h2d_overlap_percent", "overlap of H2D", "%", HIGHER),
            Row("d2h_overlap_percent", "overlap of D2H", "%", HIGHER),
            Row("duplex_percent", "duplex, H2D with D2H", "%", HIGHER),
        ),
    ),
    Group(
        "Busy time",
        (
            Row("region_us", "region", "time", LOWER, always=True),
            Row("kernel_busy_us", "kernels", "time", always=True),
            Row("kernel_sum_us", "kernels, summed", "time"),
            Row("h2d_busy_us", "H2D copies", "time"),
            Row("d2h_busy_us", "D2H copies", "time"),
            Row("d2d_busy_us", "D2D copies", "time"),
            Row("p2p_busy_us", "peer copies", "time"),
            Row("unified_memory_busy_us", "unified memory", "time"),
            Row("memset_busy_us", "memsets", "time"),
            Row("nccl_busy_us", "NCCL kernels", "time"),
            Row("nccl_compute_overlap_percent", "NCCL under compute", "%", HIGHER),
        ),
    ),
    Group(
        "Idle time",
        (
            Row("no_kernel_us", "no kernel running", "time", LOWER, always=True),
            Row("gpu_idle_us", "nothing running", "time", LOWER, always=True),
            Row("micro_idle_us", "in gaps under 10 µs", "time"),
            Row("macro_idle_us", "in longer gaps", "time", LOWER),
            Row("launch_gap_us", "under the next launch", "time", LOWER),
        ),
    ),
    Group(
        "Host",
        (
            Row("host_sync_us", "waits", "time", LOWER, always=True),
            Row("host_sync_stall_us", "with an idle GPU", "time", LOWER),
            Row("implicit_sync_us", "hidden waits in copies", "time", LOWER),
            Row("allocation_us", "allocating, freeing", "time", LOWER),
            Row("host_blocked_stall_us", "blocked with idle GPU", "time", LOWER),
            Row("launches", "launches", "count"),
            Row("launch_api_us", "inside launch calls", "time", LOWER),
        ),
    ),
    Group(
        "Copies",
        (
            Row("h2d_gb_per_s", "H2D speed", "GB/s", HIGHER),
            Row("d2h_gb_per_s", "D2H speed", "GB/s", HIGHER),
            Row("pinned_share", "pinned share", "share", HIGHER),
            Row("default_stream_copies_percent", "on the default stream", "%", LOWER),
        ),
    ),
)
ALL_ROWS = tuple(row for group in GROUPS for row in group.rows)


def shown_rows(group: Group, devices: Sequence[Json]) -> tuple[Row, ...]:
    """The rows that say something about at least one of the devices."""
    return tuple(row for row in group.rows if row.always or any(read(row, d) for d in devices))


def read(row: Row, device: Json) -> float | None:
    """The row's number of a device."""
    number: float | None = device[row.key]
    return number


def value(row: Row, number: float | None) -> str:
    """The number with its unit; `n/a` where it cannot be known."""
    if number is None:
        return MISSING
    if row.unit == "time":
        return duration(number)
    if row.unit == "share":
        return f"{100 * number:.2f} %"
    if row.unit == "%":
        return f"{number:.2f} %"
    if row.unit == "GB/s":
        return f"{number:.2f} GB/s"
    return f"{number:,.0f}"


def duration(microseconds: float) -> str:
    """A time in the unit that suits it, three decimals."""
    if not microseconds:
        return "0 µs"
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if abs(microseconds) >= size:
            return f"{microseconds / size:,.3f} {unit}"
    return f"{microseconds:,.3f} µs"


def share_of_region(row: Row, device: Json) -> str:
    """What part of the region a time is; empty for other numbers."""
    number, region = read(row, device), device["region_us"]
    if row.unit != "time" or row.key in ("region_us", "kernel_sum_us") or not region:
        return ""
    return "" if number is None else f"{100 * number / region:.2f} %"


def difference(row: Row, base: float | None, head: float | None) -> str:
    """Head minus base in words; empty where one of them is unknown or nothing changed."""
    if base is None or head is None or base == head:
        return "" if base is None or head is None else "="
    change = head - base
    sign = "+" if change > 0 else "−"
    if row.unit == "%":
        return f"{sign}{abs(change):.2f} points"
    if row.unit == "share":
        return f"{sign}{100 * abs(change):.2f} points"
    amount = f"{sign}{value(row, abs(change))}"
    return f"{amount} ({sign}{100 * abs(change) / base:.1f} %)" if base else amount


def verdict(row: Row, base: float | None, head: float | None) -> int:
    """1 for a change to the better, -1 to the worse, 0 for neither."""
    if base is None or head is None or base == head:
        return 0
    return row.better * (1 if head > base else -1)


def pairs(base: Json, head: Json) -> tuple[tuple[Json, Json], ...]:
    """Devices of both files that belong together: by number, or the single ones of each."""
    left, right = base["devices"], head["devices"]
    if len(left) == 1 and len(right) == 1:
        return ((left[0], right[0]),)
    numbered = {device["device"]: device for device in right}
    return tuple((d, numbered[d["device"]]) for d in left if d["device"] in numbered)


def differences(base: Json, head: Json) -> list[Json]:
    """Head minus base of every number, per pair of devices."""
    found: list[Json] = []
    for left, right in pairs(base, head):
        entry: Json = {"device": {"base": left["device"], "head": right["device"]}}
        for row in ALL_ROWS:
            one, other = read(row, left), read(row, right)
            entry[row.key] = None if one is None or other is None else round(other - one, 6)
        found.append(entry)
    return found


def headline(device: Json) -> str:
    """The one sentence about overlap that a reader should take away."""
    copies, region = device["copy_busy_us"], device["region_us"]
    if not region:
        return "There is no GPU work in this file, so there is nothing to overlap."
    if not copies:
        return "No copies between host and device ran, so there is nothing to overlap."
    if device["overlap_percent"] is None:
        return "Copy/compute overlap: not given, because the trace is incomplete."
    return (
        f"Copy/compute overlap: {device['overlap_percent']:.2f} % of a possible "
        f"{device['overlap_ceiling_percent']:.2f} %. Of {duration(copies)} of copies "
        f"{duration(device['exposed_copy_us'])} are exposed."
    )


def device_title(device: Json) -> str:
    """How a device is called."""
    if device["device"] is None:
        return "no device"
    name = f", {device['name']}" if device["name"] else ""
    return f"device {device['device']}{name}"


def pair_headline(base: Json, head: Json) -> str:
    """The change of overlap in one sentence."""
    one, other = base["overlap_percent"], head["overlap_percent"]
    if one is None and other is None:
        return "Copy/compute overlap: n/a in both."
    return f"Copy/compute overlap: {_of_possible(base)} → {_of_possible(head)}."


def _of_possible(device: Json) -> str:
    overlap, ceiling = device["overlap_percent"], device["overlap_ceiling_percent"]
    return MISSING if overlap is None else f"{overlap:.2f} % of a possible {ceiling:.2f} %"
