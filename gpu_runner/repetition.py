"""A difference that must show up twice: the rounds are repeated before it is believed.

On a CPU nobody holds the clocks or keeps other programs away, and a single pass calls noise a
difference once in twenty. If the repetition disagrees, the first pass does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpu_runner.records import Protocol, Variant, Verdict
from gpu_runner.rounds import RunProcess, TimingPass, compared_pairs, take_rounds
from gpu_runner.stats import log_ratios, paired_interval, plan_rounds
from gpu_runner.verdict import judge

MOST_ROUNDS = 40  # of one pass that is repeated; a report holds twice as many
UNCONFIRMED = "a difference seen in the first rounds was not seen again when they were repeated"


def repeated(
    protocol: Protocol,
    variants: tuple[Variant, ...],
    process: RunProcess,
    time_left: Callable[[], bool],
    *,
    confirm: bool,
) -> TimingPass:
    """The timing pass, and the same again if it shows a difference that is to be confirmed."""
    first = take_rounds(protocol, variants, process, time_left)
    decided = _decided(protocol, variants, first)
    if not confirm or not decided or len(first.rounds) > MOST_ROUNDS:
        return first
    second = take_rounds(protocol, variants, process, time_left)
    offset = len(first.rounds)
    again = tuple(replace(each, number=each.number + offset) for each in second.rounds)
    if decided.items() <= _decided(protocol, variants, second).items():
        return TimingPass((*first.rounds, *again), f"{second.stopped}; confirmed by repetition")
    unseen = tuple(replace(each, discarded=UNCONFIRMED) for each in first.rounds)
    return TimingPass((*unseen, *again), f"{second.stopped}; {UNCONFIRMED}")


def _decided(
    protocol: Protocol, variants: tuple[Variant, ...], timed: TimingPass
) -> dict[tuple[Variant, Variant], Verdict]:
    """The pairs of variants that these rounds alone would call faster or slower."""
    looks = len(plan_rounds(protocol, variants).looks)
    found: dict[tuple[Variant, Variant], Verdict] = {}
    for pair in compared_pairs(variants):
        interval = paired_interval(log_ratios(timed.rounds, *pair), looks)
        if interval is not None:
            verdict, _ = judge(interval, protocol.relevant_effect)
            if verdict in (Verdict.FASTER, Verdict.SLOWER):
                found[pair] = verdict
    return found
