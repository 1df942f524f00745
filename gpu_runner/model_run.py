"""A whole benchmark on the stream model: virtual time as the clock, disturbances as asked.

Everything downstream (rounds, statistics, verdicts, reports) treats the result like any other
run, so it can be tested without a GPU; the run's basis, and every sentence, says "modelled".
"""

from __future__ import annotations

import math
import platform
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpu_runner.model import ModelGpu
from gpu_runner.model_trace import LABEL, summary
from gpu_runner.models import BenchmarkRun, BenchRequest, BenchRun
from gpu_runner.recording import Hardware, Recording
from gpu_runner.records import (
    Backend,
    Clocks,
    Device,
    Environment,
    Link,
    Process,
    Protocol,
    TraceSummary,
    Variant,
)
from gpu_runner.rounds import take_rounds

Program = Callable[[ModelGpu], None]
Programs = Mapping[Variant, Program]

FULL_CLOCK, THROTTLED_CLOCK, POWER_CAP = 1_410, 940, 0x4


@dataclass(frozen=True)
class Conditions:
    """The modelled machine and what disturbs it; spreads are relative standard deviations."""

    hardware: Hardware = field(default_factory=Hardware)
    spread: float = 0.0  # between processes
    scatter: float = 0.0  # between the samples of one process
    drift: float = 0.0  # added per process that has run before
    throttled: frozenset[int] = frozenset()  # which processes, counted over the run, are slowed
    seed: int = 0


def run_on_model(
    request: BenchRequest,
    benchmarks: Mapping[str, Programs],
    conditions: Conditions | None = None,
    started: str = "virtual time 0",
) -> BenchRun:
    """The request's protocol carried out on the model, one benchmark after the other."""
    conditions = conditions or Conditions()
    machine = _Machine(conditions)
    runs = tuple(
        _benchmark(name, programs, request.protocol, machine)
        for name, programs in benchmarks.items()
    )
    hardware = conditions.hardware
    return BenchRun(
        request=request,
        backend=Backend.MODEL,
        started=started,
        seconds=machine.clock_ns / 1e9,
        environment=Environment(platform.python_version(), platform.system() or "unknown"),
        device=Device(
            "model",
            f"{hardware.name} ({LABEL})",
            link=Link(hardware.pinned_gb_per_s, hardware.pinned_gb_per_s),
        ),
        benchmarks=runs,
        notes=(f"Every number is {LABEL}: virtual time of a deterministic stream model.",),
    )


def recorded(program: Program, hardware: Hardware | None = None) -> Recording:
    """What happens when the program runs once."""
    gpu = ModelGpu(hardware or Hardware())
    with gpu.region():
        program(gpu)
    return gpu.finish()


class _Machine:
    """Virtual time: every process moves the clock, and is disturbed in its own way."""

    def __init__(self, conditions: Conditions) -> None:
        self.conditions = conditions
        self.clock_ns = 0.0
        self._processes = 0
        self._random = random.Random(conditions.seed)

    def process(self, variant: Variant, wall_ns: int, samples: int) -> Process:
        """Samples of one process whose program takes `wall_ns` undisturbed."""
        held = self.conditions
        slow = self._processes in held.throttled
        speed = math.exp(self._random.gauss(0, held.spread)) * (1 + held.drift * self._processes)
        speed *= FULL_CLOCK / THROTTLED_CLOCK if slow else 1.0
        taken = tuple(
            wall_ns * speed * math.exp(self._random.gauss(0, held.scatter)) for _ in range(samples)
        )
        self._processes += 1
        self.clock_ns += sum(taken)
        clocks = Clocks(
            THROTTLED_CLOCK if slow else FULL_CLOCK, FULL_CLOCK, reasons=POWER_CAP if slow else 0
        )
        return Process(variant, taken, parent_ns=math.ceil(sum(taken)), clocks=clocks)


def _benchmark(
    name: str, programs: Programs, protocol: Protocol, machine: _Machine
) -> BenchmarkRun:
    hardware = machine.conditions.hardware
    variants = tuple(variant for variant in Variant if variant in programs)
    recordings = {variant: recorded(programs[variant], hardware) for variant in variants}

    def run_process(variant: Variant, number: int) -> Process:
        del number  # the model has no state that a round could find
        return machine.process(variant, recordings[variant].wall_ns, protocol.calls)

    timing = take_rounds(protocol, variants, run_process)
    traces: tuple[TraceSummary, ...] = tuple(
        summary(recordings[variant], variant, number)
        for variant in variants
        for number in range(protocol.trace_passes)
    )
    return BenchmarkRun(
        name=name,
        source="model",
        variants=variants,
        rounds=timing.rounds,
        traces=traces,
        stopped=timing.stopped,
    )
