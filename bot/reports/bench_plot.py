"""Pictures of a benchmark's samples and intervals: self-contained SVG, no script, no address."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from bot.reports.bench_rows import duration
from gpu_runner.models import BenchmarkRun, Comparison
from gpu_runner.records import Variant

WIDTH, HEIGHT, MARGIN = 720, 220, 84
ROW = 30
STYLE = """
.bp text{font:12px system-ui,sans-serif;fill:#57606a}
.bp .grid{stroke:#8c959f;stroke-opacity:.3}.bp .zero{stroke:#57606a}
.bp .band{fill:#8c959f;fill-opacity:.15}
.bp .base{fill:#57606a;stroke:#57606a}.bp .head{fill:#0969da;stroke:#0969da}
.bp .suggestion{fill:#1a7f37;stroke:#1a7f37}.bp .gone{fill-opacity:.2;stroke-opacity:.2}
@media (prefers-color-scheme:dark){.bp text{fill:#9198a1}.bp .zero{stroke:#9198a1}
.bp .base{fill:#9198a1;stroke:#9198a1}.bp .head{fill:#4493f8;stroke:#4493f8}
.bp .suggestion{fill:#3fb950;stroke:#3fb950}}
"""


def samples(benchmark: BenchmarkRun) -> str:
    """Every process as a dot (its median) on a line from its 10th to its 90th percentile.

    Rounds go from left to right; discarded ones are pale. Empty when nothing was timed.
    """
    points = list(_points(benchmark))
    if not points:
        return ""
    low, high = min(point[3] for point in points), max(point[5] for point in points)
    spread = (high - low) or high or 1.0
    bottom, top = max(0.0, low - 0.08 * spread), high + 0.08 * spread
    slots = (WIDTH - MARGIN) / max(1, len(benchmark.rounds))

    def y(value: float) -> float:
        return HEIGHT - (value - bottom) / (top - bottom) * HEIGHT

    parts = [_line(y(value), duration(value)) for value in _ticks(bottom, top)]
    order = list(benchmark.variants)
    for number, variant, kept, p10, p50, p90 in points:
        x = MARGIN + slots * (number + (order.index(variant) + 1) / (len(order) + 1))
        gone = "" if kept else " gone"
        said = f"round {number + 1}, {variant}: {duration(p50)}{'' if kept else ' (discarded)'}"
        parts.append(
            f'<g class="{variant}{gone}"><title>{escape(said)}</title>'
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y(p10):.1f}" y2="{y(p90):.1f}"/>'
            f'<circle cx="{x:.1f}" cy="{y(p50):.1f}" r="3.5"/></g>'
        )
    return _svg("Time per call in every round", HEIGHT + 26, [*parts, *_key(order)])


def intervals(comparisons: Sequence[Comparison], relevant: float) -> str:
    """The interval of each change in percent, with the band that counts as no difference."""
    drawn = [each for each in comparisons if each.interval is not None]
    if not drawn:
        return ""
    ends = [
        percent(end)
        for each in drawn
        if each.interval
        for end in (each.interval.low, each.interval.high)
    ]
    reach = 1.15 * max(*map(abs, ends), 100 * relevant, 0.1)

    def x(value: float) -> float:
        return MARGIN + 90 + (value + reach) / (2 * reach) * (WIDTH - MARGIN - 110)

    height = ROW * len(drawn)
    band = x(-100 * relevant), x(100 * relevant)
    parts = [
        f'<rect class="band" x="{band[0]:.1f}" width="{band[1] - band[0]:.1f}" y="0" '
        f'height="{height}"/><line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y2="{height}"/>'
    ]
    for number, each in enumerate(drawn):
        parts += _whisker(each, ROW * number + ROW // 2, x)
    for value in (-reach / 1.15, 0.0, reach / 1.15):
        parts.append(
            f'<text x="{x(value):.1f}" y="{height + 16}" text-anchor="middle">{value:+.3g} %</text>'
        )
    return _svg("Change in time per call", height + 24, parts)


def percent(log_ratio: float) -> float:
    """A logarithm of a ratio as a change in percent."""
    return math.expm1(log_ratio) * 100


def _whisker(found: Comparison, y: int, x: Callable[[float], float]) -> Iterator[str]:
    assert found.interval is not None
    low, middle, high = (
        percent(end) for end in (found.interval.low, found.interval.log_ratio, found.interval.high)
    )
    name = f"{found.variant} / {found.baseline}"
    said = f"{name}: {middle:+.1f} % ({low:+.1f} to {high:+.1f})"
    yield f'<text x="0" y="{y + 4}">{escape(name)}</text>'
    yield (
        f'<g class="{found.variant}"><title>{escape(said)}</title><line stroke-width="3" '
        f'x1="{x(low):.1f}" x2="{max(x(high), x(low) + 1):.1f}" y1="{y}" y2="{y}"/>'
        f'<circle cx="{x(middle):.1f}" cy="{y}" r="5"/></g>'
    )


def _points(
    benchmark: BenchmarkRun,
) -> Iterator[tuple[int, Variant, bool, float, float, float]]:
    """Round, variant, whether it counts, and three percentiles of each process."""
    for number, turn in enumerate(benchmark.rounds):
        for process in turn.processes:
            times = sorted(process.samples_ns)
            if times and process.variant in benchmark.variants:
                p10, p50, p90 = (times[min(len(times) * q // 100, len(times) - 1)]
                                 for q in (10, 50, 90))  # fmt: skip
                yield number, process.variant, turn.discarded is None, p10, p50, p90


def _ticks(bottom: float, top: float) -> Iterator[float]:
    for part in range(5):
        yield bottom + (top - bottom) * part / 4


def _line(y: float, text: str) -> str:
    label = min(max(y + 4, 11), HEIGHT)
    return (
        f'<line class="grid" x1="{MARGIN}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{MARGIN - 8}" y="{label:.1f}" text-anchor="end">{escape(text)}</text>'
    )


def _key(order: Sequence[Variant]) -> Iterator[str]:
    for number, variant in enumerate(order):
        x = MARGIN + 110 * number
        yield f'<circle class="{variant}" cx="{x + 5}" cy="{HEIGHT + 16}" r="4"/>'
        yield f'<text x="{x + 15}" y="{HEIGHT + 20}">{variant}</text>'


def _svg(label: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="bp" role="img" aria-label="{label}" '
        f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
        f"<style>{STYLE}</style>{''.join(parts)}</svg>"
    )
