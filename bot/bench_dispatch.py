"""A benchmark measured by a workflow run: started once, watched, its artifact taken or refused.

One look does one step and may die anywhere: what was sent is noted before it is sent, the run is
found again by the benchmark's token in its name, and a report is taken once.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace

from bot import bench_run_words as words
from bot.bench_artifact import NAME, Left, left_by, report_of
from bot.bench_inputs import inputs_of
from bot.bench_outside import NOTHING, SENDING, SENT, OutsideBenches
from bot.bench_result import ResultError, request_of
from bot.bench_work import MOST_QUEUED_SECONDS, RUN_TITLE, BenchState, Progress, Stage
from bot.github_actions import WorkflowRun, Workflows
from bot.github_errors import (
    DeniedError,
    GitHubError,
    GoneError,
    TryAgainError,
    UnsureError,
)

log = logging.getLogger(__name__)
FIND_SECONDS = 300.0  # until a run that was started must be seen in GitHub's lists
SURE_SECONDS = 120.0  # until a run that may have been started, and is not seen, was not
MOST_RUNNING_SECONDS = 6 * 3600.0
MOST_SECONDS = 24 * 3600.0  # from the order to the end, should GitHub not answer
_EARLIER = 120.0  # GitHub's clock may be behind ours
_DOING = "measuring; GitHub Actions does not tell how far it is"


@dataclass(frozen=True)
class Seen:
    """What a look found; unless `settled`, there is to be another."""

    words: str
    settled: bool = False


def look(benches: OutsideBenches, workflows: Workflows, token: str) -> Seen:
    """Take the next step for this benchmark; limits and outages are left to the next look."""
    bench = benches.by_token(token)
    if bench is None:
        return Seen("there is no such benchmark", settled=True)
    try:
        return _Look(benches, workflows, bench).step()
    except TryAgainError as problem:
        if time.time() - bench.created < MOST_SECONDS:
            return Seen(f"{problem}; looked at again later")
        return _failed(benches, bench, words.AWAY.format(problem=problem))
    except ResultError as problem:
        return _failed(benches, bench, str(problem))
    except DeniedError as problem:
        return _failed(benches, bench, words.denied(problem))
    except GitHubError as problem:
        return _failed(benches, bench, f"its workflow run cannot be followed: {problem}")
    except Exception:  # nobody else is there to hear of it
        log.exception("a look at a workflow run failed")
        return _failed(benches, bench, words.INTERNAL)


def _failed(benches: OutsideBenches, bench: BenchState, why: str) -> Seen:
    """Give it up; whether a run is to be stopped is for the next look to see."""
    if not benches.fail(bench.id, why):  # it had ended, and its run cannot be stopped
        benches.note(benches.get(bench.id), NOTHING)
    return Seen(why)


@dataclass(frozen=True)
class _Look:
    benches: OutsideBenches
    workflows: Workflows
    bench: BenchState

    @property
    def repo(self) -> str:
        return self.bench.order.repo

    @property
    def waited(self) -> float:
        """Seconds since the run was asked for, or began."""
        return time.time() - self.bench.started

    def step(self) -> Seen:
        if not self.bench.active:
            return self._stop()
        if self.bench.external == NOTHING:
            return self._start()
        if self.bench.external in (SENDING, SENT):
            return self._find()
        return self._watch()

    # --- starting

    def _start(self) -> Seen:
        if other := self.benches.in_front(self.bench):
            return Seen(f"{other.subject} is measured first")
        inputs = inputs_of(self.bench.order, self.bench.token)
        branch = self.workflows.default_branch(self.repo)
        if not self.benches.note(self.bench, SENDING):
            return Seen("somebody else has started or cancelled it")
        bench = replace(self.bench, external=SENDING)
        try:
            number = self.workflows.dispatch(self.repo, bench.order.workflow, branch, inputs)
        except UnsureError:
            return Seen("whether GitHub started it is not known")
        except TryAgainError:
            self.benches.note(bench, NOTHING)
            raise
        except GitHubError as problem:
            self.benches.note(bench, NOTHING)
            return _failed(
                self.benches, bench, words.refused(problem, bench.order.workflow, branch)
            )
        self.benches.note(bench, number or SENT)
        return Seen(f"run {number} was started" if number else "a run was started")

    def _find(self) -> Seen:
        run = self._found()
        if run is not None:
            self.benches.note(self.bench, run.id)
            return Seen(f"run {run.id} was found")
        if self.bench.external == SENDING and self.waited > SURE_SECONDS:
            self.benches.note(self.bench, NOTHING)  # the request never arrived
            return Seen("no run was started; it is asked for again")
        if self.waited > FIND_SECONDS:
            self.benches.note(self.bench, NOTHING)
            why = words.NO_RUN.format(workflow=self.bench.order.workflow)
            self.benches.fail(self.bench.id, why)
            return Seen(why, settled=True)
        return Seen("its run is not to be seen yet")

    def _found(self) -> WorkflowRun | None:
        order, title = self.bench.order, RUN_TITLE.format(self.bench.token)
        branch = self.workflows.default_branch(self.repo)
        since = self.bench.started - _EARLIER
        return self.workflows.find(self.repo, order.workflow, branch, title, since)

    # --- watching

    def _watch(self) -> Seen:
        try:
            run = self.workflows.run(self.repo, self.bench.external)
        except GoneError:
            return self._end(words.RUN_GONE)
        if run.status == "completed":
            return self._finish(run)
        if run.status == "in_progress":
            return self._goes_on(run)
        if self.bench.stage is Stage.QUEUED and self.waited > MOST_QUEUED_SECONDS:
            labels = ", ".join(f"`{name}`" for name in words.labels_of(self.bench.order.gpu))
            return _failed(self.benches, self.bench, words.NO_RUNNER.format(labels=labels))
        return Seen(f"its run is {run.status}")

    def _goes_on(self, run: WorkflowRun) -> Seen:
        if self.bench.stage is Stage.QUEUED:
            self.benches.taken_by(self.bench, run.html_url)
            return Seen("a machine has taken it")
        if self.waited > MOST_RUNNING_SECONDS:
            return _failed(self.benches, self.bench, words.TOO_LONG)
        held = self.benches.taken_by(self.bench, run.html_url)
        if held is not None and self.bench.stage is Stage.PREPARING:
            self.benches.beat(self.bench.id, held.lease, Progress(doing=_DOING), held.seconds)
        return Seen("its run goes on")

    def _end(self, why: str) -> Seen:
        """Give it up when there is nothing left to stop."""
        self.benches.fail(self.bench.id, why)
        self.benches.note(self.benches.get(self.bench.id), NOTHING)
        return Seen(why, settled=True)

    # --- the result

    def _finish(self, run: WorkflowRun) -> Seen:
        if run.conclusion not in ("success", "failure"):
            return self._end(words.ENDED.get(run.conclusion or "", words.FAILED))
        try:
            left = left_by(self.workflows, self.repo, run.id)
        except ResultError as problem:
            return self._end(words.UNREADABLE.format(why=problem))
        if left is None:
            gone = words.FAILED if run.conclusion == "failure" else words.NO_ARTIFACT
            return self._end(gone.format(name=NAME))
        if left.problem:
            return self._end(left.problem)
        return self._deliver(run, left)

    def _deliver(self, run: WorkflowRun, left: Left) -> Seen:
        try:
            report = report_of(request_of(self.bench), left).to_json()
        except ResultError as problem:
            return self._end(words.UNREADABLE.format(why=problem))
        held = self.benches.taken_by(self.bench, run.html_url)
        if held is None:
            return Seen("it was cancelled meanwhile")
        self.benches.deliver(self.bench.id, held.lease, report, left.files)
        return Seen("its report was taken", settled=True)

    # --- stopping

    def _stop(self) -> Seen:
        """Stop the run of a benchmark that nobody waits for any more."""
        if self.bench.stage is Stage.DONE or self.bench.external == NOTHING:
            return Seen("it has ended", settled=True)
        if self.bench.external in (SENDING, SENT):
            run = self._found()
            if run is None:
                if self.waited <= FIND_SECONDS:
                    return Seen("its run is not to be seen yet")
                self.benches.note(self.bench, NOTHING)
                return Seen("it has ended before a run was started", settled=True)
            self.workflows.cancel(self.repo, run.id)
        else:
            self.workflows.cancel(self.repo, self.bench.external)
        self.benches.note(self.bench, NOTHING)
        return Seen("its run was stopped", settled=True)
