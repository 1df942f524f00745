"""One benchmark from the gate to the last trace: correct first, then timed, then traced."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace

from gpu_runner.compare import difference
from gpu_runner.conversation import Conversation
from gpu_runner.errors import RunnerError
from gpu_runner.gate import Subject, Tried, attempt, caching, incomparable, judged
from gpu_runner.models import BenchmarkRun
from gpu_runner.plain import one_line
from gpu_runner.raw_traces import RawTraces
from gpu_runner.records import (
    Backend,
    Correctness,
    Limits,
    Link,
    Process,
    Protocol,
    TraceSummary,
    Variant,
)
from gpu_runner.repetition import repeated
from gpu_runner.rounds import TimingPass
from gpu_runner.stats import log_ratios, order, plan_rounds
from gpu_runner.timing import Aside, Snapshot, Taken, Timing, counted, pace, take
from gpu_runner.tracing import least_ns, sites, summarised, trace_once

SAVED = 0.1  # share of the base's time; a smaller saving raises no alarm
MOVED = 0.5  # share of the time saved that may turn up outside the timed part
MOVED_NS = 2_000_000
CONFIRMATIONS = 2  # fresh processes in which a first call must be slow again
Tick = Callable[[str], None]
Touched = Callable[[dict[str, list[int]]], bool]


@dataclass(frozen=True)
class Bench:
    """What is the same for all benchmarks of a run."""

    backend: Backend
    protocol: Protocol
    limits: Limits
    variants: tuple[Variant, ...]
    open: Callable[[Variant], AbstractContextManager[Conversation]]
    snapshot: Snapshot
    tick: Tick
    until: float  # on the monotonic clock
    link: Link | None = None
    executes: Touched | None = None  # None: whatever the benchmark executes, it was asked for
    raw: RawTraces = field(default_factory=RawTraces)


def measured(bench: Bench, subject: Subject) -> BenchmarkRun | None:
    """Everything about one benchmark; None if it does not execute what was changed."""
    blank = BenchmarkRun(
        subject.name,
        subject.benchmark.kind,
        tuple((key[:300], one_line(value)) for key, value in subject.facts.parameters),
        bench.variants,
    )
    try:
        return _gated(bench, subject, blank)
    except RunnerError as problem:
        return replace(blank, problem=one_line(str(problem), 2000))


def _gated(bench: Bench, subject: Subject, blank: BenchmarkRun) -> BenchmarkRun | None:
    seeds = [secrets.randbelow(1 << 31) for _ in range(bench.protocol.seeds)]
    tried: dict[Variant, Tried] = {}
    failed: dict[Variant, str] = {}
    for variant in reversed(bench.variants):  # the head first: it says what is executed
        bench.tick(f"{subject.name}: checking {variant}")
        try:
            with bench.open(variant) as talk:
                tried[variant] = attempt(talk, subject, seeds, variant is Variant.HEAD)
        except RunnerError as problem:
            failed[variant] = one_line(str(problem), 1500)
            continue
        if (
            variant is Variant.HEAD
            and bench.executes
            and not bench.executes(tried[variant].touched)
        ):
            return None
    if Variant.BASE in failed:
        return replace(blank, problem=f"it does not run on the base: {failed[Variant.BASE]}")
    base = tried[Variant.BASE]
    checks = tuple(
        Correctness(variant, passed=False, reason=f"it does not run: {failed[variant]}")
        if variant in failed
        else judged(subject, variant, tried[variant], base)
        for variant in bench.variants
    )
    problem = incomparable(subject, base)
    if problem and all(each.passed for each in checks):
        return replace(blank, problem=problem)
    found = replace(blank, correctness=checks)
    passed = tuple(each.variant for each in checks if each.passed)
    if Variant.BASE not in passed or len(passed) < 2:
        return found
    suspected = [(v, said) for v in passed if (said := caching(tried[v], base))]
    alarms = [each for each in suspected if _remembers(bench, subject, seeds, each[0])]
    return _timed(bench, subject, found, _Passed(passed, base, tuple(alarms)))


def _remembers(bench: Bench, subject: Subject, seeds: Sequence[int], variant: Variant) -> bool:
    """Whether first calls stand out in fresh processes too, and not for another reason once."""
    for _ in range(CONFIRMATIONS):
        with bench.open(variant) as talk:
            ours = attempt(talk, subject, seeds, touch=False)
        with bench.open(Variant.BASE) as talk:
            base = attempt(talk, subject, seeds, touch=False)
        if caching(ours, base) is None:
            return False
    return True


@dataclass(frozen=True)
class _Passed:
    """What the gate let through, and what it noticed."""

    variants: tuple[Variant, ...]
    base: Tried
    alarms: tuple[tuple[Variant, str], ...]


def _timed(bench: Bench, subject: Subject, found: BenchmarkRun, gate: _Passed) -> BenchmarkRun:
    passed, base = gate.variants, gate.base
    timing = Timing(
        subject,
        pace(base, bench.protocol, bench.backend),
        bench.protocol,
        together=bench.backend is not Backend.CUDA,
        secret=secrets.token_hex(16),
        open=counted(bench.open, bench.tick, subject.name, plan_rounds(bench.protocol, passed)),
        snapshot=bench.snapshot,
    )
    rounds = _Rounds(timing, passed)
    try:
        timed = repeated(
            bench.protocol,
            passed,
            rounds.process,
            lambda: time.monotonic() < bench.until,
            confirm=bench.backend is Backend.CPU,
        )
    except _WrongResultError as problem:
        checks = tuple(_overruled(each, problem) for each in found.correctness)
        return replace(found, correctness=checks)
    checks = tuple(replace(each, checked_after_timing=each.passed) for each in found.correctness)
    alarms = tuple(
        f"{variant}: {said}"[:2000]
        for variant, said in (*gate.alarms, *rounds.alarms())
        if sum(log_ratios(timed.rounds, variant, Variant.BASE)) < 0  # only what seems faster
    )
    found = replace(
        found, correctness=checks, rounds=timed.rounds, stopped=timed.stopped, alarms=alarms
    )
    if rounds.left_out:
        log = f"{rounds.left_out} batches left out: other programs held the processor meanwhile"
        found = replace(found, log=log)
    return with_traces(bench, subject, found, passed, timed)


class _WrongResultError(RunnerError):
    """The output of a timed call differs from the base's."""

    def __init__(self, variant: Variant, reason: str) -> None:
        super().__init__(reason)
        self.variant = variant


def _overruled(check: Correctness, problem: _WrongResultError) -> Correctness:
    if check.variant is not problem.variant:
        return check
    return replace(check, passed=False, reason=f"in a timed call, {problem}")


class _Rounds:
    """Gives `take_rounds` one process at a time, although those of a round run together."""

    def __init__(self, timing: Timing, variants: Sequence[Variant]) -> None:
        self._timing = timing
        self._variants = tuple(variants)
        self._waiting: dict[Variant, Process] = {}
        self._asides: list[dict[Variant, Aside]] = []
        self.left_out = 0

    def process(self, variant: Variant, number: int) -> Process:
        if not self._waiting:
            taken = take(self._timing, number, order(self._variants, number))
            self._check(taken)
            self.left_out += taken.left_out
            self._asides.append(taken.asides)
            self._waiting = {each.variant: each for each in taken.round.processes}
        return self._waiting.pop(variant)

    def _check(self, taken: Taken) -> None:
        """The output of a timed call must equal the base's as well."""
        base = taken.asides[Variant.BASE].collected
        facts = self._timing.subject.facts
        for variant, aside in taken.asides.items():
            ours = aside.collected
            if facts.checked:
                reason = None if ours.checked else "the benchmark's own check rejects the output"
            else:
                reason = difference(ours.output, base.output, facts.tolerance).reason
            if reason:
                raise _WrongResultError(variant, reason)

    def alarms(self) -> tuple[tuple[Variant, str], ...]:
        """Time that left the timed part and turned up elsewhere, and threads left running.

        Every round must show it: one disturbed round is noise, not a trick.
        """
        found: list[tuple[Variant, str]] = []
        for variant in self._variants[1:]:
            pairs = [(each[variant], each[Variant.BASE]) for each in self._asides]
            threads = min(ours.collected.threads - base.collected.threads for ours, base in pairs)
            if all(_moved(ours, base) for ours, base in pairs):
                saved = statistics.median(base.run_ns - ours.run_ns for ours, base in pairs)
                outside = statistics.median(_outside(ours) - _outside(base) for ours, base in pairs)
                said = (
                    f"{saved / 1e6:.1f} ms are saved inside the timed part, and "
                    f"{outside / 1e6:.1f} ms more are spent outside it; work may still be running "
                    "when the call returns"
                )
                found.append((variant, said))
            elif threads > 0:
                said = f"its calls leave {threads} more threads running than the base's; "
                found.append((variant, said + "work may still be running when the call returns"))
        return tuple(found)


def _moved(ours: Aside, base: Aside) -> bool:
    saved = base.run_ns - ours.run_ns
    outside = _outside(ours) - _outside(base)
    return saved > SAVED * base.run_ns and outside > max(MOVED_NS, MOVED * saved)


def _outside(aside: Aside) -> int:
    return aside.prepare_ns + aside.collected.waited_ns


def with_traces(
    bench: Bench,
    subject: Subject,
    found: BenchmarkRun,
    passed: tuple[Variant, ...],
    timed: TimingPass,
) -> BenchmarkRun:
    """The trace pass, on a GPU only: a CPU has no copies that could overlap."""
    if bench.backend is not Backend.CUDA:
        return found
    traces: list[TraceSummary] = []
    calls = bench.protocol.traced_calls
    try:
        for number in range(bench.protocol.trace_passes):
            for variant in passed:
                bench.tick(f"{subject.name}: tracing {variant}")
                with bench.open(variant) as talk:
                    packed = trace_once(talk, subject, bench.protocol, secrets.randbelow(1 << 31))
                bench.raw.keep(subject.name, variant, number, packed)
                traces.append(summarised(packed, variant, number, timed.rounds, calls))
        traces = _with_sites(bench, subject, traces)
    except RunnerError as problem:
        log = f"{found.log}; " if found.log else ""
        log = one_line(f"{log}no trace: {problem}", 2000)
        return replace(found, traces=tuple(traces), log=log)
    least = least_ns(traces, bench.link, calls)
    return replace(found, traces=tuple(traces), least_ns=least)


def _with_sites(bench: Bench, subject: Subject, traces: list[TraceSummary]) -> list[TraceSummary]:
    """The same, where the head's first pass knows at which lines the host waited."""
    first = next((n for n, each in enumerate(traces) if each.variant is Variant.HEAD), None)
    if first is None:
        return traces
    bench.tick(f"{subject.name}: finding the lines that wait")
    known, seed = traces[first], secrets.randbelow(1 << 31)
    with suppress(RunnerError), bench.open(Variant.HEAD) as talk:  # all else stands
        packed = trace_once(talk, subject, bench.protocol, seed, lines=True)
        known = replace(known, sites=sites(packed))
    return [*traces[:first], known, *traces[first + 1 :]]
