"""Rounds that are repeated before a difference is believed."""

from __future__ import annotations

import random
from collections.abc import Callable

from gpu_runner.records import Process, Protocol, Variant
from gpu_runner.repetition import UNCONFIRMED, repeated

BOTH = (Variant.BASE, Variant.HEAD)
SIX = Protocol(rounds=6, most_rounds=6)


def machine(effect: Callable[[int], float]) -> Callable[[Variant, int], Process]:
    """Quiet processes of which the head takes `effect(n)` times as long in its n-th one."""
    source, count = random.Random(1), iter(range(1000))

    def process(variant: Variant, _: int) -> Process:
        factor = effect(next(count)) if variant is Variant.HEAD else 1.0
        return Process(variant, (1e6 * factor * source.uniform(0.999, 1.001),))

    return process


def test_a_difference_that_stays_is_confirmed_and_all_rounds_count() -> None:
    timed = repeated(SIX, BOTH, machine(lambda _: 1.1), lambda: True, confirm=True)
    assert len(timed.rounds) == 12
    assert [each.number for each in timed.rounds] == list(range(12))
    assert all(each.discarded is None for each in timed.rounds)
    assert timed.stopped == "all 6 planned rounds were run; confirmed by repetition"


def test_a_difference_that_goes_away_does_not_count() -> None:
    timed = repeated(
        SIX, BOTH, machine(lambda n: 1.1 if n < 6 else 1.0), lambda: True, confirm=True
    )
    assert [each.discarded for each in timed.rounds] == [UNCONFIRMED] * 6 + [None] * 6


def test_a_difference_that_turns_round_does_not_count() -> None:
    timed = repeated(
        SIX, BOTH, machine(lambda n: 1.1 if n < 6 else 0.9), lambda: True, confirm=True
    )
    assert sum(each.discarded is None for each in timed.rounds) == 6


def test_equal_code_is_not_measured_twice() -> None:
    timed = repeated(SIX, BOTH, machine(lambda _: 1.0), lambda: True, confirm=True)
    assert len(timed.rounds) == 6


def test_where_clocks_are_held_nothing_is_repeated() -> None:
    timed = repeated(SIX, BOTH, machine(lambda _: 1.1), lambda: True, confirm=False)
    assert len(timed.rounds) == 6
