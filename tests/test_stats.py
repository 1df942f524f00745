"""Rounds, intervals, corrections: the arithmetic under every verdict."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from itertools import pairwise

import pytest

from gpu_runner.records import Clocks, Process, Protocol, Round, Variant
from gpu_runner.stats import (
    Plan,
    holm,
    log_ratios,
    order,
    paired_interval,
    percentile,
    plan_rounds,
    reason_to_stop,
    samples_of,
    spoilt,
)
from gpu_runner.student import quantile, two_sided_p, within

BASE, HEAD, SUGGESTION = Variant.BASE, Variant.HEAD, Variant.SUGGESTION
TWO, THREE = (BASE, HEAD), (BASE, HEAD, SUGGESTION)


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    [  # any printed table of Student's t
        (0.975, 1, 12.7062),
        (0.975, 2, 4.30265),
        (0.975, 3, 3.18245),
        (0.975, 4, 2.77645),
        (0.975, 5, 2.57058),
        (0.975, 9, 2.26216),
        (0.975, 14, 2.14479),
        (0.975, 19, 2.09302),
        (0.975, 30, 2.04227),
        (0.975, 60, 2.00030),
        (0.975, 120, 1.97993),
        (0.995, 1, 63.6567),
        (0.995, 9, 3.24984),
        (0.95, 9, 1.83311),
        (0.95, 10, 1.81246),
        (0.90, 5, 1.47588),
        (0.80, 9, 0.88340),
        (0.80, 19, 0.86095),
        (0.9995, 10, 4.58689),
        (0.5, 7, 0.0),
        (0.025, 9, -2.26216),
    ],
)
def test_the_t_quantile_equals_the_printed_table(
    probability: float, degrees: int, expected: float
) -> None:
    assert quantile(probability, degrees) == pytest.approx(expected, rel=5e-6, abs=1e-9)


def test_for_many_degrees_the_t_quantile_becomes_the_normal_one() -> None:
    assert quantile(0.975, 100_000) == pytest.approx(1.959964, abs=5e-5)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 10, 59])
@pytest.mark.parametrize("probability", [0.51, 0.8, 0.975, 0.99375, 0.9999])
def test_the_quantile_undoes_the_distribution(degrees: int, probability: float) -> None:
    t = quantile(probability, degrees)
    assert two_sided_p(t, degrees) == pytest.approx(2 * (1 - probability), rel=1e-9)
    assert within(t, degrees) + two_sided_p(-t, degrees) == pytest.approx(1.0)


@pytest.mark.parametrize("probability", [0.0, 1.0, -1.0, math.nan])
def test_a_quantile_of_no_probability_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile(probability, 9)


def test_degrees_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        within(1.0, 0)


def test_two_variants_run_in_abba_order() -> None:
    sequence = [variant for number in range(4) for variant in order(TWO, number)]
    assert sequence == [BASE, HEAD, HEAD, BASE] * 2


def test_three_variants_run_in_a_latin_square_and_then_its_reverse() -> None:
    orders = [order(THREE, number) for number in range(6)]
    places = Counter((variant, place) for each in orders for place, variant in enumerate(each))
    assert set(places.values()) == {2}
    followers = Counter(pair for each in orders for pair in pairwise(each))
    assert set(followers.values()) == {2}
    assert orders[3] == orders[0][::-1]


@pytest.mark.parametrize("variants", [TWO, THREE], ids=["two variants", "three variants"])
def test_linear_drift_cancels_over_a_cycle(variants: tuple[Variant, ...]) -> None:
    clock, sums = 0, Counter[Variant]()
    for number in range(6):
        for variant in order(variants, number):
            sums[variant] += clock
            clock += 1
    assert len({sums[variant] for variant in variants}) == 1


@pytest.mark.parametrize(
    ("protocol", "variants", "looks"),
    [
        pytest.param(Protocol(), TWO, (6, 10, 15, 20), id="two variants by default"),
        pytest.param(Protocol(), THREE, (6, 12, 18), id="three variants in whole cycles"),
        pytest.param(Protocol(rounds=8, most_rounds=8), TWO, (8,), id="a fixed number"),
        pytest.param(Protocol(rounds=10, most_rounds=10), THREE, (12,), id="fixed, rounded up"),
        pytest.param(Protocol(rounds=2, most_rounds=2), TWO, (2,), id="the fewest"),
        pytest.param(Protocol(rounds=4, most_rounds=10), TWO, (4, 6, 10), id="a short run"),
    ],
)
def test_the_plan_says_when_to_look(
    protocol: Protocol, variants: tuple[Variant, ...], looks: tuple[int, ...]
) -> None:
    plan = plan_rounds(protocol, variants)
    assert plan.looks == looks
    assert plan.alpha == pytest.approx(0.05 / len(looks))


@pytest.mark.parametrize(
    ("clocks", "reason"),
    [
        pytest.param(None, None, id="unknown clocks"),
        pytest.param(Clocks(1410, 1410), None, id="full speed"),
        pytest.param(Clocks(1100, 1410), None, id="78 % of the default"),
        pytest.param(Clocks(1050, 1410), "74%", id="74 % of the default"),
        pytest.param(Clocks(reasons=0x1), None, id="idle is no throttle"),
        pytest.param(Clocks(reasons=0x4), "power cap", id="power cap"),
        pytest.param(Clocks(reasons=0x28), "thermal", id="two reasons"),
        pytest.param(Clocks(reasons=0x80), "power brake", id="power brake"),
    ],
)
def test_a_throttled_process_is_discarded(clocks: Clocks | None, reason: str | None) -> None:
    found = spoilt(clocks)
    assert (found is None) if reason is None else (found is not None and reason in found)


def _round(number: int, base: tuple[float, ...], head: tuple[float, ...], **kept: str) -> Round:
    return Round(number, (Process(BASE, base), Process(HEAD, head)), **kept)


def test_a_round_yields_the_log_ratio_of_the_medians() -> None:
    rounds = (
        _round(0, (1.0, 2.0, 90.0), (4.0,)),
        _round(1, (1.0,), (7.0,), discarded="throttled"),
        _round(2, (1.0,), ()),
        _round(3, (0.0,), (1.0,)),
    )
    assert log_ratios(rounds, HEAD, BASE) == (math.log(2.0),)
    assert samples_of(rounds, HEAD) == (4.0, 1.0)


def test_the_interval_is_the_textbook_one() -> None:
    ratios = [0.01, 0.03, 0.02, 0.05, 0.04, 0.03]
    interval = paired_interval(ratios)
    assert interval is not None
    error = statistics.stdev(ratios) / math.sqrt(6)
    assert interval.log_ratio == pytest.approx(0.03)
    assert interval.high - 0.03 == pytest.approx(2.57058 * error, rel=1e-5)
    assert 0.03 - interval.low == pytest.approx(2.57058 * error, rel=1e-5)
    detectable = math.exp((2.57058 + 0.91954) * error) - 1
    assert interval.detectable == pytest.approx(detectable, rel=1e-4)
    assert interval.p_value == pytest.approx(two_sided_p(0.03 / error, 5))


def test_several_looks_widen_the_interval() -> None:
    ratios = [0.01, 0.03, 0.02, 0.05, 0.04, 0.03]
    once, often = paired_interval(ratios), paired_interval(ratios, looks=4)
    assert once is not None
    assert often is not None
    assert often.high - often.low > once.high - once.low
    assert often.p_value == pytest.approx(4 * once.p_value)


@pytest.mark.parametrize("ratios", [[], [0.1]])
def test_fewer_than_two_rounds_have_no_interval(ratios: list[float]) -> None:
    assert paired_interval(ratios) is None


@pytest.mark.parametrize(("ratio", "p_value"), [(0.0, 1.0), (0.1, 0.0)])
def test_a_deterministic_backend_has_an_interval_without_width(
    ratio: float, p_value: float
) -> None:
    interval = paired_interval([ratio] * 4)
    assert interval is not None
    assert interval.low == interval.high == ratio
    assert interval.p_value == p_value


@pytest.mark.parametrize(
    ("given", "adjusted"),
    [
        pytest.param((), (), id="nothing"),
        pytest.param((0.03,), (0.03,), id="one benchmark"),
        pytest.param((0.01, 0.04, 0.03, 0.005), (0.03, 0.06, 0.06, 0.02), id="Holm's own order"),
        pytest.param((0.5, 0.6), (1.0, 1.0), id="never above one"),
    ],
)
def test_holm_adjusts_in_the_order_given(
    given: tuple[float, ...], adjusted: tuple[float, ...]
) -> None:
    assert holm(given) == pytest.approx(adjusted)


def _rounds_around(mean: float, spread: float, count: int) -> list[float]:
    """Ratios with exactly that mean, alternating by the spread."""
    return [mean + spread * (1 if n % 2 else -1) for n in range(count)]


ADAPTIVE = Plan((6, 10, 15, 20))


@pytest.mark.parametrize(
    ("rounds", "mean", "spread", "stops"),
    [
        pytest.param(5, 0.5, 0.0, False, id="never before round 6"),
        pytest.param(6, 0.0, 0.005, True, id="half-width below 1 %"),
        pytest.param(6, 0.20, 0.05, True, id="clear of the relevant effect twice over"),
        pytest.param(6, 0.06, 0.02, False, id="significant but not clear"),
        pytest.param(8, 0.5, 0.01, False, id="only at a look"),
        pytest.param(10, 0.06, 0.02, True, id="decided at the planned number"),
        pytest.param(10, 0.01, 0.05, False, id="ambiguous: extend"),
        pytest.param(15, 0.001, 0.018, True, id="equivalent at a late look"),
        pytest.param(20, 0.01, 0.3, True, id="the last round ends it anyway"),
    ],
)
def test_measuring_stops_when_more_rounds_would_not_change_the_answer(
    rounds: int, mean: float, spread: float, stops: bool
) -> None:
    interval = paired_interval(_rounds_around(mean, spread, rounds), looks=4)
    assert (reason_to_stop(ADAPTIVE, rounds, [interval], 0.02) is not None) is stops


def test_one_unsettled_comparison_keeps_the_benchmark_going() -> None:
    settled = paired_interval(_rounds_around(0.2, 0.01, 6), looks=4)
    open_still = paired_interval(_rounds_around(0.0, 0.2, 6), looks=4)
    assert reason_to_stop(ADAPTIVE, 6, [settled, settled], 0.02)
    assert reason_to_stop(ADAPTIVE, 6, [settled, open_still], 0.02) is None
    assert reason_to_stop(ADAPTIVE, 6, [settled, None], 0.02) is None
    assert reason_to_stop(ADAPTIVE, 6, [], 0.02) is None


def test_percentiles_agree_with_the_library_of_the_language() -> None:
    generator = random.Random(4)
    samples = [generator.random() for _ in range(101)]
    cuts = statistics.quantiles(samples, n=10, method="inclusive")
    assert percentile(samples, 0.9) == pytest.approx(cuts[8])
    assert percentile(samples, 0.5) == pytest.approx(statistics.median(samples))
    assert percentile([3.0], 0.9) == 3.0
