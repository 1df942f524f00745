"""How often the verdicts are wrong: simulated processes with known effects, drift and noise.

A process has a speed of its own (between-process spread), its samples scatter around it and a few
are slow; the machine drifts over the run. Seeds are fixed, so each figure is the same on each run.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass

import pytest

from gpu_runner.models import BenchmarkRun, BenchRequest, BenchRun, Comparison
from gpu_runner.records import (
    Backend,
    Correctness,
    Environment,
    Process,
    Protocol,
    Round,
    Variant,
    Verdict,
)
from gpu_runner.stats import log_ratios, order, paired_interval, plan_rounds, reason_to_stop
from gpu_runner.verdict import compare, report

BASE, HEAD = Variant.BASE, Variant.HEAD
ADAPTIVE = Protocol()


@dataclass(frozen=True)
class Machine:
    """A simulated machine: relative spreads, and drift over twenty rounds."""

    effect: float = 0.0
    between: float = 0.01
    within: float = 0.02
    drift: float = 0.05
    samples: int = 9

    def process(self, variant: Variant, start: int, generator: random.Random) -> Process:
        factor = 1 + self.effect if variant == HEAD else 1.0
        speed = factor * math.exp(generator.gauss(0, self.between)) * (1 + self.drift * start / 40)
        samples = tuple(
            1e6
            * speed
            * (1 + generator.gauss(0, self.within))
            * (1.5 if generator.random() < 0.03 else 1.0)
            for _ in range(self.samples)
        )
        return Process(variant, samples)

    def rounds(self, count: int, generator: random.Random) -> tuple[Round, ...]:
        return tuple(
            Round(
                number,
                tuple(
                    self.process(variant, 2 * number + place, generator)
                    for place, variant in enumerate(order((BASE, HEAD), number))
                ),
            )
            for number in range(count)
        )


def _benchmark(rounds: tuple[Round, ...], name: str = "bench_a") -> BenchmarkRun:
    checks = (Correctness(BASE, True), Correctness(HEAD, True))
    return BenchmarkRun(name, "gpu_bench", correctness=checks, rounds=rounds)


def _measure(machine: Machine, protocol: Protocol, generator: random.Random) -> Comparison:
    """What the adaptive protocol ends up saying, stopping as the runner would."""
    plan = plan_rounds(protocol, (BASE, HEAD))
    every = machine.rounds(plan.looks[-1], generator)
    for look in plan.looks:
        interval = paired_interval(log_ratios(every[:look], HEAD, BASE), len(plan.looks))
        if reason_to_stop(plan, look, [interval], protocol.relevant_effect):
            return compare(_benchmark(every[:look]), HEAD, BASE, protocol)
    raise AssertionError("the plan has no end")


def _verdicts(machine: Machine, protocol: Protocol, runs: int, seed: int) -> dict[Verdict, float]:
    generator = random.Random(seed)
    counts = Counter(_measure(machine, protocol, generator).verdict for _ in range(runs))
    return {verdict: counts[verdict] / runs for verdict in Verdict}


def fixed(rounds: int, relevant_effect: float = 0.02) -> Protocol:
    return Protocol(rounds=rounds, most_rounds=rounds, relevant_effect=relevant_effect)


@pytest.mark.parametrize(
    ("machine", "protocol"),
    [
        pytest.param(Machine(), fixed(10), id="10 rounds, 1 % spread, 5 % drift"),
        pytest.param(Machine(), fixed(10, 0.0), id="every difference counts as relevant"),
        pytest.param(Machine(), ADAPTIVE, id="looking up to four times"),
        pytest.param(Machine(drift=0.2), fixed(10, 0.0), id="20 % drift", marks=pytest.mark.slow),
        pytest.param(
            Machine(between=0.05), fixed(6), id="6 rounds, 5 % spread", marks=pytest.mark.slow
        ),
        pytest.param(
            Machine(between=0.15), fixed(10), id="busy, 15 % spread", marks=pytest.mark.slow
        ),
        pytest.param(
            Machine(between=0.05), ADAPTIVE, id="looking often, 5 % spread", marks=pytest.mark.slow
        ),
        pytest.param(
            Machine(between=0.15), ADAPTIVE, id="looking often, 15 % spread", marks=pytest.mark.slow
        ),
    ],
)
def test_with_no_true_effect_at_most_six_percent_are_called_faster_or_slower(
    machine: Machine, protocol: Protocol
) -> None:
    shares = _verdicts(machine, protocol, 1_500, seed=20261130)
    assert shares[Verdict.FASTER] + shares[Verdict.SLOWER] <= 0.06
    assert shares[Verdict.SUSPICIOUS] == 0


@pytest.mark.parametrize("effect", [0.03, -0.03], ids=["3 % slower", "3 % faster"])
@pytest.mark.parametrize("protocol", [fixed(10), ADAPTIVE], ids=["10 rounds", "adaptive"])
def test_a_three_percent_change_is_found_nine_times_in_ten(
    effect: float, protocol: Protocol
) -> None:
    shares = _verdicts(Machine(effect=effect), protocol, 300, seed=7)
    assert shares[Verdict.SLOWER if effect > 0 else Verdict.FASTER] >= 0.9


def test_a_change_is_never_called_the_opposite() -> None:
    shares = _verdicts(Machine(effect=0.03, between=0.03), ADAPTIVE, 200, seed=8)
    assert shares[Verdict.FASTER] == 0


@pytest.mark.parametrize(
    "rounds",
    [pytest.param(6, marks=pytest.mark.slow), 10, pytest.param(20, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("effect", [0.0, 0.03], ids=["no effect", "3 % slower"])
def test_the_interval_covers_the_truth_as_often_as_it_says(rounds: int, effect: float) -> None:
    generator = random.Random(100 + rounds)
    machine, truth, runs, hits = Machine(effect=effect), math.log1p(effect), 2_000, 0
    for _ in range(runs):
        interval = paired_interval(log_ratios(machine.rounds(rounds, generator), HEAD, BASE))
        assert interval is not None
        hits += interval.low <= truth <= interval.high
    assert 0.93 <= hits / runs <= 0.97


@pytest.mark.slow
def test_an_interval_that_stopped_early_still_covers_the_truth() -> None:
    generator, runs, hits = random.Random(9), 1_500, 0
    for _ in range(runs):
        interval = _measure(Machine(effect=0.02), ADAPTIVE, generator).interval
        assert interval is not None
        hits += interval.low <= math.log1p(0.02) <= interval.high
    assert hits / runs >= 0.95


@pytest.mark.slow
def test_the_detectable_effect_is_found_four_times_in_five() -> None:
    generator, runs = random.Random(10), 1_000
    quiet = Machine(drift=0.0)
    intervals = [
        paired_interval(log_ratios(quiet.rounds(10, generator), HEAD, BASE)) for _ in range(runs)
    ]
    typical = sorted(each.detectable for each in intervals if each is not None)[runs // 2]
    shares = _verdicts(Machine(effect=typical, drift=0.0), fixed(10, 0.0), runs, seed=11)
    assert 0.75 <= shares[Verdict.SLOWER] <= 0.88


@pytest.mark.slow
def test_many_benchmarks_without_effect_rarely_make_a_headline() -> None:
    generator, runs, wrong = random.Random(12), 400, 0
    protocol = fixed(10, 0.0)
    for _ in range(runs):
        run = BenchRun(
            BenchRequest("owner/name", "a" * 40, "b" * 40, protocol=protocol),
            Backend.CPU,
            "2026-11-30T12:00:00Z",
            1.0,
            Environment("3.11", "Linux"),
            benchmarks=tuple(
                _benchmark(Machine().rounds(10, generator), f"bench_{n}") for n in range(5)
            ),
        )
        wrong += report(run).headline in (Verdict.FASTER, Verdict.SLOWER)
    assert wrong / runs <= 0.06


@pytest.mark.slow
def test_pooling_samples_or_running_one_side_first_would_have_been_wrong() -> None:
    """The traps this protocol avoids show in the same simulation, so it is able to show them."""
    generator, runs, wrong = random.Random(13), 300, 0
    machine = Machine()
    for _ in range(runs):
        first = [machine.process(BASE, start, generator) for start in range(10)]
        second = [machine.process(HEAD, start + 10, generator) for start in range(10)]
        rounds = tuple(Round(n, pair) for n, pair in enumerate(zip(first, second, strict=True)))
        interval = paired_interval(log_ratios(rounds, HEAD, BASE))
        assert interval is not None
        wrong += interval.low > 0 or interval.high < 0
    assert wrong / runs > 0.3
