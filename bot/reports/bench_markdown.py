"""A benchmark report as Markdown for a pull request: the verdict first, then the numbers.

Every string in it may come from the code that was measured, so all of it goes through `neutral`.
What does not fit a comment is left out by whole parts, the least important first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bot.neutral import code, fenced, markup, prose
from bot.reports.bench_folds import environment, numbers
from bot.reports.bench_rows import basis, checks, comparisons, done, gaps, problem, title
from bot.reports.bench_table import overview, table
from gpu_runner.models import BenchmarkRun, BenchReport, Comparison
from gpu_runner.records import TraceSummary
from gpu_runner.timeline import mermaid_timeline, text_timeline
from gpu_runner.tracks import track_from

LONGEST = 60_000  # characters; GitHub takes 65,536
OPEN = 3  # benchmarks that are shown unfolded
COLUMNS = 64

Part = tuple[int, str]  # what is left out first has the highest number


def markdown(report: BenchReport, address: str = "", most: int = LONGEST) -> str:
    """The whole report for a comment of at most `most` characters; `address`: its own page."""
    parts = list(_parts(report, address))
    while _length(parts) > most:
        last = max(parts, key=lambda each: each[0])
        if last[0] == 0:
            return _joined(parts)[: most - 2].rstrip() + "…\n"
        position = len(parts) - 1 - [each[0] for each in reversed(parts)].index(last[0])
        parts[position] = (0, _left_out(parts, position, address))
        parts = [each for each in parts if each[1]]
    return _joined(parts)


def _left_out(parts: Sequence[Part], position: int, address: str) -> str:
    said = "Some of it does not fit a comment; " + (
        "its page has all." if address else "`hostside bench run` prints all."
    )
    return "" if any(said == text for _, text in parts) else said


def _joined(parts: Sequence[Part]) -> str:
    return "\n\n".join(text for _, text in parts if text) + "\n"


def _length(parts: Sequence[Part]) -> int:
    """How long the joined parts are, without joining what may be megabytes."""
    return sum(len(text) + 2 for _, text in parts if text) - 1


def _parts(report: BenchReport, address: str) -> Iterator[Part]:
    run = report.run
    yield 0, _headline(report)
    yield 0, _lead(report)
    if run.problem:
        yield 0, f"Nothing was {done(report)}: {prose(run.problem)}."
    if len(run.benchmarks) > 1:
        yield 1, overview(report)
    for number, benchmark in enumerate(run.benchmarks):
        detail = _benchmark(report, benchmark)
        if number < OPEN:
            yield 2, f"{code(benchmark.name)}\n\n{detail}"
        else:
            yield 5, _folded(_html_code(benchmark.name), detail)
    if run.offer:
        yield 0, "A file to start from:"
        yield 1, fenced(run.offer, "python")
    yield 0, "\n".join(f"- {prose(note)}" for note in run.notes)
    yield from _charts(report)
    yield 3, _folded("Machine, and how to repeat it", environment(report))
    if run.benchmarks and not run.problem:
        yield 7, _folded("Numbers (JSON)", fenced(numbers(report), "json"))
    if address:
        yield 0, f"[Samples, timelines and traces of this run]({address})"


def _headline(report: BenchReport) -> str:
    if report.run.problem:
        return f"### GPU benchmark: nothing was {done(report)}"
    said = f"### GPU benchmark: {report.headline} ({basis(report)})"
    if report.suggestion_headline is not None:
        said += f"; suggestion {report.suggestion_headline}"
    return said


def _lead(report: BenchReport) -> str:
    device = report.run.device
    on = f", on {prose(device.name)}" if device else ""
    said = prose(title(report)) + on
    single = report.run.benchmarks[0] if len(report.run.benchmarks) == 1 else None
    if single is not None:
        reasons = (f"{_pair(each)}: {prose(each.because)}" for each in comparisons(report, single))
        return "\n\n".join([*(f"{each}." for each in reasons), said])
    return said


def _pair(found: Comparison) -> str:
    return f"**{found.verdict}**, {found.variant} against {found.baseline}"


def _html_code(text: str) -> str:
    return f"<code>{markup(text.replace('`', ' '))}</code>"


def _benchmark(report: BenchReport, benchmark: BenchmarkRun) -> str:
    parts = [table(report, benchmark)]
    reasons: list[str] = []
    if len(report.run.benchmarks) > 1:
        reasons += [
            f"- {_pair(each)}: {prose(each.because)}" for each in comparisons(report, benchmark)
        ]
    reasons += [f"- {prose(check)}" for check in checks(benchmark)]
    why = [problem(report, benchmark), *gaps(report, benchmark)]
    reasons += [f"- {prose(each)}" for each in why if each]
    reasons += [f"- {prose(benchmark.log)}"] if benchmark.log else []
    parts.append("\n".join(reasons))
    if drawn := _drawn(benchmark):
        parts.append(fenced(drawn))
    return "\n\n".join(part for part in parts if part)


def _first_passes(benchmark: BenchmarkRun) -> list[TraceSummary]:
    return [each for each in benchmark.traces if each.traced_pass == 0]


def _drawn(benchmark: BenchmarkRun) -> str:
    """The variants' timelines below each other, on one scale where their lanes are known."""
    first = _first_passes(benchmark)
    if first and all(each.lanes for each in first):
        return text_timeline([track_from(each, each.variant.value) for each in first], COLUMNS)
    return "\n\n".join(each.timeline for each in first if each.timeline)


def _charts(report: BenchReport) -> Iterator[Part]:
    for benchmark in report.run.benchmarks[:OPEN]:
        first = [each for each in _first_passes(benchmark) if each.lanes]
        if first:
            chart = mermaid_timeline([track_from(each, each.variant.value) for each in first])
            yield 6, _folded(f"Chart of {_html_code(benchmark.name)}", fenced(chart, "mermaid"))


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
