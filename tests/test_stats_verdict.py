"""Which verdict samples lead to, and that nothing about speed is said where it must not be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.models import BenchmarkRun, BenchReport, BenchRequest, BenchRun, Comparison
from gpu_runner.records import (
    Backend,
    Correctness,
    Device,
    Environment,
    Process,
    Protocol,
    Round,
    TraceSummary,
    Variant,
    Verdict,
)
from gpu_runner.verdict import compare, overlap_of, report

BASE, HEAD, SUGGESTION = Variant.BASE, Variant.HEAD, Variant.SUGGESTION
FIXED = Protocol(rounds=10, most_rounds=10)


def benchmark(
    head: float, spread: float = 0.005, base: float = 1e6, rounds: int = 10
) -> BenchmarkRun:
    """A benchmark whose head takes `head` times the base's time, give or take the spread."""
    return BenchmarkRun(
        "gpu_bench/a.py::bench_a",
        "gpu_bench",
        correctness=(Correctness(BASE, True), Correctness(HEAD, True)),
        rounds=tuple(
            Round(
                number,
                (
                    Process(BASE, (base,) * 3),
                    Process(HEAD, (base * head * (1 + spread * (1 if number % 2 else -1)),) * 3),
                ),
            )
            for number in range(rounds)
        ),
    )


def verdict(one: BenchmarkRun, protocol: Protocol = FIXED) -> Comparison:
    return compare(one, HEAD, BASE, protocol)


@pytest.mark.parametrize(
    ("one", "expected", "said"),
    [
        pytest.param(benchmark(0.9), Verdict.FASTER, "-10.0 %", id="10 % less time"),
        pytest.param(benchmark(1.1), Verdict.SLOWER, "+10.0 %", id="10 % more time"),
        pytest.param(
            benchmark(1.0), Verdict.NO_MEASURABLE_DIFFERENCE, "2.0%", id="the same, narrowly known"
        ),
        pytest.param(
            benchmark(0.99, 0.002),
            Verdict.NO_MEASURABLE_DIFFERENCE,
            "wholly within",
            id="a real difference that is too small to matter",
        ),
        pytest.param(
            benchmark(1.0, 0.1), Verdict.INCONCLUSIVE, "could not have been seen", id="noise"
        ),
        pytest.param(
            benchmark(0.982, 0.012), Verdict.INCONCLUSIVE, "difference is likely", id="borderline"
        ),
        pytest.param(benchmark(0.05), Verdict.SUSPICIOUS, "20 times", id="20 times faster"),
        pytest.param(
            benchmark(20.0), Verdict.SLOWER, "+1900.0 %", id="20 times slower is believed"
        ),
        pytest.param(benchmark(0.9, rounds=1), Verdict.INCONCLUSIVE, "two rounds", id="one round"),
        pytest.param(benchmark(0.0), Verdict.SUSPICIOUS, "no time", id="no time at all"),
        pytest.param(
            replace(benchmark(0.9), least_ns=0.96e6),
            Verdict.SUSPICIOUS,
            "bandwidth",
            id="faster than the link allows",
        ),
        pytest.param(
            replace(benchmark(0.9), least_ns=0.93e6),
            Verdict.FASTER,
            "-10.0 %",
            id="within the error of the measured limit",
        ),
        pytest.param(
            replace(benchmark(0.9), alarms=("the child's clock ran ahead of the parent's",)),
            Verdict.SUSPICIOUS,
            "clock",
            id="an alarm raised while measuring",
        ),
        pytest.param(
            replace(benchmark(0.9), problem="killed after 120 s"),
            Verdict.INCONCLUSIVE,
            "120 s",
            id="a benchmark that failed",
        ),
    ],
)
def test_samples_lead_to_the_verdict(one: BenchmarkRun, expected: Verdict, said: str) -> None:
    found = verdict(one)
    assert found.verdict == expected
    assert said in found.because


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        pytest.param(
            (
                Correctness(BASE, True),
                Correctness(HEAD, False, reason="NaN where the base has 1.0"),
            ),
            Verdict.WRONG_RESULT,
            id="the head is wrong",
        ),
        pytest.param(
            (Correctness(BASE, False), Correctness(HEAD, True)),
            Verdict.WRONG_RESULT,
            id="the base contradicts itself",
        ),
        pytest.param((), Verdict.INCONCLUSIVE, id="nobody checked"),
    ],
)
def test_without_equal_results_no_speed_is_given(
    checks: tuple[Correctness, ...], expected: Verdict
) -> None:
    found = verdict(replace(benchmark(0.5), correctness=checks))
    assert found.verdict == expected
    assert found.interval is None
    assert found.latencies == ()


def test_an_adaptive_plan_asks_for_more_certainty() -> None:
    # alternating by the spread: significant at 95 % in one look, not at 98.75 % in one of four
    borderline = benchmark(1.0325, 0.04)
    assert verdict(borderline).verdict == Verdict.SLOWER
    assert verdict(borderline, Protocol()).verdict == Verdict.INCONCLUSIVE


def _run(*benchmarks: BenchmarkRun, protocol: Protocol = FIXED) -> BenchRun:
    named = tuple(replace(each, name=f"bench_{n}") for n, each in enumerate(benchmarks))
    return BenchRun(
        BenchRequest("owner/name", "a" * 40, "b" * 40, protocol=protocol),
        Backend.CUDA,
        "2026-11-30T12:00:00Z",
        60.0,
        Environment("3.11", "Linux"),
        Device("cuda", "NVIDIA H200"),
        benchmarks=named,
    )


WRONG = replace(benchmark(0.9), correctness=(Correctness(HEAD, False),))


@pytest.mark.parametrize(
    ("benchmarks", "expected"),
    [
        pytest.param((), Verdict.INCONCLUSIVE, id="nothing ran"),
        pytest.param((benchmark(0.9),), Verdict.FASTER, id="one faster"),
        pytest.param((benchmark(0.9), benchmark(1.0)), Verdict.FASTER, id="one faster, one same"),
        pytest.param((benchmark(0.9), benchmark(1.1)), Verdict.SLOWER, id="one of each"),
        pytest.param((benchmark(1.1), benchmark(0.01)), Verdict.SUSPICIOUS, id="too good"),
        pytest.param((benchmark(1.1), WRONG), Verdict.WRONG_RESULT, id="one wrong"),
        pytest.param(
            (benchmark(1.0), benchmark(1.0)), Verdict.NO_MEASURABLE_DIFFERENCE, id="all the same"
        ),
        pytest.param(
            (benchmark(1.0), benchmark(1.0, 0.1)), Verdict.INCONCLUSIVE, id="one not known"
        ),
    ],
)
def test_the_headline_names_the_gravest_finding(
    benchmarks: tuple[BenchmarkRun, ...], expected: Verdict
) -> None:
    assert report(_run(*benchmarks)).headline == expected


def test_one_faint_difference_among_many_benchmarks_makes_no_headline() -> None:
    faint = benchmark(1.0325, 0.04)  # p is about 0.04 by itself
    alone = report(_run(faint))
    assert alone.headline == Verdict.SLOWER
    among_many = report(_run(faint, *(benchmark(1.0, 0.1) for _ in range(9))))
    assert among_many.comparisons[0].verdict == Verdict.SLOWER
    assert among_many.comparisons[0].adjusted_p == pytest.approx(
        10 * (alone.comparisons[0].adjusted_p or 0.0)
    )
    assert among_many.headline == Verdict.INCONCLUSIVE
    assert "10 INCONCLUSIVE" in among_many.summary
    assert "one of 10 benchmarks may look so by chance" in among_many.comparisons[0].because
    assert "by chance" not in alone.comparisons[0].because


def test_the_suggestion_is_held_against_base_and_head() -> None:
    two = benchmark(1.0)
    three = replace(
        two,
        variants=(BASE, HEAD, SUGGESTION),
        correctness=(*two.correctness, Correctness(SUGGESTION, True)),
        rounds=tuple(
            replace(each, processes=(*each.processes, Process(SUGGESTION, (8e5,))))
            for each in two.rounds
        ),
    )
    whole = report(_run(three))
    found = {(each.variant, each.baseline): each.verdict for each in whole.comparisons}
    assert found == {
        (HEAD, BASE): Verdict.NO_MEASURABLE_DIFFERENCE,
        (SUGGESTION, BASE): Verdict.FASTER,
        (SUGGESTION, HEAD): Verdict.FASTER,
    }
    assert whole.headline == Verdict.NO_MEASURABLE_DIFFERENCE
    assert whole.suggestion_headline == Verdict.FASTER
    assert whole.comparison("bench_0", HEAD) == whole.comparisons[0]
    assert BenchReport.from_json(whole.to_json()) == whole


def test_without_a_device_record_the_summary_does_not_say_measured() -> None:
    assert report(_run(benchmark(0.9))).summary.startswith("measured;")
    lost = report(replace(_run(benchmark(0.9)), device=None))
    assert lost.summary.startswith("unattested;")


def _trace(traced_pass: int, overlap: float | None, ceiling: float | None) -> TraceSummary:
    return TraceSummary(
        variant=HEAD,
        traced_pass=traced_pass,
        region_us=4600.0,
        kernel_busy_us=202.0,
        h2d_busy_us=4000.0,
        d2h_busy_us=4000.0,
        copy_busy_us=4560.0,
        kernel_copy_overlap_us=200.0,
        exposed_copy_us=4360.0,
        gpu_idle_us=40.0,
        no_kernel_us=4398.0,
        host_sync_us=100.0,
        host_sync_stall_us=1.0,
        overlap_percent=overlap,
        overlap_ceiling_percent=ceiling,
        coverage=1.0,
    )


def test_overlap_is_given_as_a_range_with_its_ceiling() -> None:
    traced = replace(benchmark(0.9), traces=(_trace(0, 4.2, 4.4), _trace(1, 4.4, 4.45)))
    found = overlap_of(traced, HEAD)
    assert found.verdict is None
    assert (found.low_percent, found.high_percent) == (4.2, 4.4)
    assert found.because == "overlap 4.2 to 4.4 % of a possible 4.5 %"
    assert [each.variant for each in report(_run(traced)).overlaps] == [HEAD]


@pytest.mark.parametrize(
    ("traces", "said"),
    [
        pytest.param((), "no pass", id="no trace"),
        pytest.param((replace(_trace(0, 4.2, 4.4), coverage=0.99),), "1.0%", id="records dropped"),
        pytest.param(
            (_trace(0, 4.2, 4.4), replace(_trace(1, 4.2, 4.4), coverage=None, complete=False)),
            "some of the launches",
            id="one pass incomplete",
        ),
    ],
)
def test_an_incomplete_trace_gives_no_overlap(traces: tuple[TraceSummary, ...], said: str) -> None:
    found = overlap_of(replace(benchmark(0.9), traces=traces), HEAD)
    assert found.verdict == Verdict.INCOMPLETE_TRACE
    assert found.low_percent is None
    assert said in found.because


def test_a_trace_without_copies_is_complete_and_has_no_overlap() -> None:
    found = overlap_of(replace(benchmark(0.9), traces=(_trace(0, None, None),)), HEAD)
    assert found.verdict is None
    assert found.low_percent is None
    assert "nothing to overlap" in found.because
