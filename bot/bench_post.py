"""The result of a benchmark without a server: what a job left is checked and shown.

The measuring job ran a stranger's code, so its artifact is read as `bot.bench_artifact` reads any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bot import bench_words
from bot.bench_artifact import NAME, left_by, report_of
from bot.bench_gate import Step, failed, passing_store, show
from bot.bench_inputs import TOKEN, request_of_order, unpacked_patch
from bot.bench_result import ResultError
from bot.bench_run_words import FAILED, NO_ARTIFACT, UNREADABLE
from bot.bench_work import BenchState, Order, Refused
from bot.benches import LEASE_SECONDS, Benches
from bot.errors import UsageError
from bot.github import connect_workflows

_ENDED = {
    "cancelled": "its run was cancelled, or a newer one of this pull request took its place; ask "
    "again if it is still wanted",
    "skipped": "its measuring job was skipped; the run's page says why",
}


def post(environment: Mapping[str, str]) -> str:
    """What was shown, in words."""
    step = Step(environment)
    order, token = _order(step)
    client = step.client()
    try:
        with passing_store() as store:
            benches = Benches(store)
            state = benches.order(order, "this")
            assert not isinstance(state, Refused)
            report, why = _result(step, order, token)
            done = bool(report)
            body = _shown(step, benches, state, report) if done else failed(benches, state, why)
        show(client, step.ref(order.number), body, order.comment, done)
    finally:
        client.close()
    return why or "the report was shown"


def _order(step: Step) -> tuple[Order, str]:
    token = step.named("HOSTSIDE_BENCH_BENCH")
    try:
        order = Order.from_text(step.named("HOSTSIDE_BENCH_ORDER"))
        patch = unpacked_patch(step.environment.get("HOSTSIDE_BENCH_PATCH", ""))
    except (ValueError, TypeError, KeyError):
        raise UsageError("HOSTSIDE_BENCH_ORDER is not what `hostside bench gate` gave") from None
    if not TOKEN.match(token) or order.repo != step.repo:
        raise UsageError("HOSTSIDE_BENCH_BENCH is not what `hostside bench gate` gave")
    return replace(order, patch=patch), token


def _result(step: Step, order: Order, token: str) -> tuple[str, str]:
    """The report as JSON, or else why there is none."""
    ended = step.environment.get("HOSTSIDE_BENCH_ENDED", "")
    if ended in _ENDED:
        return "", _ENDED[ended]
    workflows = connect_workflows(
        step.access, token=step.named("GITHUB_TOKEN"), repository=step.repo
    )
    try:
        left = left_by(workflows, step.repo, int(step.named("GITHUB_RUN_ID")))
        if left is None:
            return "", FAILED if ended == "failure" else NO_ARTIFACT.format(name=NAME)
        if left.problem:
            return "", left.problem
        return report_of(request_of_order(order, token), left).to_json(), ""
    except ResultError as problem:
        return "", UNREADABLE.format(why=problem)
    finally:
        workflows.close()


def _shown(step: Step, benches: Benches, state: BenchState, report: str) -> str:
    held = benches.take(state.id, step.address, LEASE_SECONDS)
    assert held is not None
    benches.deliver(state.id, held.lease, report)
    text = bench_words.body(benches, benches.get(state.id))
    return f"{text}\n\n<sub>[The run]({step.address}) has the raw result and the traces.</sub>"
