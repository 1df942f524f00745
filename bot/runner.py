"""The machine that measures: asks the service for a benchmark, carries it out, reports.

One benchmark at a time. The lease is renewed while it runs; when the service says that nobody
wants it any more, the measuring process and its sandbox are killed at once. When the service is
away the work goes on, and the result waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from bot.bench_result import LARGEST_RESULT
from bot.errors import BotError
from bot.logs import about, say
from bot.runner_link import AwayError, Link, RefusedError, StoppedError, patiently
from bot.runner_process import Measuring
from bot.runner_source import unpack
from bot.runner_wire import BEAT_SECONDS, PROTOCOL, Beat, Claim, Lent
from gpu_runner.errors import FormatError, RunnerError
from gpu_runner.models import BenchReport, BenchRequest
from gpu_runner.plain import one_line
from gpu_runner.records import Backend
from gpu_runner.scratch import scratch

log = logging.getLogger(__name__)
SOURCE_SECONDS = 900.0  # how long a source is tried to be had
RESULT_SECONDS = 3600.0  # how long a result waits for the service


@dataclass(frozen=True)
class Machine:
    """What an operator says about this machine."""

    name: str
    labels: tuple[str, ...] = ()
    device: str = ""  # in words
    backend: Backend = Backend.AUTO
    gpu: str | None = None
    python: Path | None = None
    image: str = ""
    version: str = ""

    @property
    def claim(self) -> Claim:
        """How it asks for work."""
        return Claim(
            name=self.name,
            labels=self.labels,
            device=one_line(self.device, 200),
            protocol=PROTOCOL,
            version=self.version,
        )

    def request(self, asked: BenchRequest, repository: Path) -> BenchRequest:
        """What is measured here; never without a sandbox."""
        return replace(
            asked,
            repository=str(repository),
            backend=self.backend,
            gpu=self.gpu,
            sandbox="auto",
        )


@dataclass
class Runner:
    """Measures for one service until it is stopped."""

    link: Link
    machine: Machine
    stopping: threading.Event = field(default_factory=threading.Event)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _task: _Task | None = None

    def ask(self) -> int:
        """Measure what waits; how many benchmarks that were. One caller at a time."""
        with self._turn:
            return self._work_off()

    def ask_if_idle(self) -> int:
        """The same, and nothing while somebody else has asked."""
        if not self._turn.acquire(blocking=False):
            return 0
        try:
            return self._work_off()
        finally:
            self._turn.release()

    def greet(self) -> None:
        """Say that this machine is there; a RefusedError tells that it cannot work there."""
        self.link.claim(self.machine.claim.model_copy(update={"wants": False}))

    def stop(self) -> None:
        """End soon; what runs is killed, and another machine gets it."""
        self.stopping.set()
        if (task := self._task) is not None:
            task.lose("the runner was stopped")

    def _work_off(self) -> int:
        done = 0
        while not self.stopping.is_set():
            lent = self.link.claim(self.machine.claim)
            if lent is None:
                break
            self._task = _Task(self, lent)
            if self.stopping.is_set():  # it was told to stop this very moment
                break
            with about(bench=lent.bench):
                self._task.carry_out()
            self._task = None
            done += 1
        return done


class _Task:
    """One benchmark in the hands of this machine."""

    def __init__(self, runner: Runner, lent: Lent) -> None:
        self.runner, self.link, self.lent = runner, runner.link, lent
        self.over = threading.Event()  # carried out, lost or stopped: whatever waits may end
        self.lost = ""
        self.beat = Beat()
        self._every = min(BEAT_SECONDS, lent.seconds / 6)
        self._beats = threading.Thread(target=self._keep, name="beats", daemon=True)

    def carry_out(self) -> None:
        """Measure and report; every ending is told to the service or the log."""
        say(log, "a benchmark begins")
        self._beats.start()
        try:
            self._measure()
            say(log, "a benchmark is done")
        except StoppedError as problem:
            say(log, "a benchmark was left", logging.WARNING, why=self.lost or str(problem))
        except RefusedError as problem:
            say(log, "the service wants it no more", logging.WARNING, why=str(problem))
        except (BotError, RunnerError) as problem:
            self._give_up(str(problem))
        except OSError as problem:
            what = problem.strerror or type(problem).__name__
            self._give_up(f"the machine could not go on ({what}); make room on it and ask again")
        except Exception as problem:
            log.exception("a benchmark failed here")
            self._give_up(f"the runner failed ({type(problem).__name__}); its log says where")
        finally:
            self.over.set()
            self._beats.join()

    # --- the lease

    def _keep(self) -> None:
        """Renew the lease until it is over; a service that is away is asked again."""
        while not self.over.wait(self._every):
            try:
                answer = self.link.beat(self.lent, self.beat)
            except AwayError:
                continue
            except BotError as problem:
                self.lose(str(problem))
                continue
            if not answer.go_on:
                self.lose(answer.why or "the service wants it no more")

    def lose(self, why: str) -> None:
        """It is nobody's business any more: what runs is killed."""
        self.lost = one_line(why)
        self.over.set()

    def _check(self) -> None:
        if self.over.is_set():
            raise StoppedError(self.lost)

    # --- the work

    def _measure(self) -> None:
        try:
            asked = BenchRequest.from_json(_json(self.lent))
        except FormatError as problem:
            raise BotError(f"the runner does not understand what is asked: {problem}") from None
        with scratch("hostside-runner-") as area:
            repository = self._fetched(area, asked)
            process = Measuring(area, self.runner.machine.python, self.runner.machine.image)
            request = self.runner.machine.request(asked, repository)
            report = process.run(request, self._progress, self.over)
            self._check()
            self._deliver(area, _as_asked(report, asked), process.traces)

    def _fetched(self, area: Path, asked: BenchRequest) -> Path:
        try:
            return patiently(lambda: self._source(area, asked), self.over, SOURCE_SECONDS)
        except AwayError as problem:
            raise BotError(
                f"the source could not be had for {SOURCE_SECONDS / 60:.0f} minutes ({problem}); "
                "ask again later"
            ) from problem

    def _source(self, area: Path, asked: BenchRequest) -> Path:
        folder = area / f"source-{time.monotonic_ns()}.git"  # a new one for every try
        with self.link.source(self.lent) as chunks:
            return unpack(self._until_over(chunks), folder, (asked.base, asked.head))

    def _until_over(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._check()
            yield chunk

    def _progress(self, beat: Beat) -> None:
        self.beat = beat

    def _deliver(self, area: Path, report: BenchReport, traces: Path) -> None:
        text = report.to_json().encode()
        if len(text) > LARGEST_RESULT:
            raise BotError(
                f"the result is larger than {LARGEST_RESULT >> 20} MiB; name fewer benchmarks: "
                "`/gpu-bench FILE::FUNCTION`"
            )
        for path in sorted(traces.glob("*.json.gz")):
            self._send(path)
        patiently(lambda: self.link.result(self.lent, text), self.over, RESULT_SECONDS)

    def _send(self, path: Path) -> None:
        """A trace that is not wanted is no reason to lose the result."""
        try:
            patiently(lambda: self.link.file(self.lent, path), self.over, RESULT_SECONDS)
        except RefusedError as problem:
            if problem.status == 409:
                raise
            say(log, "a trace was not taken", logging.WARNING, file=path.name, why=str(problem))

    def _give_up(self, sentence: str) -> None:
        sentence = one_line(sentence)
        say(log, "a benchmark was given up", logging.WARNING, why=sentence)
        try:
            patiently(lambda: self.link.problem(self.lent, sentence), self.over, RESULT_SECONDS)
        except BotError as problem:  # the lease runs out, and says less
            say(log, "the service did not hear of it", logging.WARNING, why=str(problem))


def _json(lent: Lent) -> str:
    import json

    return json.dumps(lent.request)


def _as_asked(report: BenchReport, asked: BenchRequest) -> BenchReport:
    """The report under the repository's own name, not this machine's folder."""
    request = replace(report.run.request, repository=asked.repository)
    return replace(report, run=replace(report.run, request=request))
