"""A benchmark report as a person reads it: text for the terminal, Markdown for a pull request.

Every string in it may come from the code that was measured, so Markdown goes through `neutral`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bot.neutral import code, fenced, prose
from gpu_runner.models import BenchmarkRun, BenchReport, Comparison, Overlap
from gpu_runner.records import Variant, Verdict

INDENT = "    "
MARKS = {
    Verdict.FASTER: "▲",
    Verdict.SLOWER: "▼",
    Verdict.WRONG_RESULT: "✗",
    Verdict.SUSPICIOUS: "?",
}


def text(report: BenchReport) -> str:
    """The whole report for a terminal."""
    lines = [_title(report), *_machine(report)]
    if report.run.problem:
        lines += ["", f"Nothing was {_done(report)}: {report.run.problem}."]
    for benchmark in report.run.benchmarks:
        lines += ["", benchmark.name, *_benchmark(report, benchmark)]
    if report.run.offer:
        lines += ["", "A file to start from:", "", report.run.offer.rstrip()]
    lines += ["", *report.run.notes] if report.run.notes else []
    lines += [] if report.run.problem else ["", report.summary]
    return "\n".join(lines) + "\n"


def _title(report: BenchReport) -> str:
    run = report.run
    ends = f"base {run.request.base[:10]}, head {run.request.head[:10]}"
    more = ", suggestion" if Variant.SUGGESTION in run.request.variants else ""
    basis = "" if run.problem else f", {report.basis}"
    return f"Hostside benchmark{basis}: {ends}{more}"


def _done(report: BenchReport) -> str:
    return "modelled" if report.basis == "modelled" else "measured"


def _machine(report: BenchReport) -> Iterator[str]:
    run, around = report.run, report.run.environment
    name = run.device.name if run.device else "no device record"
    yield f"{name}; Python {around.python}; sandbox {around.sandbox}; {run.seconds:.0f} s"
    for build in run.builds:
        if build.problem:
            yield f"{build.variant}: {build.problem}"
        if build.lock_differs:
            yield f"{build.variant} pins other versions than base; all ran in one environment"


def _benchmark(report: BenchReport, benchmark: BenchmarkRun) -> Iterator[str]:
    for found in _comparisons(report, benchmark):
        yield f"  {found.verdict:24s} {found.variant} against {found.baseline}"
        yield f"{INDENT}{found.because}"
        if found.latencies:
            yield INDENT + "; ".join(
                f"{each.variant} {duration(each.p50_ns)} (p90 {duration(each.p90_ns)})"
                for each in found.latencies
            )
    for check in _checks(benchmark):
        yield INDENT + check
    for overlap in _overlaps(report, benchmark):
        yield f"{INDENT}{overlap.variant}: {overlap.because}"
    for trace in benchmark.traces:
        if trace.timeline and trace.traced_pass == 0:
            yield trace.timeline
    if benchmark.log:
        yield INDENT + benchmark.log


def _comparisons(report: BenchReport, benchmark: BenchmarkRun) -> list[Comparison]:
    return [each for each in report.comparisons if each.benchmark == benchmark.name]


def _overlaps(report: BenchReport, benchmark: BenchmarkRun) -> list[Overlap]:
    return [each for each in report.overlaps if each.benchmark == benchmark.name]


def _checks(benchmark: BenchmarkRun) -> Iterator[str]:
    """How equal the outputs were, in a line."""
    unchecked = [each.reason for each in benchmark.correctness if each.passed and each.reason]
    if unchecked:
        yield unchecked[0]
    elif benchmark.correct:
        seeds = len(benchmark.correctness[0].seeds)
        also = " and in every round" if benchmark.correctness[0].checked_after_timing else ""
        largest = max((each.largest_relative or 0.0 for each in benchmark.correctness), default=0.0)
        exact = "equal" if largest == 0 else f"equal within {largest:.1g} (relative)"
        yield f"outputs {exact} on {seeds} secret inputs{also}"
    for each in benchmark.correctness:
        if each.inputs_changed:
            yield f"{each.variant} changes its inputs: {', '.join(each.inputs_changed)}"


def markdown(report: BenchReport) -> str:
    """The whole report for a pull request."""
    run = report.run
    parts = [_headline(report), prose(_title(report))]
    if run.problem:
        parts.append(f"Nothing was {_done(report)}: {prose(run.problem)}.")
    if run.benchmarks:
        parts.append(_table(report))
    for benchmark in run.benchmarks:
        reasons = [
            f"- {_pair(each)}: {prose(each.because)}" for each in _comparisons(report, benchmark)
        ]
        reasons += [f"- {prose(check)}" for check in _checks(benchmark)]
        reasons += [f"- {prose(benchmark.log)}"] if benchmark.log else []
        parts.append(f"{code(benchmark.name)}\n" + "\n".join(reasons))
    drawn = [
        t.timeline for b in run.benchmarks for t in b.traces if t.timeline and not t.traced_pass
    ]
    if drawn:
        parts.append(_folded("Timelines", fenced("\n\n".join(drawn))))
    if run.offer:
        parts += ["A file to start from:", fenced(run.offer, "python")]
    parts += [prose(note) for note in run.notes]
    parts.append(_folded("Machine", "\n".join(f"- {prose(line)}" for line in _machine(report))))
    return "\n\n".join(parts) + "\n"


def _headline(report: BenchReport) -> str:
    if report.run.problem:
        return f"### GPU benchmark: nothing was {_done(report)}"
    return f"### GPU benchmark: {report.headline} ({report.basis})"


def _pair(found: Comparison) -> str:
    return f"**{found.verdict}**, {found.variant} against {found.baseline}"


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _table(report: BenchReport) -> str:
    rows = [
        "| benchmark | variant | before | after | change | overlap |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for benchmark in report.run.benchmarks:
        shares = {each.variant: _share(each) for each in _overlaps(report, benchmark)}
        for found in _comparisons(report, benchmark):
            times = {each.variant: duration(each.p50_ns) for each in found.latencies}
            mark = MARKS.get(found.verdict, "")
            cells = (
                code(benchmark.name).replace("|", "\\|"),
                f"{found.variant} / {found.baseline}",
                times.get(found.baseline, "–"),
                times.get(found.variant, "–"),
                f"{mark} {_change(found)}".strip(),
                shares.get(found.variant, "–"),
            )
            rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _change(found: Comparison) -> str:
    """The change in time per call; in brackets while it proves nothing."""
    if found.interval is None or found.verdict is Verdict.WRONG_RESULT:
        return str(found.verdict)
    low, high = (math.expm1(end) * 100 for end in (found.interval.low, found.interval.high))
    if found.verdict in (Verdict.FASTER, Verdict.SLOWER):
        return f"{math.expm1(found.interval.log_ratio) * 100:+.1f} % ({low:+.1f} to {high:+.1f})"
    return f"{found.verdict} ({low:+.1f} to {high:+.1f} %)"


def _share(found: Overlap) -> str:
    if found.low_percent is None or found.ceiling_high_percent is None:
        return "–" if found.verdict is None else str(found.verdict)
    return f"{found.low_percent:.1f} % of a possible {found.ceiling_high_percent:.1f} %"


def duration(nanoseconds: float) -> str:
    """A time with three significant digits and the unit that suits it."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"
