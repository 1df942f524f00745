"""A benchmark report as a person reads it: text for the terminal, Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from bot.reports.bench_markdown import markdown
from bot.reports.bench_rows import checks, comparisons, done, duration, machine, overlaps, title
from gpu_runner.models import BenchmarkRun, BenchReport

__all__ = ["markdown", "text"]
INDENT = "    "


def text(report: BenchReport) -> str:
    """The whole report for a terminal."""
    lines = [title(report), *machine(report)]
    if report.run.problem:
        lines += ["", f"Nothing was {done(report)}: {report.run.problem}."]
    for benchmark in report.run.benchmarks:
        lines += ["", benchmark.name, *_benchmark(report, benchmark)]
    if report.run.offer:
        lines += ["", "A file to start from:", "", report.run.offer.rstrip()]
    lines += ["", *report.run.notes] if report.run.notes else []
    lines += [] if report.run.problem else ["", report.summary]
    return "\n".join(lines) + "\n"


def _benchmark(report: BenchReport, benchmark: BenchmarkRun) -> Iterator[str]:
    for found in comparisons(report, benchmark):
        yield f"  {found.verdict:24s} {found.variant} against {found.baseline}"
        yield f"{INDENT}{found.because}"
        if found.latencies:
            yield INDENT + "; ".join(
                f"{each.variant} {duration(each.p50_ns)} (p90 {duration(each.p90_ns)})"
                for each in found.latencies
            )
    for check in checks(benchmark):
        yield INDENT + check
    for overlap in overlaps(report, benchmark):
        yield f"{INDENT}{overlap.variant}: {overlap.because}"
    for trace in benchmark.traces:
        if trace.timeline and trace.traced_pass == 0:
            yield trace.timeline
    if benchmark.log:
        yield INDENT + benchmark.log
