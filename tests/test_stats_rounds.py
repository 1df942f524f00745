"""The loop of rounds: balanced orders, discarded rounds run again, an end in every case."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from gpu_runner.records import Clocks, Process, Protocol, Variant
from gpu_runner.rounds import TimingPass, compared_pairs, take_rounds
from gpu_runner.stats import order

BASE, HEAD, SUGGESTION = Variant.BASE, Variant.HEAD, Variant.SUGGESTION
TWO, THREE = (BASE, HEAD), (BASE, HEAD, SUGGESTION)


def runner(
    head: float = 1.0, noise: float = 0.0, throttled: frozenset[int] = frozenset()
) -> Callable[[Variant, int], Process]:
    """Processes that take 1 (base) or `head`; the noise alternates between processes."""
    numbers = count()

    def run_process(variant: Variant, number: int) -> Process:
        process = next(numbers)
        sign = 1 if (process // 2 + number) % 3 else -2
        factor = 1.0 if variant == BASE else head * (1 + noise * sign)
        clocks = Clocks(reasons=0x40 if process in throttled else 0)
        return Process(variant, (1e6 * factor,), clocks=clocks)

    return run_process


def kept(timing: TimingPass) -> int:
    return sum(each.discarded is None for each in timing.rounds)


@pytest.mark.parametrize(
    ("protocol", "head", "noise", "rounds"),
    [
        pytest.param(Protocol(), 0.5, 0.0, 6, id="clear at the first look"),
        pytest.param(Protocol(), 1.0, 0.0, 6, id="known narrowly at the first look"),
        pytest.param(Protocol(), 1.0, 0.2, 20, id="noise to the last round"),
        pytest.param(Protocol(rounds=4, most_rounds=4), 0.5, 0.0, 4, id="a fixed number"),
    ],
)
def test_rounds_end_when_they_are_settled(
    protocol: Protocol, head: float, noise: float, rounds: int
) -> None:
    timing = take_rounds(protocol, TWO, runner(head, noise))
    assert kept(timing) == len(timing.rounds) == rounds
    assert str(rounds) in timing.stopped


@pytest.mark.parametrize("variants", [TWO, THREE], ids=["two variants", "three variants"])
def test_every_round_runs_each_variant_once_in_its_balanced_order(
    variants: tuple[Variant, ...],
) -> None:
    timing = take_rounds(Protocol(rounds=6, most_rounds=6), variants, runner())
    for number, each in enumerate(timing.rounds):
        assert tuple(p.variant for p in each.processes) == order(variants, number)


def test_a_throttled_round_is_kept_aside_and_run_again_in_the_same_order() -> None:
    timing = take_rounds(Protocol(rounds=4, most_rounds=4), TWO, runner(throttled=frozenset({3})))
    assert [each.number for each in timing.rounds] == [0, 1, 1, 2, 3]
    spoilt, again = timing.rounds[1:3]
    assert spoilt.discarded is not None
    assert "thermal" in spoilt.discarded
    assert again.discarded is None
    assert [p.variant for p in again.processes] == [p.variant for p in spoilt.processes]
    assert kept(timing) == 4


def test_a_gpu_that_throttles_for_good_ends_the_pass() -> None:
    timing = take_rounds(Protocol(), TWO, runner(throttled=frozenset(range(4, 1000))))
    assert kept(timing) == 2
    assert len(timing.rounds) == 6
    assert timing.stopped.startswith("4 rounds were discarded: the GPU was throttled")


def test_the_end_of_the_time_ends_the_pass() -> None:
    clock = count()
    timing = take_rounds(Protocol(), TWO, runner(), time_left=lambda: next(clock) < 5)
    assert kept(timing) == 5
    assert timing.stopped == "the time was up after 5 rounds"


def test_the_suggestion_is_compared_only_where_it_ran() -> None:
    assert compared_pairs(TWO) == ((HEAD, BASE),)
    assert compared_pairs(THREE) == ((HEAD, BASE), (SUGGESTION, BASE), (SUGGESTION, HEAD))
    assert compared_pairs((BASE,)) == ()
