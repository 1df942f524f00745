"""Statistics of balanced rounds: the unit is the process, the estimate a paired log ratio.

Samples of one process share its allocator, its caches and its clock state, so pooling them calls
noise a difference far too often. Each round therefore yields one number per pair of variants,
ln(median of one process / median of the other), and a t interval is drawn over the rounds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_runner.models import Interval
from gpu_runner.records import Clocks, Process, Protocol, Round, Variant
from gpu_runner.student import quantile, two_sided_p

ALPHA = 0.05
POWER = 0.8
FIRST_LOOK, LATE_LOOK = 6, 15
NARROW = 0.01  # half-width of the interval at which more rounds would tell nothing of use
CLEAR = 2.0  # an interval beyond this many relevant effects needs no further rounds

# NVML clock event reasons that spoil a timing: software power cap, hardware slowdown, software
# and hardware thermal slowdown, hardware power brake.
SPOILING_REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
}
SLOW_CLOCK = 0.75


@dataclass(frozen=True)
class Plan:
    """Round counts at which the results are looked at; the last one ends the run."""

    looks: tuple[int, ...]

    @property
    def alpha(self) -> float:
        """Error allowed at each look, so that all looks together keep 5 %."""
        return ALPHA / len(self.looks)


def plan_rounds(protocol: Protocol, variants: Sequence[Variant]) -> Plan:
    """When to look: once at `rounds`, or from round 6 on where `most_rounds` allows more.

    Rounds come in whole cycles of orders: six for three variants, two for two.
    """
    cycle = 6 if len(variants) > 2 else 1
    rounds = math.ceil(protocol.rounds / cycle) * cycle
    if protocol.most_rounds <= protocol.rounds:
        return Plan((max(2, rounds),))
    last = max(rounds, protocol.most_rounds // cycle * cycle)
    late = math.ceil(LATE_LOOK / cycle) * cycle
    return Plan(tuple(sorted({n for n in (FIRST_LOOK, rounds, late) if n < last} | {last})))


def order(variants: Sequence[Variant], number: int) -> tuple[Variant, ...]:
    """Order of the processes in round `number`: linear drift cancels over a whole cycle.

    Two variants run AB BA AB BA …; three run ABC BCA CAB, then the same reversed.
    """
    if len(variants) < 3:
        return tuple(variants) if number % 2 == 0 else tuple(reversed(variants))
    cycle, turn = divmod(number, len(variants))
    rotated = (*variants[turn:], *variants[:turn])
    return rotated if cycle % 2 == 0 else rotated[::-1]


def spoilt(clocks: Clocks | None) -> str | None:
    """Why a process's timing must be discarded, or None when the clocks held or are unknown."""
    if clocks is None:
        return None
    reasons = [name for bit, name in SPOILING_REASONS.items() if clocks.reasons & bit]
    if reasons:
        return f"the GPU was throttled: {', '.join(reasons)}"
    if clocks.sm_mhz is not None and clocks.default_sm_mhz:
        share = clocks.sm_mhz / clocks.default_sm_mhz
        if share < SLOW_CLOCK:
            return f"the SM clock was at {share:.0%} of its default"
    return None


def log_ratios(rounds: Iterable[Round], variant: Variant, baseline: Variant) -> tuple[float, ...]:
    """One ln(variant / baseline) per kept round in which both ran and took time."""
    pairs = (
        (_median(each, variant), _median(each, baseline))
        for each in rounds
        if each.discarded is None
    )
    return tuple(math.log(ours / theirs) for ours, theirs in pairs if ours > 0 and theirs > 0)


def _median(one_round: Round, variant: Variant) -> float:
    samples = [s for p in one_round.processes if p.variant == variant for s in p.samples_ns]
    return statistics.median(samples) if samples else 0.0


def paired_interval(ratios: Sequence[float], looks: int = 1) -> Interval | None:
    """The t interval over rounds, or None for fewer than two rounds.

    With several looks the interval is widened so that it holds at 95 % over all of them.
    """
    rounds = len(ratios)
    if rounds < 2:
        return None
    mean, deviation = statistics.fmean(ratios), statistics.stdev(ratios)
    error, degrees = deviation / math.sqrt(rounds), rounds - 1
    reach = quantile(1 - ALPHA / looks / 2, degrees)
    certain = 0.0 if mean else 1.0  # a deterministic model has no error: any difference is real
    p_value = two_sided_p(mean / error, degrees) if error > 0 else certain
    return Interval(
        log_ratio=mean,
        low=mean - reach * error,
        high=mean + reach * error,
        rounds=rounds,
        deviation=deviation,
        detectable=math.expm1((reach + quantile(POWER, degrees)) * error),
        p_value=min(1.0, p_value * looks),
        confidence=1 - ALPHA,
        looks=looks,
    )


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values, in the order given: each may be held against 5 % by itself."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    ranked = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(ranked):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def reason_to_stop(
    plan: Plan, rounds: int, intervals: Sequence[Interval | None], relevant_effect: float
) -> str | None:
    """Why no further round is needed after `rounds` kept ones, or None to go on.

    `intervals` are those of every comparison of the benchmark: all must be settled.
    """
    if rounds >= plan.looks[-1]:
        return f"all {rounds} planned rounds were run"
    if rounds not in plan.looks or not intervals:
        return None
    early = rounds < plan.looks[min(1, len(plan.looks) - 1)]
    if all(each is not None and _settled(each, relevant_effect, early) for each in intervals):
        return f"settled after {rounds} rounds"
    return None


def _settled(interval: Interval, relevant_effect: float, early: bool) -> bool:
    relevant = math.log1p(relevant_effect)
    if (interval.high - interval.low) / 2 <= NARROW:
        return True
    margin = relevant * CLEAR if early else 0.0
    if interval.low > margin or interval.high < -margin:
        return early or abs(interval.log_ratio) > relevant
    return not early and within_effect(interval, relevant_effect)


def within_effect(interval: Interval, relevant_effect: float) -> bool:
    """Whether the whole interval lies inside plus or minus the relevant effect."""
    relevant = math.log1p(relevant_effect)
    return -relevant < interval.low and interval.high < relevant


def percentile(samples: Sequence[float], share: float) -> float:
    """The value below which that share of the samples lies, interpolated between neighbours."""
    ranked = sorted(samples)
    place = share * (len(ranked) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ranked) - 1)
    return ranked[below] + (ranked[above] - ranked[below]) * (place - below)


def samples_of(rounds: Iterable[Round], variant: Variant) -> tuple[float, ...]:
    """All samples of a variant over the kept rounds."""
    kept: Iterable[Process] = (p for r in rounds if r.discarded is None for p in r.processes)
    return tuple(
        sample for process in kept if process.variant == variant for sample in process.samples_ns
    )
