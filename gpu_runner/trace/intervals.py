"""Exact algebra of half-open intervals of integer nanoseconds.

Every function takes and gives back *sets*: tuples of `(start, end)` that are sorted, not empty and
apart. Half-open means that `[a, b)` and `[b, c)` touch without overlapping.
"""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[int, int]
Intervals = tuple[Interval, ...]

NOTHING: Intervals = ()


def union(intervals: Iterable[Interval]) -> Intervals:
    """The set that covers what at least one of the given intervals covers; empty ones vanish."""
    merged: list[Interval] = []
    first = last = 0
    started = False
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if started and start <= last:
            last = max(last, end)
            continue
        if started:
            merged.append((first, last))
        first, last, started = start, end, True
    if started:
        merged.append((first, last))
    return tuple(merged)


def intersect(left: Intervals, right: Intervals) -> Intervals:
    """The set that both cover."""
    common: list[Interval] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start = max(left[i][0], right[j][0])
        end = min(left[i][1], right[j][1])
        if start < end:
            common.append((start, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


def subtract(left: Intervals, right: Intervals) -> Intervals:
    """The set that `left` covers and `right` does not."""
    remaining: list[Interval] = []
    j = 0
    for start, end in left:
        while j < len(right) and right[j][1] <= start:
            j += 1
        at, k = start, j
        while k < len(right) and right[k][0] < end:
            if at < right[k][0]:
                remaining.append((at, right[k][0]))
            at = max(at, right[k][1])
            k += 1
        if at < end:
            remaining.append((at, end))
    return tuple(remaining)


def measure(intervals: Intervals) -> int:
    """Nanoseconds covered."""
    return sum(end - start for start, end in intervals)


def hull(intervals: Intervals) -> Intervals:
    """The one interval from the first start to the last end, or nothing."""
    return ((intervals[0][0], intervals[-1][1]),) if intervals else NOTHING
