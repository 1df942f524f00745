"""The timeline as one self-contained SVG: no script, no font, no address outside of itself.

Every lane is drawn in cells of a pixel whose opacity is the share of the cell that is busy, so a
million kernels cost no more than ten. Cells of equal opacity form one path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from gpu_runner.timeline import Lane, Track, readable, shares
from gpu_runner.trace.intervals import measure

WIDTH = 1000
LANE, GAP, TITLE, AXIS = 20, 5, 24, 26
MARGIN = 96
LEVELS = 5
TICKS = 8

STYLE = """
.tl text{font:12px system-ui,sans-serif;fill:#57606a}
.tl .title{font-weight:600;fill:#1f2328}
.tl .bed{fill:#8c959f;fill-opacity:.10}
.tl .grid{stroke:#8c959f;stroke-opacity:.25}
.tl .kernels{fill:#2da44e}.tl .H2D{fill:#0969da}.tl .D2H{fill:#8250df}
.tl .other{fill:#9a6700}.tl .host{fill:#cf222e}.tl .overlap{fill:#1b7c83}
@media (prefers-color-scheme:dark){.tl text{fill:#9198a1}.tl .title{fill:#f0f6fc}
.tl .kernels{fill:#3fb950}.tl .H2D{fill:#4493f8}.tl .D2H{fill:#ab7df8}
.tl .other{fill:#d29922}.tl .host{fill:#f85149}.tl .overlap{fill:#39c5cf}}
"""


def svg_timeline(tracks: Sequence[Track], width: int = WIDTH) -> str:
    """All tracks below each other on the scale of the longest one."""
    longest = max((track.length for track in tracks), default=0)
    titled = len(tracks) > 1
    parts: list[str] = []
    top = 0
    for track in tracks:
        if titled:
            parts.append(f'<text class="title" x="0" y="{top + 15}">{escape(track.title)}</text>')
            top += TITLE
        cells = max(1, round(width * track.length / longest)) if longest else 1
        for lane in track.lanes:
            parts += _lane(lane, track, cells, top)
            top += LANE + GAP
    height = top + AXIS
    grid = "".join(_axis(longest, width, top)) if longest else ""
    total = MARGIN + width + 40
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tl" role="img" '
        f'aria-label="Timeline of GPU activity" viewBox="0 0 {total} {height}" '
        f'width="{total}" height="{height}"><style>{STYLE}</style>{grid}{"".join(parts)}</svg>'
    )


def _lane(lane: Lane, track: Track, cells: int, top: int) -> Iterator[str]:
    busy = measure(lane.busy)
    share = 100 * busy / track.length if track.length else 0
    said = f"{lane.name}: {readable(busy)}, {share:.2f} % of {readable(track.length)}"
    yield f"<g><title>{escape(said)}</title>"
    yield f'<text x="0" y="{top + 14}">{escape(lane.name)}</text>'
    yield f'<rect class="bed" x="{MARGIN}" y="{top}" width="{cells}" height="{LANE}"/>'
    levels: dict[int, list[str]] = {}
    for level, first, last in _runs(lane, track, cells):
        drawn = f"M{MARGIN + first} {top}h{last - first}v{LANE}h-{last - first}z"
        levels.setdefault(level, []).append(drawn)
    name = lane.name.partition(" ")[0]
    for level, paths in sorted(levels.items()):
        opacity = f"{0.2 + 0.8 * level / LEVELS:.2f}"
        yield f'<path class="{name}" fill-opacity="{opacity}" d="{"".join(paths)}"/>'
    yield "</g>"


def _runs(lane: Lane, track: Track, cells: int) -> Iterator[tuple[int, int, int]]:
    """Opacity level, first cell and end of each run of equal cells that are not empty."""
    levels = [
        0 if share <= 0 else max(1, min(LEVELS, round(share * LEVELS)))
        for share in shares(lane, track, cells)
    ]
    first = 0
    for cell in range(1, cells + 1):
        if cell == cells or levels[cell] != levels[first]:
            if levels[first]:
                yield levels[first], first, cell
            first = cell


def _axis(length: int, width: int, bottom: int) -> Iterator[str]:
    ticks = max(2, TICKS * width // WIDTH)
    step = nice_step(length / ticks)
    at = 0
    while at <= length:
        x = MARGIN + at * width / length
        yield f'<line class="grid" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick(at, step)}</text>'
        at += step


def nice_step(rough: float) -> int:
    """The next 1, 2 or 5 times a power of ten nanoseconds."""
    size = 1
    while size * 10 <= rough:
        size *= 10
    return next(factor * size for factor in (1, 2, 5, 10) if factor * size >= rough)


def tick(at: int, step: int) -> str:
    """A time on the axis, with as many decimals as the step needs."""
    unit, size = next(
        ((u, s) for u, s in (("s", 10**9), ("ms", 10**6), ("µs", 1000)) if step * 10 > s),
        ("ns", 1),
    )
    text = f"{at / size:.3f}".rstrip("0").rstrip(".")
    return f"{text} {unit}"
