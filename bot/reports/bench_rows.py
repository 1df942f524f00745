"""What the forms of a benchmark report have in common: its words, numbers and units."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpu_runner.models import BenchmarkRun, BenchReport, Comparison, Overlap
from gpu_runner.records import Variant, Verdict

MARKS = {
    Verdict.FASTER: "▲",
    Verdict.SLOWER: "▼",
    Verdict.WRONG_RESULT: "✗",
    Verdict.SUSPICIOUS: "?",
}


def title(report: BenchReport) -> str:
    """What was compared."""
    run = report.run
    ends = f"base {run.request.base[:10]}, head {run.request.head[:10]}"
    more = ", suggestion" if Variant.SUGGESTION in run.request.variants else ""
    basis = "" if run.problem else f", {report.basis}"
    return f"Hostside benchmark{basis}: {ends}{more}"


def done(report: BenchReport) -> str:
    """The word for where the numbers come from."""
    return "modelled" if report.basis == "modelled" else "measured"


def basis(report: BenchReport) -> str:
    """What its numbers are, in words; those of a CPU say nothing about a GPU."""
    on_cpu = report.basis == "measured" and not report.run.overlap_measured
    return "measured on a CPU" if on_cpu else report.basis


def machine(report: BenchReport) -> Iterator[str]:
    """Where it ran, and what the trees have to say."""
    run, around = report.run, report.run.environment
    name = run.device.name if run.device else "no device record"
    yield f"{name}; Python {around.python}; sandbox {around.sandbox}; {run.seconds:.0f} s"
    for build in run.builds:
        if build.problem:
            yield f"{build.variant}: {build.problem}"
        if build.lock_differs:
            yield f"{build.variant} pins other versions than base; all ran in one environment"


def comparisons(report: BenchReport, benchmark: BenchmarkRun) -> list[Comparison]:
    """What is said about one benchmark."""
    return [each for each in report.comparisons if each.benchmark == benchmark.name]


def overlaps(report: BenchReport, benchmark: BenchmarkRun) -> list[Overlap]:
    """Its overlaps."""
    return [each for each in report.overlaps if each.benchmark == benchmark.name]


def problem(report: BenchReport, benchmark: BenchmarkRun) -> str:
    """Why it has no numbers, where no verdict says so already."""
    said = {each.because for each in comparisons(report, benchmark)}
    return benchmark.problem if benchmark.problem and benchmark.problem not in said else ""


def gaps(report: BenchReport, benchmark: BenchmarkRun) -> Iterator[str]:
    """Why an overlap that one would expect is not given."""
    for each in overlaps(report, benchmark):
        if each.verdict is not None:
            yield f"{each.variant}: {each.because}"


def checks(benchmark: BenchmarkRun) -> Iterator[str]:
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


def duration(nanoseconds: float) -> str:
    """A time with three significant digits and the unit that suits it."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def change(found: Comparison) -> str:
    """The change in time per call; in brackets while it proves nothing."""
    if found.interval is None or found.verdict is Verdict.WRONG_RESULT:
        return str(found.verdict)
    low, high = (math.expm1(end) * 100 for end in (found.interval.low, found.interval.high))
    if found.verdict in (Verdict.FASTER, Verdict.SLOWER):
        return f"{math.expm1(found.interval.log_ratio) * 100:+.1f} % ({low:+.1f} to {high:+.1f})"
    return f"{found.verdict} ({low:+.1f} to {high:+.1f} %)"


def share(found: Overlap) -> str:
    """Copy/compute overlap with what is possible."""
    if found.low_percent is None or found.ceiling_high_percent is None:
        return "–" if found.verdict is None else str(found.verdict)
    return f"{found.low_percent:.1f} % of a possible {found.ceiling_high_percent:.1f} %"
