"""The loop of a timing pass: balanced rounds until the answer would no longer change.

It knows neither sandboxes nor models: whoever runs a process passes a function that gives back its
samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_runner.records import Process, Protocol, Round, Variant
from gpu_runner.stats import log_ratios, order, paired_interval, plan_rounds, reason_to_stop, spoilt

MOST_DISCARDED = 3  # rounds measured anew because the GPU was throttled; after that, it is said

PAIRS = (
    (Variant.HEAD, Variant.BASE),
    (Variant.SUGGESTION, Variant.BASE),
    (Variant.SUGGESTION, Variant.HEAD),
)

RunProcess = Callable[[Variant, int], Process]


@dataclass(frozen=True)
class TimingPass:
    """All rounds, discarded ones included, and why there are no more."""

    rounds: tuple[Round, ...]
    stopped: str


def compared_pairs(variants: Sequence[Variant]) -> tuple[tuple[Variant, Variant], ...]:
    """Which variant is held against which, out of those at hand."""
    return tuple(pair for pair in PAIRS if set(pair).issubset(variants))


def take_rounds(
    protocol: Protocol,
    variants: Sequence[Variant],
    run_process: RunProcess,
    time_left: Callable[[], bool] = lambda: True,
) -> TimingPass:
    """Run rounds as the plan asks; throttled ones are discarded and, up to three, run again.

    A round that is run again keeps its number, so its order, and the balance stays whole.
    """
    plan = plan_rounds(protocol, variants)
    rounds: list[Round] = []
    kept = discarded = 0
    while time_left():
        processes = tuple(run_process(variant, kept) for variant in order(variants, kept))
        reason = next(filter(None, (spoilt(each.clocks) for each in processes)), None)
        rounds.append(Round(kept, processes, reason))
        if reason:
            discarded += 1
            if discarded > MOST_DISCARDED:
                return TimingPass(tuple(rounds), f"{discarded} rounds were discarded: {reason}")
            continue
        kept += 1
        looks = len(plan.looks)
        intervals = [
            paired_interval(log_ratios(rounds, variant, baseline), looks)
            for variant, baseline in compared_pairs(variants)
        ]
        stop = reason_to_stop(plan, kept, intervals, protocol.relevant_effect)
        if stop:
            return TimingPass(tuple(rounds), stop)
    return TimingPass(tuple(rounds), f"the time was up after {kept} rounds")
