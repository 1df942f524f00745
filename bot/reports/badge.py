"""A badge: two words side by side as an SVG, no font, no address."""

from __future__ import annotations

from html import escape

from bot.reports.bench_rows import basis
from gpu_runner.models import BenchReport
from gpu_runner.records import Verdict

GREY, GREEN, RED, BLUE = "#6e7781", "#1a7f37", "#cf222e", "#0969da"
COLOURS = {
    Verdict.FASTER: GREEN,
    Verdict.SLOWER: RED,
    Verdict.WRONG_RESULT: RED,
    Verdict.SUSPICIOUS: RED,
    Verdict.NO_MEASURABLE_DIFFERENCE: BLUE,
}
LABEL = "gpu-bench"
PER_CHARACTER, PADDING = 6.6, 12


def verdict_badge(report: BenchReport | None) -> str:
    """The verdict of the latest run, with the word that may stand before its numbers."""
    if report is None:
        return badge(LABEL, "no run yet", GREY)
    if report.run.problem:
        return badge(LABEL, "no result", GREY)
    said = str(report.headline).lower()
    if (where := basis(report)) != "measured":
        said += f" ({where})"
    return badge(LABEL, said, COLOURS.get(report.headline, GREY))


def badge(label: str, value: str, colour: str) -> str:
    """The SVG of a badge."""
    left, right = (round(len(text) * PER_CHARACTER + PADDING) for text in (label, value))
    name = escape(f"{label}: {value}")
    texts = "".join(
        f'<text x="{x}" y="14" textLength="{width - PADDING}">{escape(text)}</text>'
        for text, x, width in ((label, left / 2, left), (value, left + right / 2, right))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{name}"><title>{name}</title>'
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#444c56"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" '
        f'font-size="11">{texts}</g></svg>'
    )
