"""Timelines show what the numbers say, on one scale, within the limits of where they go."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runner.timeline import (
    Lane,
    Track,
    coalesced,
    mermaid_timeline,
    readable,
    shares,
    text_timeline,
)
from gpu_runner.timeline_svg import nice_step, svg_timeline, tick
from gpu_runner.trace.intervals import measure, union

MS = 1_000_000


def track(*lanes: Lane, length: int = 100 * MS, title: str = "one", start: int = 0) -> Track:
    return Track(title, start, length, lanes)


SETS = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=30).map(union)


def test_a_column_shows_how_much_of_it_is_busy() -> None:
    lane = Lane("kernels", ((0, 10 * MS), (15 * MS, 20 * MS), (39 * MS, 40 * MS)))
    assert text_timeline([track(lane)], columns=10) == (
        "kernels |█▒ ░      |\n         0100.000 ms"
    )


def test_the_smallest_activity_is_seen() -> None:
    assert "·" in text_timeline([track(Lane("D2H", ((50, 51),)))])


def test_two_tracks_are_titled_and_share_their_scale() -> None:
    tracks = [
        track(Lane("H2D", ((0, 100 * MS),)), title="base"),
        track(Lane("H2D", ((7, 50 * MS + 7),)), title="head", length=50 * MS, start=7),
    ]
    assert text_timeline(tracks, columns=12) == (
        "base\nH2D |████████████|\nhead\nH2D |██████|\n     0 100.000 ms"
    )


def test_a_track_of_no_length_is_no_timeline() -> None:
    assert text_timeline([track(length=0)]) == ""
    assert "<svg" in svg_timeline([track(Lane("kernels", ()), length=0)])


@given(SETS, st.integers(1, 50))
def test_the_shares_of_all_cells_sum_to_the_busy_time(
    busy: tuple[tuple[int, int], ...], cells: int
) -> None:
    found = shares(Lane("x", busy), track(length=1000), cells)
    assert sum(found) * 1000 / cells == pytest.approx(measure(busy))
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in found)


@given(SETS, st.integers(1, 20))
def test_coalescing_closes_gaps_and_loses_nothing(
    busy: tuple[tuple[int, int], ...], most: int
) -> None:
    found = coalesced(busy, most)
    assert len(found) <= most or len(found) == len(busy)
    assert all(any(a <= start and end <= b for a, b in found) for start, end in busy)
    assert union(found) == found


def test_coalescing_closes_the_narrowest_gaps_first() -> None:
    assert coalesced(((0, 1), (2, 3), (10, 11)), 2) == ((0, 3), (10, 11))


def test_a_chart_keeps_to_the_limits_of_mermaid_on_github() -> None:
    many = tuple((number * MS, number * MS + MS // 2) for number in range(100))
    lanes = [Lane(name, many) for name in ("kernels", "H2D", "D2H", "overlap", "host waits")]
    chart = mermaid_timeline([track(*lanes), track(*lanes)])
    assert len(chart) < 50_000
    bars = re.findall(r"^    (?:\d+ %|\u2800) :(?:active, |done, |crit, )?\d+, \d+$", chart, re.M)
    assert len(bars) == 2 * 5 * 20
    assert "\ngantt\n  dateFormat x\n  axisFormat %Q us\n  tickInterval " in chart


def test_a_chart_has_no_empty_sections_and_no_empty_bars() -> None:
    chart = mermaid_timeline([track(Lane("kernels", ((5, 6),)), Lane("D2H", ()))])
    assert "section D2H" not in chart
    assert "    \u2800 :0, 251" in chart, "wide enough to be seen"


def test_a_picture_is_well_formed_and_needs_nothing_from_outside() -> None:
    lane = Lane("kernels", ((0, 10 * MS), (50 * MS, 51 * MS)))
    picture = svg_timeline([track(lane, title="a<b>&"), track(lane, title="c", length=50 * MS)])
    root = ET.fromstring(picture)
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == "kernels: 11.000 ms, 11.00 % of 100.000 ms"
    assert picture.count("http") == 1, "only the namespace"
    assert "script" not in picture


def test_a_picture_of_a_million_events_stays_small() -> None:
    many = tuple((number * 100, number * 100 + 50) for number in range(1_000_000))
    assert len(svg_timeline([track(Lane("kernels", many), length=100 * MS)])) < 20_000


@pytest.mark.parametrize(
    ("nanoseconds", "expected"),
    [
        pytest.param(1, "0.001 µs", id="one"),
        pytest.param(999_999, "999.999 µs", id="just below"),
        pytest.param(1_000_000, "1.000 ms", id="a millisecond"),
        pytest.param(12_345_678_901, "12.346 s", id="seconds"),
    ],
)
def test_durations_have_the_unit_that_suits_them(nanoseconds: int, expected: str) -> None:
    assert readable(nanoseconds) == expected


@pytest.mark.parametrize(
    ("rough", "step"), [(1, 1), (3, 5), (11, 20), (55, 100), (450_000, 500_000)]
)
def test_ticks_are_round(rough: float, step: int) -> None:
    assert nice_step(rough) == step


def test_ticks_are_labelled_in_the_unit_of_their_step() -> None:
    assert [tick(at, 20 * MS) for at in (0, 20 * MS, 1500 * MS)] == ["0 ms", "20 ms", "1500 ms"]
    assert tick(5, 5) == "5 ns"
