"""The page of one benchmark run: verdicts, samples, intervals, timelines and downloads.

Self-contained: no script, no font, nothing from elsewhere. Every string may be a stranger's; the
template escapes all of them, and the pictures are made of numbers and escaped names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from bot.bench_work import BenchState
from bot.neutral import visible
from bot.reports import bench_plot
from bot.reports.bench_folds import around, repeat
from bot.reports.bench_rows import basis, checks, comparisons, gaps, problem
from bot.reports.bench_table import cells
from gpu_runner.models import BenchmarkRun, BenchReport, Comparison
from gpu_runner.records import Verdict
from gpu_runner.timeline_svg import svg_timeline
from gpu_runner.tracks import track_from

TEMPLATE = Path(__file__).parents[1] / "templates" / "run.html.j2"
PERFETTO = "https://ui.perfetto.dev/#!/?url="
KINDS = {
    Verdict.FASTER: "faster",
    Verdict.SLOWER: "slower",
    Verdict.WRONG_RESULT: "wrong",
    Verdict.SUSPICIOUS: "wrong",
}
MOST_PICTURES = 40  # benchmarks with pictures; the rest have their tables


@dataclass(frozen=True)
class Reason:
    """One verdict and what it rests on."""

    verdict: str
    kind: str
    pair: str
    because: str


@dataclass(frozen=True)
class Shown:
    """One benchmark, ready for the template."""

    name: str
    variants: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    reasons: tuple[Reason, ...]
    notes: tuple[str, ...]
    samples: Markup
    intervals: Markup
    timeline: Markup


@dataclass(frozen=True)
class Download:
    """A file of the run."""

    name: str
    address: str
    perfetto: str = ""


@dataclass(frozen=True)
class Page:
    """The run, ready for the template."""

    title: str
    headline: str
    subject: str
    author: str
    date: str
    machine: str
    base: str
    head: str
    suggestion: str
    problem: str
    benchmarks: tuple[Shown, ...]
    notes: tuple[str, ...]
    downloads: tuple[Download, ...]
    environment: tuple[str, ...]
    repeat: str
    badge: str


def page(
    bench: BenchState,
    report: BenchReport | None,
    downloads: Sequence[Download] = (),
    badge: str = "",
) -> str:
    """The HTML of a run; without a report, how far it is or why there is none."""
    order, run = bench.order, report.run if report else None
    headline = _headline(bench, report)
    shown = Page(
        title=f"{headline}: {bench.subject}",
        headline=headline,
        subject=bench.subject,
        author=order.author,
        date=f"{datetime.fromtimestamp(bench.created, UTC):%Y-%m-%d %H:%M} UTC",
        machine=visible(run.device.name if run and run.device else bench.runner),
        base=(run.request.base if run else order.base_sha)[:12],
        head=order.head_sha[:12],
        suggestion=visible(order.suggestion),
        problem=visible((run.problem if run else None) or bench.problem),
        benchmarks=tuple(_shown(report, each, number) for number, each in enumerate(
            report.run.benchmarks)) if report else (),
        notes=tuple(map(visible, run.notes)) if run else (),
        downloads=tuple(downloads),
        environment=tuple(map(visible, around(report))) if report else (),
        repeat=repeat(report) if report else "",
        badge=badge,
    )  # fmt: skip
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(page=shown)


def trace_download(name: str, address: str, public: str = "") -> Download:
    """A trace; with a link that opens it in Perfetto, which reads public HTTPS addresses only."""
    whole = f"{public}{address}"
    opens = f"{PERFETTO}{quote(whole, safe='')}" if public.startswith("https://") else ""
    return Download(name, address, opens)


def _headline(bench: BenchState, report: BenchReport | None) -> str:
    if report is None:
        return f"GPU benchmark: {bench.stage}"
    if report.run.problem:
        return "GPU benchmark: no result"
    said = f"GPU benchmark: {report.headline} ({basis(report)})"
    proposed = report.suggestion_headline
    return f"{said}; suggestion {proposed}" if proposed is not None else said


def _shown(report: BenchReport, benchmark: BenchmarkRun, number: int) -> Shown:
    found = comparisons(report, benchmark)
    pictured = number < MOST_PICTURES
    relevant = report.run.request.protocol.relevant_effect
    why = [problem(report, benchmark), *gaps(report, benchmark)]
    notes = [*checks(benchmark), *why, benchmark.log, *benchmark.alarms]
    return Shown(
        name=visible(benchmark.name),
        variants=tuple(each.value for each in benchmark.variants),
        rows=tuple(cells(report, benchmark)),
        reasons=tuple(map(_reason, found)),
        notes=tuple(visible(note) for note in notes if note),
        # Made of numbers, of our own words, and of names that their makers escape.
        samples=Markup(bench_plot.samples(benchmark) if pictured else ""),
        intervals=Markup(bench_plot.intervals(found, relevant) if pictured else ""),
        timeline=Markup(timeline(benchmark) if pictured else ""),
    )


def _reason(found: Comparison) -> Reason:
    return Reason(
        str(found.verdict),
        KINDS.get(found.verdict, "soft"),
        f"{found.variant} against {found.baseline}",
        visible(found.because),
    )


def timeline(benchmark: BenchmarkRun) -> str:
    """The first traced pass of every variant as one SVG; empty when none was traced."""
    first = [each for each in benchmark.traces if each.traced_pass == 0 and each.lanes]
    return svg_timeline([track_from(each, each.variant.value) for each in first]) if first else ""
