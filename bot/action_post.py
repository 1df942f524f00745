"""The review on the pull request, or the reason why it is not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bot import lifecycle
from bot.action_needs import WRITE_CHECKS, WRITE_PULLS
from bot.diff import Placement
from bot.errors import BotError
from bot.github_client import Client
from bot.github_errors import DeniedError, GitHubError, SupersededError, TryAgainError
from bot.pulls import Plan, Posted, PullRef
from bot.review import Review

_TRIES = 3
_LONGEST = 60.0  # seconds between two tries; a runner's time costs money


@dataclass(frozen=True)
class Told:
    """What the pull request got."""

    posted: Posted | None = None
    problem: str = ""  # why it got nothing
    later: bool = False  # whether the workflow that follows may post instead


def post(client: Client, ref: PullRef, review: Review, comments: str, check: bool) -> Told:
    """Speak on the pull request as far as the token may; SupersededError when it moved on."""
    if comments == "summary":
        folded = [replace(c, placement=Placement.SUMMARY) for c in review.comments]
        review = replace(review, comments=tuple(folded))
    if comments == "none" and not check:
        return Told()
    try:
        return Told(_patient(client, lambda: _plan(client, ref, review, comments, check), ref))
    except SupersededError:
        raise
    except DeniedError as problem:
        return _denied(ref, problem, check)
    except GitHubError as problem:
        return Told(problem=f"the review could not be posted: {problem}")


def _plan(client: Client, ref: PullRef, review: Review, comments: str, check: bool) -> Plan:
    plan = lifecycle.plan(review, client.earlier(ref), ref)
    if comments == "none":
        plan = Plan(check=plan.check)
    # The button that asks for a benchmark is answered by the App only.
    shown = replace(plan.check, benchmark=False) if plan.check and check else None
    return replace(plan, check=shown)


def _patient(client: Client, plan: Callable[[], Plan], ref: PullRef) -> Posted:
    for attempt in range(1, _TRIES + 1):
        try:
            return client.post(ref, plan())
        except TryAgainError as problem:
            if attempt == _TRIES or problem.after > _LONGEST:
                raise
            client.wait(problem.after)
    raise AssertionError("the loop returns or raises")


def _denied(ref: PullRef, problem: DeniedError, check: bool) -> Told:
    if problem.status == 401:
        raise BotError("GitHub does not accept the token; check the input `token`") from problem
    if ref.from_fork:
        return Told(
            problem=(
                "the token of a pull request from a fork may only read, so the review is not on "
                "the pull request; the workflow hostside-post.yml posts it from a run of its own"
            ),
            later=True,
        )
    lines = f"`{WRITE_PULLS}`" + (f" and `{WRITE_CHECKS}`" if check else "")
    return Told(
        problem=(
            "the token may not write to pull requests, so the review is not on the pull request; "
            f"add {lines} to the job's `permissions:` in the workflow"
        ),
    )
