"""A request for a benchmark becomes a report: trees, selection, gate, rounds, traces, verdicts."""

from __future__ import annotations

import itertools
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from gpu_runner.building import Trees, benches_commit, built
from gpu_runner.conversation import Conversation
from gpu_runner.device import Found, find, with_link
from gpu_runner.errors import RunnerError
from gpu_runner.gate import Subject
from gpu_runner.measure import Bench, measured
from gpu_runner.modelling import NOTE, modelled
from gpu_runner.models import BenchmarkRun, BenchReport, BenchRequest, BenchRun
from gpu_runner.plain import one_line
from gpu_runner.raw_traces import RawTraces
from gpu_runner.records import Backend, Environment, Variant
from gpu_runner.sandbox import choose
from gpu_runner.select import Benchmark, Read, Selection, discover, enclosing, select
from gpu_runner.stats import plan_rounds
from gpu_runner.tree import Change, Repository
from gpu_runner.verdict import report
from gpu_runner.workshop import Workshop, interpreter

NO_OVERLAP = "Copy/compute overlap was not measured: the code ran on a CPU, which has none."
UNBOXED = "The code ran without a sandbox, as the settings asked for."


@dataclass(frozen=True)
class Settings:
    """What the operator decides, never the request: the interpreter and the container image."""

    python: Path | None = None
    image: str | None = None
    traces: Path | None = None  # folder for the raw traces


@dataclass(frozen=True)
class Progress:
    """Processes that have run, out of those that are planned at most, and the one at work."""

    done: int
    total: int
    doing: str


Listen = Callable[[Progress], None]


def listed(
    repository: Repository, commit: str, modelled: bool = False, own: Sequence[str] = ()
) -> tuple[Benchmark, ...]:
    """The benchmarks of a commit, read without running anything."""
    return discover(repository.files(commit), reader(repository, commit), modelled, own)


def reader(repository: Repository, commit: str) -> Read:
    """Reads text files of a commit; anything else is None."""

    def read(path: str) -> str | None:
        content = repository.read(commit, path)
        return None if content is None else content.decode("utf-8", "replace")

    return read


def run_bench(
    request: BenchRequest,
    settings: Settings | None = None,
    listen: Listen = lambda _: None,
) -> BenchReport:
    """The whole protocol for a local checkout, and what may be said about its result."""
    return report(_Run(request, settings or Settings(), listen).run())


class _Run:
    """One request being carried out."""

    def __init__(self, request: BenchRequest, settings: Settings, listen: Listen) -> None:
        self.request = request
        self.listen = listen
        self.started = time.monotonic()
        self.traces = RawTraces(settings.traces)
        self.date = datetime.now(UTC).isoformat(timespec="seconds")
        self.repository = Repository.around(Path(request.repository))
        self.found: Found = find(request.backend, request.gpu)
        if self.found.backend is Backend.CUDA and self.found.device is not None:
            self.found = with_link(self.found, self.found.device)
        self.workshop = Workshop(
            interpreter(settings.python),
            choose(request.sandbox, settings.image),
            self.found.backend,
            request.limits,
            self.found.device.identifier if self.found.device else None,
            settings.image,
        )
        self.done = self.total = 0

    def run(self) -> BenchRun:
        """Everything that could be measured; what could not is said in the run."""
        selection = self._selection()
        if not selection.chosen:
            return replace(self._blank(), problem=selection.reason, offer=selection.offer)
        with built(self.request, self.repository, selection.chosen) as trees:
            benchmarks, notes = self._benchmarks(trees, selection)
            run = replace(
                self._blank(),
                environment=self._environment(trees),
                builds=trees.builds,
                benchmarks=benchmarks,
            )
        problem = _nothing(benchmarks)
        return replace(run, notes=(*run.notes, *notes), problem=problem, seconds=self._seconds())

    def _selection(self) -> Selection:
        request, commit = self.request, benches_commit(self.request)
        modelled = self.found.backend is Backend.MODEL
        found = listed(self.repository, commit, modelled, request.paths)
        changed = [each.path for each in self._changes()]
        selection = select(found, changed, request.targets, reader(self.repository, commit))
        if selection.chosen or not found or request.targets or request.base != request.head:
            return selection
        return Selection(found, "base and head are the same commit: all benchmarks")

    def _changes(self) -> tuple[Change, ...]:
        return self.repository.changes(self.request.base, self.request.head)

    def _blank(self) -> BenchRun:
        notes = {Backend.CPU: (NO_OVERLAP,), Backend.MODEL: (NOTE,)}.get(self.found.backend, ())
        if self.workshop.isolation == "none":
            notes = (*notes, UNBOXED)
        if self.found.device is not None and self.found.device.shared:
            notes = (*notes, "Other processes use this GPU: shared GPU, times are less certain.")
        return BenchRun(
            self.request,
            self.found.backend,  # pyright: ignore[reportArgumentType]  (never `auto`)
            self.date,
            self._seconds(),
            Environment(
                platform.python_version(),
                one_line(platform.platform(), 300),
                sandbox=self.workshop.isolation.value,
            ),
            self.found.device,
            notes=notes,
        )

    def _seconds(self) -> float:
        return time.monotonic() - self.started

    def _environment(self, trees: Trees) -> Environment:
        """What the process under test says about itself, and what we set for it."""
        with self.workshop.process(trees.sources[Variant.BASE], trees.benches) as talk:
            hello = talk.hello()
        return Environment(
            one_line(hello.python, 300),
            one_line(hello.system, 300),
            tuple(
                (one_line(name, 300), one_line(version, 300)) for name, version in hello.packages
            ),
            tuple((key, value) for key, value in self.workshop.variables()),
            self.workshop.isolation.value,
            os.getloadavg()[0],
        )

    def _benchmarks(
        self, trees: Trees, selection: Selection
    ) -> tuple[tuple[BenchmarkRun, ...], tuple[str, ...]]:
        if self.found.backend is Backend.MODEL:
            each_one = (
                modelled(self.request, self.workshop, trees, self.repository, one, self.traces)
                for one in selection.chosen
            )
            return tuple(itertools.chain.from_iterable(each_one)), ()
        subjects, broken = self._subjects(trees, selection.chosen)
        bench = self._bench(trees, subjects)
        runs: list[BenchmarkRun] = [*broken]
        notes: list[str] = []
        for subject in subjects:
            found = measured(bench, subject)
            if found is None:
                notes.append(f"{subject.name} executes no changed function and was left out.")
            else:
                runs.append(found)
        return tuple(runs), tuple(notes[:90])

    def _subjects(
        self, trees: Trees, chosen: Sequence[Benchmark]
    ) -> tuple[list[Subject], list[BenchmarkRun]]:
        """The cases of every chosen benchmark, as the head's process lists them."""
        subjects: list[Subject] = []
        broken: list[BenchmarkRun] = []
        for one in {each.path: each for each in chosen}.values():
            ours = {each.name: each for each in chosen if each.path == one.path}
            try:
                with self.workshop.process(trees.sources[Variant.HEAD], trees.benches) as talk:
                    subjects += _wanted(talk, one, ours)
            except RunnerError as problem:
                said = one_line(f"its cases cannot be listed: {problem}", 2000)
                broken.append(
                    BenchmarkRun(one.path[:300], one.kind, variants=trees.variants, problem=said)
                )
        return subjects, broken

    def _bench(self, trees: Trees, subjects: Sequence[Subject]) -> Bench:
        request = self.request
        rounds = plan_rounds(request.protocol, trees.variants).looks[-1]
        passes = request.protocol.trace_passes if self.found.backend is Backend.CUDA else 0
        each = len(trees.variants) * (1 + rounds + passes) + bool(passes)
        self.total = len(subjects) * each
        return Bench(
            self.found.backend,
            request.protocol,
            request.limits,
            trees.variants,
            lambda variant: self.workshop.process(trees.sources[variant], trees.benches),
            self.found.clocks,
            self._tick,
            self.started + request.limits.run_seconds,
            self.found.device.link if self.found.device else None,
            self._executes({each.benchmark.path for each in subjects}),
            self.traces,
        )

    def _tick(self, doing: str) -> None:
        self.listen(Progress(self.done, max(self.total, self.done), doing))
        self.done += 1

    def _executes(self, benches: set[str]) -> Callable[[dict[str, list[int]]], bool] | None:
        """Whether executed functions include a changed one; None when that is not to be asked."""
        changes = self._changes()
        if self.request.targets or any(each.path in benches for each in changes):
            return None
        read = reader(self.repository, self.request.head)
        changed: set[tuple[str, int]] = set()
        for change in changes:
            text = read(change.path)
            lines = enclosing(text, change.added) if text is not None and change.added else None
            if lines is None:  # a deletion, or code outside any function: whatever imports it
                return None
            changed.update((change.path, line) for line in lines)
        if not changed:
            return None
        return lambda touched: any(
            (path, line) in changed for path, lines in touched.items() for line in lines
        )


def _nothing(benchmarks: Sequence[BenchmarkRun]) -> str | None:
    """Why there is no number and no verdict at all, or None when there is one."""
    if not benchmarks:
        return "no benchmark executes a changed function; name one"
    if any(each.rounds or (each.correctness and not each.problem) for each in benchmarks):
        return None
    said = next((each.problem for each in benchmarks if each.problem), None)
    first = f"{benchmarks[0].name}: {said}"
    more = f" (and {len(benchmarks) - 1} more)" if len(benchmarks) > 1 else ""
    return one_line(f"no benchmark could be timed; {first}", 1900) + more


def _wanted(talk: Conversation, one: Benchmark, ours: dict[str, Benchmark]) -> list[Subject]:
    """The listed cases that belong to chosen benchmarks of the file."""
    found: list[Subject] = []
    for index, facts in enumerate(talk.cases(one)):
        name = facts.name
        if one.kind == "pytest-benchmark":  # file::Class::test[parameters]
            name = name.partition("::")[2].partition("[")[0]
        if name in ours:
            found.append(Subject(ours[name], index, facts))
    return found
