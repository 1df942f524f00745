"""From samples to sentences: what may be said about each variant, and what may not.

Nothing about speed is said before the outputs are known to be equal, nothing inconclusive is
dressed up as a result, and a speed-up that is too good is sent back to be checked by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gpu_runner.models import (
    BenchmarkRun,
    BenchReport,
    BenchRun,
    Comparison,
    Interval,
    Latency,
    Overlap,
)
from gpu_runner.records import Protocol, TraceSummary, Variant, Verdict
from gpu_runner.rounds import PAIRS
from gpu_runner.stats import (
    ALPHA,
    holm,
    log_ratios,
    paired_interval,
    percentile,
    plan_rounds,
    samples_of,
    within_effect,
)

TOO_FAST = 10.0  # a larger speed-up than this is checked by hand
OVER_LIMIT = 1.05  # how far a measured bandwidth limit may seem to be exceeded
COMPLETE = 0.995  # share of launches that must have their GPU event


def report(run: BenchRun) -> BenchReport:
    """The run with every comparison drawn, p-values adjusted, and the headlines."""
    protocol = run.request.protocol
    found: list[Comparison] = []
    for variant, baseline in PAIRS:
        family = [
            compare(each, variant, baseline, protocol)
            for each in run.benchmarks
            if {variant, baseline}.issubset(each.variants)
        ]
        found += _adjusted(family)
    proposed = _pair(found, Variant.HEAD, Variant.BASE)
    suggested = _pair(found, Variant.SUGGESTION, Variant.HEAD)
    return BenchReport(
        run=run,
        comparisons=tuple(found),
        overlaps=tuple(
            overlap_of(each, variant)
            for each in run.benchmarks
            for variant in each.variants
            if any(trace.variant == variant for trace in each.traces)
        ),
        headline=headline(proposed),
        suggestion_headline=headline(suggested) if suggested else None,
        summary=_summary(run, proposed, suggested),
    )


def _pair(
    comparisons: Sequence[Comparison], variant: Variant, baseline: Variant
) -> list[Comparison]:
    return [each for each in comparisons if (each.variant, each.baseline) == (variant, baseline)]


def compare(
    benchmark: BenchmarkRun, variant: Variant, baseline: Variant, protocol: Protocol
) -> Comparison:
    """What may be said about `variant` against `baseline` in this benchmark."""
    blank = Comparison(benchmark.name, variant, baseline, Verdict.INCONCLUSIVE, "not measured")
    wrong = _wrong_result(benchmark, (variant, baseline))
    if wrong:
        return replace(blank, verdict=Verdict.WRONG_RESULT, because=wrong)
    problem = benchmark.problem or _unchecked(benchmark, (variant, baseline))
    if problem:
        return replace(blank, because=problem)
    looks = len(plan_rounds(protocol, benchmark.variants).looks)
    interval = paired_interval(log_ratios(benchmark.rounds, variant, baseline), looks)
    latencies = tuple(
        each for each in (_latency(benchmark, v) for v in (baseline, variant)) if each is not None
    )
    shown = replace(blank, interval=interval, latencies=latencies)
    alarm = _alarm(benchmark, interval, latencies)
    if alarm:
        return replace(shown, verdict=Verdict.SUSPICIOUS, because=alarm)
    if interval is None:
        return replace(shown, because="fewer than two rounds could be used; measure again")
    verdict, because = judge(interval, protocol.relevant_effect)
    if benchmark.source == "model":
        because = f"modelled: {because}"
    return replace(shown, verdict=verdict, because=because)


def judge(interval: Interval, relevant_effect: float) -> tuple[Verdict, str]:
    """Verdict on an interval of equal results, and the sentence that carries it."""
    said = describe(interval)
    excludes_zero = interval.low > 0 or interval.high < 0
    if excludes_zero and abs(interval.log_ratio) > math.log1p(relevant_effect):
        return (Verdict.SLOWER if interval.log_ratio > 0 else Verdict.FASTER), said
    if within_effect(interval, relevant_effect):
        return (
            Verdict.NO_MEASURABLE_DIFFERENCE,
            f"{said}; wholly within the relevant effect of {relevant_effect:.1%}",
        )
    if excludes_zero:
        return (
            Verdict.INCONCLUSIVE,
            f"{said}; a difference is likely, but not one of {relevant_effect:.1%} or more",
        )
    return (
        Verdict.INCONCLUSIVE,
        f"{said}; no significant difference, and less than {interval.detectable:.1%} "
        "could not have been seen",
    )


def describe(interval: Interval) -> str:
    """The change in time per call with its interval, in percent."""
    change, low, high = (
        math.expm1(value) * 100 for value in (interval.log_ratio, interval.low, interval.high)
    )
    return (
        f"time per call {change:+.1f} % ({interval.confidence:.0%} interval "
        f"{low:+.1f} to {high:+.1f} %, {interval.rounds} rounds)"
    )


def headline(comparisons: Sequence[Comparison]) -> Verdict:
    """One verdict for several benchmarks: alarms first, then what survives Holm's correction."""
    verdicts = [_surviving(each) for each in comparisons]
    for verdict in (Verdict.WRONG_RESULT, Verdict.SUSPICIOUS, Verdict.SLOWER, Verdict.FASTER):
        if verdict in verdicts:
            return verdict
    if verdicts and all(each == Verdict.NO_MEASURABLE_DIFFERENCE for each in verdicts):
        return Verdict.NO_MEASURABLE_DIFFERENCE
    return Verdict.INCONCLUSIVE


def _surviving(comparison: Comparison) -> Verdict:
    decided = comparison.verdict in (Verdict.FASTER, Verdict.SLOWER)
    if decided and (comparison.adjusted_p is None or comparison.adjusted_p > ALPHA):
        return Verdict.INCONCLUSIVE
    return comparison.verdict


def _adjusted(family: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of one pair of variants with Holm's p-values over all benchmarks."""
    tested = [each for each in family if each.interval is not None]
    p_values = iter(holm([each.interval.p_value for each in tested if each.interval is not None]))
    adjusted = [
        each if each.interval is None else replace(each, adjusted_p=next(p_values))
        for each in family
    ]
    return [_in_company(each, len(tested)) for each in adjusted]


def _in_company(comparison: Comparison, tested: int) -> Comparison:
    """The comparison; it says so where its verdict would not count among all of them."""
    if _surviving(comparison) is comparison.verdict:
        return comparison
    return replace(
        comparison,
        because=f"{comparison.because}; by itself, but one of {tested} benchmarks may look so by "
        "chance, and the headline leaves it out (Holm's correction)",
    )


def _wrong_result(benchmark: BenchmarkRun, variants: Sequence[Variant]) -> str | None:
    for each in benchmark.correctness:
        if each.variant in variants and not each.passed:
            return f"{each.variant}: {each.reason or 'the outputs differ from the base'}"
    return None


def _unchecked(benchmark: BenchmarkRun, variants: Sequence[Variant]) -> str | None:
    if benchmark.source == "model":
        return None  # a model has times but no outputs; what it says is labelled as modelled
    checked = {each.variant for each in benchmark.correctness}
    for variant in variants:
        if variant not in checked and variant != Variant.BASE:
            return f"{variant}: the outputs were not checked, so no speed is given"
    return None


def _alarm(
    benchmark: BenchmarkRun, interval: Interval | None, latencies: Sequence[Latency]
) -> str | None:
    if benchmark.alarms:
        return benchmark.alarms[0]
    for each in latencies:
        if each.p50_ns <= 0:
            return f"{each.variant}: half of the calls took no time at all; verify by hand"
        if benchmark.least_ns and each.p50_ns * OVER_LIMIT < benchmark.least_ns:
            return (
                f"{each.variant}: {each.p50_ns / 1e6:.3f} ms per call is less than the data need "
                f"at the measured bandwidth ({benchmark.least_ns / 1e6:.3f} ms); verify by hand"
            )
    if interval is not None and -interval.log_ratio > math.log(TOO_FAST):
        return (
            f"{math.exp(-interval.log_ratio):.0f} times faster is hard to believe; verify by hand"
        )
    return None


def _latency(benchmark: BenchmarkRun, variant: Variant) -> Latency | None:
    samples = samples_of(benchmark.rounds, variant)
    if not samples:
        return None
    return Latency(variant, percentile(samples, 0.5), percentile(samples, 0.9), len(samples))


def overlap_of(benchmark: BenchmarkRun, variant: Variant) -> Overlap:
    """The variant's overlap and its ceiling over all traced passes, or why there is none."""
    traces = [each for each in benchmark.traces if each.variant == variant]
    blank = Overlap(benchmark.name, variant, "no copy was traced: there is nothing to overlap")
    short = [each for each in traces if not _complete(each)]
    if short or not traces:
        return replace(blank, verdict=Verdict.INCOMPLETE_TRACE, because=_gap(short))
    shares = [each.overlap_percent for each in traces if each.overlap_percent is not None]
    ceilings = [
        each.overlap_ceiling_percent for each in traces if each.overlap_ceiling_percent is not None
    ]
    if not shares or not ceilings:
        return blank
    low, high, top = min(shares), max(shares), max(ceilings)
    span = f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"
    return replace(
        blank,
        because=f"overlap {span} % of a possible {top:.1f} %",
        low_percent=low,
        high_percent=high,
        ceiling_low_percent=min(ceilings),
        ceiling_high_percent=top,
    )


def _complete(trace: TraceSummary) -> bool:
    return trace.complete and (trace.coverage is None or trace.coverage >= COMPLETE)


def _gap(short: Sequence[TraceSummary]) -> str:
    if not short:
        return "no pass was traced, so no overlap is given"
    seen = min((each.coverage for each in short if each.coverage is not None), default=None)
    share = "some" if seen is None else f"{1 - seen:.1%}"
    return f"{share} of the launches have no GPU event in the trace, so no overlap is given"


def _summary(run: BenchRun, proposed: list[Comparison], suggested: list[Comparison]) -> str:
    if not proposed:
        return run.problem or "no benchmark was run"
    said = f"{run.basis}; head against base: {_count(proposed)}"
    return f"{said}; suggestion against head: {_count(suggested)}" if suggested else said


def _count(comparisons: Sequence[Comparison]) -> str:
    verdicts = [_surviving(each) for each in comparisons]
    return ", ".join(f"{verdicts.count(each)} {each}" for each in Verdict if each in verdicts)
