"""The algebra of intervals agrees with counting nanoseconds one by one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runner.trace.intervals import Intervals, hull, intersect, measure, subtract, union

GRID = 40
RAW = st.lists(st.tuples(st.integers(0, GRID), st.integers(0, GRID)), max_size=12)


def cells(intervals: list[tuple[int, int]] | Intervals) -> set[int]:
    return {cell for start, end in intervals for cell in range(start, end)}


def is_a_set(intervals: Intervals) -> bool:
    apart = all(a[1] < b[0] for a, b in pairwise(intervals))
    return apart and all(start < end for start, end in intervals)


@given(RAW)
def test_a_union_covers_what_any_interval_covers(raw: list[tuple[int, int]]) -> None:
    found = union(raw)
    assert cells(found) == cells(raw)
    assert is_a_set(found)
    assert measure(found) == len(cells(raw))
    assert union(found) == found


@given(RAW, RAW)
def test_an_intersection_covers_what_both_cover(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    found = intersect(union(left), union(right))
    assert cells(found) == cells(left) & cells(right)
    assert is_a_set(found)
    assert found == intersect(union(right), union(left))


@given(RAW, RAW)
def test_a_difference_covers_what_only_the_first_covers(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    found = subtract(union(left), union(right))
    assert cells(found) == cells(left) - cells(right)
    assert is_a_set(found)


@given(RAW, RAW)
def test_the_three_measures_add_up(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    one, other = union(left), union(right)
    both = measure(intersect(one, other))
    assert measure(subtract(one, other)) + both == measure(one)
    assert measure(union((*one, *other))) == measure(one) + measure(other) - both


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param([(0, 5), (5, 9)], ((0, 9),), id="touching ones merge"),
        pytest.param([(3, 3)], (), id="an empty one vanishes"),
        pytest.param([(5, 2)], (), id="a reversed one vanishes"),
        pytest.param([(0, 9), (2, 4)], ((0, 9),), id="a contained one vanishes"),
        pytest.param([(-9, -7), (-8, -1)], ((-9, -1),), id="negative times"),
    ],
)
def test_a_union_is_sorted_and_apart(raw: list[tuple[int, int]], expected: Intervals) -> None:
    assert union(raw) == expected


def test_touching_intervals_have_nothing_in_common() -> None:
    assert intersect(((0, 5),), ((5, 9),)) == ()


def test_the_hull_spans_from_first_to_last() -> None:
    assert hull(((1, 2), (5, 9))) == ((1, 9),)
    assert hull(()) == ()
