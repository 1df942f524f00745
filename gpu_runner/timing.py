"""The timing pass: fresh processes, balanced order, our own clock around every batch of calls.

On a CPU the processes of a round are alive together and take turns batch by batch, so that what
the machine does otherwise hits both alike; on a GPU they run one after the other, because each
holds device memory. The last batch of every process is also compared with the base's.
"""

from __future__ import annotations

import contextlib
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from gpu_runner.conversation import Collected, Conversation, Farewell
from gpu_runner.gate import Subject, Tried
from gpu_runner.records import Backend, Clocks, Process, Protocol, Round, Variant

Open = Callable[[Variant], AbstractContextManager[Conversation]]
Snapshot = Callable[[], Clocks | None]

SHORTEST_BATCH = {Backend.CUDA: 1_000_000, Backend.CPU: 5_000_000}  # ns
TRIPS = 30  # a batch lasts at least this many empty round trips, and one is subtracted
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
    processes: list[Process] = []
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
                processes.append(runner.finish())
    return Taken(Round(number, tuple(processes)), asides)


def _sample(timing: Timing, runners: Sequence[_Runner]) -> None:
    """Warms up, then takes turns, forwards and backwards, until there are samples enough."""
    protocol = timing.protocol
    for runner in runners:
        runner.warm_up()
    until = time.monotonic() + protocol.longest_seconds * len(runners)
    for batch in range(protocol.calls):
        for runner in runners if batch % 2 == 0 else reversed(runners):
            runner.sample(batch)
        enough = all(runner.timed_ns >= protocol.seconds * 1e9 for runner in runners)
        if enough or time.monotonic() > until:
            return


@dataclass
class _Runner:
    timing: Timing
    number: int
    variant: Variant
    talk: Conversation
    samples: list[float] = field(default_factory=list[float])
    timed_ns: int = 0
    clocks: Clocks | None = None

    def warm_up(self) -> None:
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
        took = self.talk.run(pace.inner)
        self.timed_ns += took
        self.samples.append(max(0.0, took - pace.trip_ns) / pace.inner)
        return prepared, took

    def last_batch(self) -> Aside:
        """One more timed batch, whose output is compared afterwards."""
        prepared, took = self.sample(-1)
        self.clocks = self.timing.snapshot()  # before the device cools down and clocks fall
        return Aside(took, prepared, self.talk.collect(inputs=False))

    def finish(self) -> Process:
        farewell: Farewell = self.talk.leave()
        return Process(
            self.variant,
            tuple(self.samples),
            self.timing.pace.inner,
            self.timed_ns,
            self.clocks,
            farewell.peak,
            farewell.source,
        )

    def _seeds(self, batch: int) -> list[int]:
        source = random.Random(f"{self.timing.secret}/{self.number}/{batch}")
        return [source.randrange(1 << 31) for _ in range(self.timing.pace.inputs)]
