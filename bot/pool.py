"""Work on strangers' files in child processes that may die without harm.

`run` uses as many children as there are cores. A file that crashes its child, exhausts its memory
or outlives its time limit costs one result, which says so; everybody else's work goes on.
"""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

J = TypeVar("J")
R = TypeVar("R")

TIME_LIMIT = 15.0  # seconds for one file; the analysis keeps itself to less
MEMORY_LIMIT = 3 << 30  # bytes of address space for one child
LARGEST_BATCH = 48
_TICK = 0.25
_GARBAGE = 150_000  # objects made and not freed, until cycles among them are looked for
_START = 20.0  # seconds until a child must have begun
_GRACE = 2.0  # seconds until a child ends itself that nobody ended


@dataclass(frozen=True)
class Task(Generic[J, R]):
    """What to do with each job, and what stands for a job that could not be done."""

    work: Callable[[J], R]
    failed: Callable[[J, str], R]
    time_limit: float = TIME_LIMIT
    workers: int = 0  # 0: one for each core


def run(
    task: Task[J, R], jobs: Sequence[J], weights: Sequence[int] = ()
) -> Iterator[tuple[int, R]]:
    """Each job's number and result, as they come; exactly one for each job.

    `weights` say how the jobs compare: the heaviest come first, so that all children end together.
    """
    if not jobs:
        return
    count = min(task.workers or os.cpu_count() or 1, len(jobs))
    queue = deque(_batches(weights or [1] * len(jobs), count))
    crew = [_Worker(task, jobs) for _ in range(count)]
    try:
        for worker in crew:
            worker.take(queue)
        while any(worker.batch for worker in crew):
            busy = {worker.pipe: worker for worker in crew if worker.batch}
            for pipe in wait(list(busy), timeout=_TICK):
                yield from busy[pipe].receive()  # type: ignore[index]  # wait() gives back ours
            for place, worker in enumerate(crew):
                if reason := worker.trouble():
                    crew[place] = _Worker(task, jobs)
                    yield from worker.give_up(reason, queue)
            for worker in crew:
                if not worker.batch:
                    worker.take(queue)
    finally:
        for worker in crew:
            worker.stop()


def run_here(task: Task[J, R], jobs: Sequence[J]) -> Iterator[tuple[int, R]]:
    """As `run`, in this process: for a few small files whose shape was checked first."""
    for number, job in enumerate(jobs):
        yield number, _attempt(task, job)


def _batches(weights: Sequence[int], workers: int) -> Iterator[list[int]]:
    order = sorted(range(len(weights)), key=lambda number: -weights[number])
    share = sum(weights) / (workers * 16)
    batch: list[int] = []
    held = 0
    for number in order:
        batch.append(number)
        held += weights[number]
        if held >= share or len(batch) == LARGEST_BATCH:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _attempt(task: Task[J, R], job: J) -> R:
    try:
        return task.work(job)
    except MemoryError:
        return task.failed(job, "Its analysis needs more memory than one file may use.")
    except RecursionError:
        return task.failed(job, "It is nested too deeply.")
    except Exception as problem:  # one file's oddity must not end the run
        return task.failed(job, f"Internal error ({type(problem).__name__}: {problem}).")


@dataclass
class _Worker(Generic[J, R]):
    """One child, its pipe, and the batch it is working on."""

    task: Task[J, R]
    jobs: Sequence[J]
    batch: list[int] = field(default_factory=list[int])
    dead: bool = False

    def __post_init__(self) -> None:
        context: Any = multiprocessing.get_context(_way_to_start())
        # What the child works on and since when, readable even after it died.
        self.at = context.RawArray("d", 2)
        ours, theirs = context.Pipe()
        self.pipe: Connection[Any, Any] = ours
        arguments = (theirs, ours, self.task, self.at)
        self.process: BaseProcess = context.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()

    def take(self, queue: deque[list[int]]) -> None:
        if not queue:
            return
        self.batch = queue.popleft()
        # The child sets its own clock once it has begun; starting may take long on a busy machine.
        self.at[0], self.at[1] = self.batch[0], time.monotonic() + _START
        try:
            self.pipe.send([(number, self.jobs[number]) for number in self.batch])
        except OSError:
            self.dead = True  # it died while idle; `trouble` tells

    def receive(self) -> Iterator[tuple[int, R]]:
        try:
            results: list[tuple[int, R]] = self.pipe.recv()
        except (EOFError, OSError):
            self.dead = True
            return
        done = {number for number, _ in results}
        self.batch = [number for number in self.batch if number not in done]
        yield from results

    def trouble(self) -> str:
        """Why its batch will never be finished, or an empty string."""
        late = self.batch and time.monotonic() - self.at[1] > self.task.time_limit
        if self.dead and not late:
            return "Its analysis crashed."
        if late:
            return f"Its analysis took longer than {self.task.time_limit:g} seconds."
        return ""

    def give_up(self, reason: str, queue: deque[list[int]]) -> Iterator[tuple[int, R]]:
        """Blame the job in hand, put the rest of the batch back."""
        self.stop()
        culprit = int(self.at[0])
        rest = [number for number in self.batch if number != culprit]
        if rest:
            queue.appendleft(rest)
        if culprit in self.batch:
            yield culprit, self.task.failed(self.jobs[culprit], reason)
        self.batch = []

    def stop(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _way_to_start() -> str:
    """How children are made: the fastest way that is safe here."""
    if sys.platform != "linux":
        return "spawn"
    # Forking a process with threads may copy a held lock; a server without threads, which has
    # read everything once, forks them instead.
    if threading.active_count() == 1:
        return "fork"
    multiprocessing.get_context("forkserver").set_forkserver_preload(["bot.warm"])
    return "forkserver"


def _serve(
    pipe: Connection[Any, Any], other_end: Connection[Any, Any], task: Task[J, R], at: Any
) -> None:
    """The child's life: batches in, results out, until the pipe closes."""
    other_end.close()  # or it would never see its parent go
    faulthandler.disable()  # a crash is reported by the parent, in one sentence
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers Ctrl-C for all
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, MEMORY_LIMIT)
    # Trees die when their last name does. Looking for cycles while one grows would take half as
    # long again as the parser; it is done between files, when enough has gathered.
    gc.freeze()
    gc.disable()
    while True:
        try:
            batch: list[tuple[int, J]] = pipe.recv()
        except (EOFError, OSError):
            return
        results: list[tuple[int, R]] = []
        sent = time.monotonic()
        for number, job in batch:
            at[1], at[0] = time.monotonic(), number
            # Should the parent be gone, nobody else will end an endless loop.
            signal.setitimer(signal.ITIMER_REAL, task.time_limit + _GRACE)
            results.append((number, _attempt(task, job)))
            signal.setitimer(signal.ITIMER_REAL, 0)
            if gc.get_count()[0] > _GARBAGE:
                gc.collect()
            if time.monotonic() - sent > _TICK:
                pipe.send(results)
                results, sent = [], time.monotonic()
        # While the parent is slow to read, nobody may be blamed for the wait.
        at[1] = float("inf")
        pipe.send(results)


def _limit(kind: int, wanted: int) -> None:
    _, hard = resource.getrlimit(kind)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (allowed, hard))
