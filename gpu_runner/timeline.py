"""Timelines of devices on one scale, as text and as a mermaid chart.

A track is one device of one trace; a lane is one kind of activity. Text shows the share of each
column's time that a lane is busy, so a lane of a thousand short kernels looks as full as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_runner.trace.intervals import Intervals, hull, intersect, measure, union
from gpu_runner.trace.metrics import DeviceMetrics

COLUMNS = 72
# The least share of a column that each glyph stands for; anything above nothing is seen.
GLYPHS = ((0.95, "█"), (0.65, "▓"), (0.35, "▒"), (0.05, "░"), (0.0, "·"))
MERMAID_BARS = 20  # per lane: more are neither readable nor safe for GitHub's limits
MERMAID_TICKS = 8
MERMAID_PARTS = 400  # of the chart: the width of the narrowest bar
MERMAID_LABEL = 0.06  # of the chart: a shorter bar has no room for its label
MERMAID_NO_LABEL = "\u2800"  # a bar must have a name; this one is blank


@dataclass(frozen=True, slots=True)
class Lane:
    """One kind of activity over time."""

    name: str
    busy: Intervals


@dataclass(frozen=True, slots=True)
class Track:
    """One device of one trace; all lanes lie inside `start` … `start + length`."""

    title: str
    start: int
    length: int
    lanes: tuple[Lane, ...]


def track_of(device: DeviceMetrics, title: str) -> Track:
    """The lanes worth showing: the main ones always, the others if anything is in them."""
    found = device.lanes
    other = union((*found.d2d, *found.peer, *found.unified, *found.memset))
    lanes = (
        Lane("kernels", found.kernels),
        Lane("H2D", found.h2d),
        Lane("D2H", found.d2h),
        Lane("other GPU", other),
        Lane("host waits", found.sync),
        Lane("overlap", found.overlap),
    )
    whole = hull(found.scope)
    start, end = whole[0] if whole else (0, 0)
    always = ("kernels", "H2D", "D2H")
    shown = tuple(lane for lane in lanes if lane.busy or lane.name in always)
    return Track(title, start, end - start, shown)


def text_timeline(tracks: Sequence[Track], columns: int = COLUMNS) -> str:
    """All tracks below each other on the scale of the longest one."""
    longest = max((track.length for track in tracks), default=0)
    if not longest:
        return ""
    margin = max(len(lane.name) for track in tracks for lane in track.lanes)
    lines: list[str] = []
    for track in tracks:
        if len(tracks) > 1:
            lines.append(track.title)
        width = max(1, round(columns * track.length / longest))
        for lane in track.lanes:
            cells = "".join(_glyph(share) for share in shares(lane, track, width))
            lines.append(f"{lane.name:<{margin}} |{cells}|")
    return "\n".join([*lines, _scale(longest, margin, columns)])


def shares(lane: Lane, track: Track, cells: int) -> list[float]:
    """How much of each of `cells` equal parts of the track the lane is busy, 0 to 1."""
    found = [0.0] * cells
    if not track.length:
        return found
    for start, end in lane.busy:
        left = (start - track.start) * cells / track.length
        right = (end - track.start) * cells / track.length
        first, last = min(int(left), cells - 1), min(int(right), cells - 1)
        if first == last:
            found[first] += right - left
            continue
        found[first] += first + 1 - left
        for cell in range(first + 1, last):
            found[cell] = 1.0
        found[last] += right - last
    return found


def _glyph(share: float) -> str:
    if share <= 0:
        return " "
    return next(glyph for least, glyph in GLYPHS if share >= least)


def _scale(length: int, margin: int, columns: int) -> str:
    end = readable(length)
    return f"{'':<{margin}}  0{end:>{columns - 1}}"


def readable(nanoseconds: float) -> str:
    """A duration in the unit that suits it."""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000)):
        if abs(nanoseconds) >= size:
            return f"{nanoseconds / size:,.3f} {unit}"
    return f"{nanoseconds / 1000:,.3f} µs"


def coalesced(busy: Intervals, most: int) -> Intervals:
    """At most `most` bars: the narrowest gaps are closed first."""
    if len(busy) <= most:
        return busy
    gaps = sorted(range(len(busy) - 1), key=lambda i: busy[i + 1][0] - busy[i][1], reverse=True)
    cuts = sorted(gaps[: most - 1])
    starts = [0, *(cut + 1 for cut in cuts)]
    ends = [*cuts, len(busy) - 1]
    return tuple((busy[a][0], busy[b][1]) for a, b in zip(starts, ends, strict=True))


def mermaid_timeline(tracks: Sequence[Track]) -> str:
    """A gantt chart that GitHub draws; one microsecond is written as a millisecond of its dates.

    Compact mode puts the bars of a lane into one row; a bar too short for its label has none.
    """
    longest = max((track.length for track in tracks), default=0)
    tick = _round_tick(max(1, longest // 1000 // MERMAID_TICKS))
    lines = [
        "---",
        "displayMode: compact",
        "config:",
        "  gantt:",
        "    leftPadding: 120",
        "---",
        "gantt",
        "  dateFormat x",
        "  axisFormat %Q us",
        f"  tickInterval {tick}millisecond",
    ]
    for number, track in enumerate(tracks, start=1):
        for lane in filter(lambda lane: lane.busy, track.lanes):
            name = lane.name if len(tracks) == 1 else f"{_safe(track.title, number)} {lane.name}"
            lines.append(f"  section {name}")
            lines += _bars(lane, track, longest)
    return "\n".join(lines)


def _bars(lane: Lane, track: Track, longest: int) -> Iterator[str]:
    least = max(1000, longest // MERMAID_PARTS)  # a shorter bar would not be seen
    widened = union((start, max(end, start + least)) for start, end in lane.busy)
    for start, end in coalesced(widened, MERMAID_BARS):
        left, right = (start - track.start) // 1000, -((track.start - end) // 1000)
        filled = 100 * measure(intersect(lane.busy, ((start, end),))) / (end - start)
        label = f"{filled:.0f} %" if end - start > MERMAID_LABEL * longest else MERMAID_NO_LABEL
        yield f"    {label} :{_colour(lane)}{left}, {right}"


def _safe(title: str, number: int) -> str:
    """The title where it is a plain word: anything else could be read as mermaid's syntax."""
    return title if title.isalnum() else f"({number})"


def _colour(lane: Lane) -> str:
    # Mermaid has no colours of one's own, only these states.
    return {"H2D": "active, ", "D2H": "active, ", "overlap": "done, ", "host waits": "crit, "}.get(
        lane.name, ""
    )


def _round_tick(tick: int) -> int:
    size = 10 ** (len(str(tick)) - 1)
    return next(step * size for step in (1, 2, 5, 10) if step * size >= tick)
