"""Timelines that travel in a report: a track as coarsened lanes, and back."""

from __future__ import annotations

from gpu_runner.records import LaneSpans, TraceSummary
from gpu_runner.timeline import Lane, Track, coalesced
from gpu_runner.trace.intervals import Intervals, union

MOST_SPANS = 200  # of a lane: more than a drawing can show


def lanes_of(track: Track) -> tuple[LaneSpans, ...]:
    """The track's lanes from its start on, the narrowest gaps closed where there are too many."""
    return tuple(LaneSpans(lane.name, _shifted(lane, track.start)) for lane in track.lanes)


def track_from(summary: TraceSummary, title: str) -> Track:
    """The track to draw; a machine's spans are put in order and cut to its length first."""
    lanes = tuple(Lane(lane.name, _within(lane, summary.length_ns)) for lane in summary.lanes)
    return Track(title, 0, summary.length_ns, lanes)


def _shifted(lane: Lane, start: int) -> Intervals:
    return tuple((a - start, b - start) for a, b in coalesced(lane.busy, MOST_SPANS))


def _within(lane: LaneSpans, length: int) -> Intervals:
    return union((min(a, length), min(b, length)) for a, b in lane.spans)
