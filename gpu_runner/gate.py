"""The correctness gate: nothing is timed before every variant's output equals the base's.

Each variant runs in a process of its own on inputs from secret seeds, twice per seed. Outputs come
back as bytes and are compared here; expected values never enter the sandbox.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_runner.compare import Difference, difference, opaque
from gpu_runner.conversation import CaseFacts, Collected, Conversation
from gpu_runner.records import Correctness, Variant
from gpu_runner.select import Benchmark

EMPTY_RUNS = 15
FIRST_TIMES = 3.0  # a call on new inputs this much slower than on known ones looks like a cache
UNCOMPARED = "it returns nothing, so no results were compared: return them from the benchmark"
WORTH_A_LOOK = 500_000  # ns; below it the pipe's own jitter decides


@dataclass(frozen=True)
class Subject:
    """One benchmark with one set of parameters."""

    benchmark: Benchmark
    index: int
    facts: CaseFacts

    @property
    def name(self) -> str:
        """How it is called in reports: its parameters tell cases of one function apart."""
        values = ", ".join(f"{key}={value}" for key, value in self.facts.parameters)
        label = self.benchmark.label
        if self.benchmark.kind == "pytest-benchmark":
            return self.facts.name[:300]
        return f"{label}[{values}]"[:300] if values else label[:300]


@dataclass(frozen=True)
class Trial:
    """One seed: the inputs' fingerprints, the output, and how the second call's differed."""

    seed: int
    before: tuple[tuple[str, str], ...]
    collected: Collected
    again: Difference
    first_ns: int
    repeat_ns: int
    prepare_ns: int


@dataclass(frozen=True)
class Tried:
    """What one variant did at the gate."""

    trials: tuple[Trial, ...]
    trip_ns: float
    peak_bytes: int
    touched: dict[str, list[int]]

    @property
    def inputs_vary(self) -> bool:
        """Whether different seeds gave different inputs."""
        return len({trial.before for trial in self.trials}) == len(self.trials) > 1

    @property
    def remembered(self) -> float:
        """How many times longer a call on new inputs takes than the same call again."""
        fresh = self.trials[1:] if self.inputs_vary else self.trials[:1]
        first = statistics.median(trial.first_ns - self.trip_ns for trial in fresh)
        again = statistics.median(trial.repeat_ns - self.trip_ns for trial in self.trials)
        return first / max(again, 1.0) if first > WORTH_A_LOOK else 1.0


def attempt(talk: Conversation, subject: Subject, seeds: Sequence[int], touch: bool) -> Tried:
    """Runs the subject at every seed, twice, and reports everything that was seen."""
    talk.open(subject.benchmark, subject.facts.name, subject.index)
    trials = tuple(_trial(talk, subject, seed) for seed in seeds)
    trips = sorted(talk.run(0) for _ in range(EMPTY_RUNS))
    touched: dict[str, list[int]] = {}
    if touch:
        talk.prepare([seeds[0]])
        touched = talk.touched()
    return Tried(trials, trips[EMPTY_RUNS // 4], talk.leave().peak, touched)


def _trial(talk: Conversation, subject: Subject, seed: int) -> Trial:
    prepare_ns = talk.prepare([seed])
    before = talk.digest()
    first_ns = talk.run(1)
    collected = talk.collect(inputs=True)
    talk.prepare([seed])
    repeat_ns = talk.run(1)
    repeated = talk.collect(inputs=True)
    again = difference(repeated.output, collected.output, subject.facts.tolerance)
    return Trial(seed, before, collected, again, first_ns, repeat_ns, prepare_ns)


def judged(subject: Subject, variant: Variant, ours: Tried, base: Tried) -> Correctness:
    """Whether the variant may be timed; the reason if not."""
    whole = Difference()
    for mine, theirs in zip(ours.trials, base.trials, strict=True):
        whole = whole.merged(_difference(subject, mine, theirs))
    again = max((trial.again.absolute for trial in ours.trials), default=0.0)
    unsteady = next((trial.again.reason for trial in ours.trials if trial.again.reason), None)
    reason = whole.reason
    if reason is None and unsteady and not any(trial.again.reason for trial in base.trials):
        reason = f"two calls on equal inputs disagree: {unsteady}"
    changed = {name for trial in ours.trials for name in trial.collected.changed}
    vacuous = not subject.facts.checked and all(_empty(trial) for trial in base.trials)
    return Correctness(
        variant,
        passed=reason is None,
        seeds=tuple(trial.seed for trial in ours.trials),
        reason=UNCOMPARED if reason is None and vacuous else reason,
        largest_absolute=_finite(whole.absolute),
        largest_relative=_finite(whole.relative),
        repeat_difference=_finite(again),
        inputs_changed=tuple(sorted(changed)),
    )


def _empty(trial: Trial) -> bool:
    spec = trial.collected.output.spec
    return spec.get("t") == "constant" and spec.get("v") is None


def _difference(subject: Subject, ours: Trial, base: Trial) -> Difference:
    if ours.before != base.before:
        return Difference("its inputs differ from the base's; the set-up depends on the change")
    allowed = {*subject.facts.mutates, *base.collected.changed}
    spoilt = sorted(set(ours.collected.changed) - allowed)
    if spoilt:
        return Difference(f"it changes its input {spoilt[0]!r}, which the base leaves as it was")
    if subject.facts.checked:
        passed = ours.collected.checked
        return Difference(None if passed else "the benchmark's own check rejects the output")
    return difference(ours.collected.output, base.collected.output, subject.facts.tolerance)


def incomparable(subject: Subject, base: Tried) -> str | None:
    """Why no output of this benchmark can be compared, or None."""
    if subject.facts.checked:
        return None
    kind = opaque(base.trials[0].collected.output.spec)
    if kind is None:
        return None
    return (
        f"it returns {kind}, which cannot be compared; "
        "return arrays, tensors or numbers, or give @bench(check=…)"
    )


def caching(ours: Tried, base: Tried) -> str | None:
    """The alarm for results that are remembered while the inputs never change, or None."""
    if ours.inputs_vary or base.remembered >= FIRST_TIMES or ours.remembered < FIRST_TIMES:
        return None
    return (
        f"its inputs never change, and its first call takes {ours.remembered:.0f} times as long "
        "as later ones: results may be cached; make the inputs from `seed` and measure again"
    )


def _finite(value: float) -> float | None:
    return value if value < 1e18 else None
