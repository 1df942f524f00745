"""Brings the one comment about benchmarks up to date with the table.

A job that says so reads what is the case now, so that it may come late, twice or after a crash.
"""

from __future__ import annotations

from bot import bench_words, evidence, wishes
from bot.bench_work import BenchState, Stage
from bot.benches import Benches
from bot.github_errors import GoneError
from bot.jobs import Desk, LostError, NeedlessError, end_benchmark
from bot.pulls import PullRef
from bot.work import JobSpec, Kind

NAME = "bench"  # the comment's hidden mark
ENDED = {Stage.DONE: "+1", Stage.FAILED: "confused", Stage.CANCELLED: "confused"}


def bring_up_to_date(desk: Desk, ref: PullRef, bench: int, version: int = 0) -> str:
    """What was said; `bench` 0: the pull request may have outrun whichever is under way."""
    benches = Benches(desk.store)
    state = _state(benches, ref, bench)
    if version and version < state.version:
        raise NeedlessError("a later change is said instead")
    pull = desk.client.pull(ref)
    if end_benchmark(desk.store, pull):  # its end is another change, and another job says it
        raise NeedlessError("the pull request has moved on")
    (latest,) = benches.history(ref.full_name, ref.number, most=1)
    body = bench_words.body(benches, latest, desk.pages)
    if not desk.held():
        raise LostError
    desk.client.sticky(ref, body, NAME)
    _show_end(desk, ref, state)
    if state.stage in ENDED:
        for waiting in benches.behind(state):  # each has moved up by one
            benches.say(waiting)
    _weigh_findings(desk, ref, benches, state)
    return f"{state.stage} was said"


def _state(benches: Benches, ref: PullRef, bench: int) -> BenchState:
    state = benches.active(ref.full_name, ref.number) if not bench else benches.find(bench)
    if state is None:
        raise NeedlessError("no benchmark is under way")
    return state


def _show_end(desk: Desk, ref: PullRef, state: BenchState) -> None:
    """Show on the comment that asked how it ended."""
    if state.stage in ENDED and state.order.comment:
        try:
            desk.client.react(ref, state.order.comment, ENDED[state.stage], state.order.on_line)
        except GoneError:
            return  # somebody deleted the comment


def _weigh_findings(desk: Desk, ref: PullRef, benches: Benches, state: BenchState) -> None:
    """Have the head reviewed again with what was measured, where there is a review of it."""
    order = state.order
    if state.stage is not Stage.DONE or evidence.read(benches, state) is None:
        return
    if wishes.paused_by(desk.store, order.repo, order.number):
        return
    if wishes.is_reviewed(desk.store, order.repo, order.number, order.head_sha):
        asked = {"head_sha": order.head_sha, "base_sha": order.base_sha, "asked": True}
        key = f"evidence:{state.token}"
        spec = JobSpec(key, Kind.REVIEW, order.repo, order.number, order.installation, asked)
        desk.store.enqueue(spec, "")  # rung for when this job ends
