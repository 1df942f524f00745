"""How far a long run is, on a terminal; nothing anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from bot.examine import Examined, Job, Runner
from bot.pool import Task

MANY = 40  # jobs; fewer are done before anybody wonders


def watched(run: Runner, what: str) -> Runner:
    """The same runner, which shows its progress on standard error if that is a terminal."""

    def show(task: Task[Job, Examined], jobs: Sequence[Job]) -> Iterator[tuple[int, Examined]]:
        results = run(task, jobs)
        if len(jobs) < MANY or not sys.stderr.isatty():
            yield from results
            return
        step = max(1, len(jobs) // 100)
        for count, result in enumerate(results, 1):
            if count % step == 0 or count == len(jobs):
                print(f"\r{count:,} of {len(jobs):,} {what}", end="", file=sys.stderr, flush=True)
            yield result
        print("\r\033[K", end="", file=sys.stderr, flush=True)

    return show
