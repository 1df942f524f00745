"""The timing pass: fresh processes, balanced order, our own clock around every batch of calls.

On a CPU the processes of a round are alive together and take turns batch by batch, so that what
the machine does otherwise hits both alike; on a GPU they run one after the other, because each
holds device memory. Batches during which other programs held the processor are left out, for all
variants of a round or for none. The last batch is also compared with the base's.
"""

from __future__ import annotations

import contextlib
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from gpu_runner.conversation import Collected, Conversation, Farewell
from gpu_runner.gate import Subject, Tried
from gpu_runner.records import Backend, Clocks, Process, Protocol, Round, Variant
from gpu_runner.stats import Plan

Open = Callable[[Variant], AbstractContextManager[Conversation]]
Snapshot = Callable[[], Clocks | None]

SHORTEST_BATCH = {Backend.CUDA: 1_000_000, Backend.CPU: 5_000_000}  # ns
TRIPS = 30  # a batch lasts at least this many empty round trips, and one is subtracted
DISTURBED = 0.02  # share of a batch spent waiting for a processor that others held
FEWEST_QUIET = 3  # undisturbed batches per process; with fewer, all batches of the round count
MOST_BATCHES = 2_000
MOST_INPUTS = 16
PREPARING = 0.1  # seconds for making the inputs of one batch


@dataclass(frozen=True)
class Pace:
    """How many calls make a batch, on how many different inputs, and what the pipe costs."""

    inner: int
    inputs: int
    trip_ns: float


@dataclass(frozen=True)
class Aside:
    """What the last batch took outside the timed part."""

    run_ns: int
    prepare_ns: int
    collected: Collected


@dataclass(frozen=True)
class Taken:
    """One round, and what is needed to check it."""

    round: Round
    asides: dict[Variant, Aside]
    left_out: int  # batches during which another program held the processor


@dataclass(frozen=True)
class Timing:
    """Everything that is the same for all rounds of one subject."""

    subject: Subject
    pace: Pace
    protocol: Protocol
    together: bool
    secret: str
    open: Open
    snapshot: Snapshot


def counted(open_one: Open, tick: Callable[[str], None], name: str, plan: Plan) -> Open:
    """The same way to open a process, which says beforehand which round it is for."""
    opened: Counter[Variant] = Counter()
    most = plan.looks[-1]

    def open_counted(variant: Variant) -> AbstractContextManager[Conversation]:
        opened[variant] += 1
        number = opened[variant]
        # Beyond the plan are rounds that are measured anew, or repeated to confirm a difference.
        among = f" of at most {most}" if number <= most else ""
        tick(f"{name}: timing {variant}, round {number}{among}")
        return open_one(variant)

    return open_counted


def pace(base: Tried, protocol: Protocol, backend: Backend) -> Pace:
    """Batches long enough for our clock, with as many fresh inputs as can be made quickly."""
    call = statistics.median(trial.repeat_ns - base.trip_ns for trial in base.trials)
    batch = max(SHORTEST_BATCH.get(backend, 0), TRIPS * base.trip_ns)
    inner = min(10_000, max(1, math.ceil(batch / max(call, 100.0))))
    preparing = statistics.median(trial.prepare_ns for trial in base.trials)
    inputs = max(1, min(inner, MOST_INPUTS, int(PREPARING * 1e9 / max(preparing, 1.0))))
    if any(trial.collected.changed for trial in base.trials):
        inner = inputs  # a call that changes its input must not meet it again
    return Pace(inner, inputs, base.trip_ns)


def take(timing: Timing, number: int, order: Sequence[Variant]) -> Taken:
    """One round over these variants in this order."""
    groups = [tuple(order)] if timing.together else [(variant,) for variant in order]
    done: list[_Runner] = []
    asides: dict[Variant, Aside] = {}
    for group in groups:
        with contextlib.ExitStack() as stack:
            runners = [
                _Runner(timing, number, variant, stack.enter_context(timing.open(variant)))
                for variant in group
            ]
            _sample(timing, runners)
            for runner in runners:
                asides[runner.variant] = runner.last_batch()
                runner.farewell = runner.talk.leave()
            done += runners
    quiet = all(len(runner.quiet) >= FEWEST_QUIET for runner in done)
    processes = tuple(runner.process(quiet) for runner in done)
    left_out = sum(len(runner.batches) - len(runner.quiet) for runner in done) if quiet else 0
    return Taken(Round(number, processes), asides, left_out)


def _sample(timing: Timing, runners: Sequence[_Runner]) -> None:
    """Warms up, then takes turns, forwards and backwards, until there are samples enough."""
    protocol = timing.protocol
    for runner in runners:
        runner.warm_up()
    until = time.monotonic() + protocol.longest_seconds * len(runners)
    for batch in range(MOST_BATCHES):
        for runner in runners if batch % 2 == 0 else reversed(runners):
            runner.sample(batch)
        enough = all(runner.has_enough() for runner in runners)
        if enough or time.monotonic() > until:
            return


@dataclass(frozen=True)
class _Batch:
    per_call_ns: float
    took_ns: int
    quiet: bool  # the processor was ours all the time


@dataclass
class _Runner:
    timing: Timing
    number: int
    variant: Variant
    talk: Conversation
    batches: list[_Batch] = field(default_factory=list[_Batch])
    clocks: Clocks | None = None
    farewell: Farewell | None = None

    @property
    def quiet(self) -> list[_Batch]:
        """The batches during which no other program held the processor."""
        return [each for each in self.batches if each.quiet]

    def has_enough(self) -> bool:
        """Whether the undisturbed batches suffice."""
        quiet, protocol = self.quiet, self.timing.protocol
        timed = sum(each.took_ns for each in quiet)
        return len(quiet) >= protocol.calls or (
            timed >= protocol.seconds * 1e9 and len(quiet) >= FEWEST_QUIET
        )

    def warm_up(self) -> None:
        """Opens the case and runs it until it is warm."""
        subject, protocol = self.timing.subject, self.timing.protocol
        self.talk.open(subject.benchmark, subject.facts.name, subject.index)
        started, calls = time.monotonic(), 0
        while calls < protocol.warm_up_calls or (
            time.monotonic() - started < protocol.warm_up_seconds
        ):
            self.talk.prepare(self._seeds(-2 - calls))
            self.talk.run(self.timing.pace.inner)
            calls += self.timing.pace.inner

    def sample(self, batch: int) -> tuple[int, int]:
        """Times one batch on inputs that every variant gets in this batch of this round."""
        pace = self.timing.pace
        prepared = self.talk.prepare(self._seeds(batch))
        before = self.talk.session.processor_wait_ns()
        took = self.talk.run(pace.inner)
        waited = self.talk.session.processor_wait_ns() - before
        per_call = max(0.0, took - pace.trip_ns) / pace.inner
        self.batches.append(_Batch(per_call, took, waited <= DISTURBED * took))
        return prepared, took

    def last_batch(self) -> Aside:
        """One more timed batch, whose output is compared afterwards."""
        prepared, took = self.sample(-1)
        self.clocks = self.timing.snapshot()  # before the device cools down and clocks fall
        return Aside(took, prepared, self.talk.collect(inputs=False))

    def process(self, quiet: bool) -> Process:
        """The record of this process: all its batches, or only the undisturbed ones."""
        chosen = self.quiet if quiet else self.batches
        return Process(
            self.variant,
            tuple(each.per_call_ns for each in chosen),
            self.timing.pace.inner,
            sum(each.took_ns for each in self.batches),
            self.clocks,
            self.farewell.peak if self.farewell else None,
            self.farewell.source if self.farewell else None,
        )

    def _seeds(self, batch: int) -> list[int]:
        source = random.Random(f"{self.timing.secret}/{self.number}/{batch}")
        return [source.randrange(1 << 31) for _ in range(self.timing.pace.inputs)]
