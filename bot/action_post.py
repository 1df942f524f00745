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
    told = Told()
    if comments != "none":
        told = _told(client, ref, lambda: _spoken(client, ref, review), WRITE_PULLS)
    if check and not told.problem:
        shown = _told(client, ref, lambda: _check(client, ref, review), WRITE_CHECKS)
        told = replace(shown, posted=told.posted)
    return told


def _spoken(client: Client, ref: PullRef, review: Review) -> Plan:
    return replace(lifecycle.plan(review, client.earlier(ref), ref), check=None)


def _check(client: Client, ref: PullRef, review: Review) -> Plan:
    check = lifecycle.plan(review, client.earlier(ref), ref).check
    # The button that asks for a benchmark is answered by the App only.
    return Plan(check=replace(check, benchmark=False) if check else None)


def _told(client: Client, ref: PullRef, plan: Callable[[], Plan], line: str) -> Told:
    try:
        return Told(_patient(client, plan, ref))
    except SupersededError:
        raise
    except DeniedError as problem:
        return _denied(ref, problem, line)
    except GitHubError as problem:
        return Told(problem=f"the review could not be posted: {problem}")


def _patient(client: Client, plan: Callable[[], Plan], ref: PullRef) -> Posted:
    for attempt in range(1, _TRIES + 1):
        try:
            return client.post(ref, plan())
        except TryAgainError as problem:
            if attempt == _TRIES or problem.after > _LONGEST:
                raise
            client.wait(problem.after)
    raise AssertionError("the loop returns or raises")


_LACKS = {
    WRITE_PULLS: "write to pull requests, so the review is not on the pull request",
    WRITE_CHECKS: "show a check of its own",
}


def _denied(ref: PullRef, problem: DeniedError, line: str) -> Told:
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
    return Told(
        problem=(
            f"the token may not {_LACKS[line]}; add `{line}` to the job's `permissions:` "
            "in the workflow"
        ),
    )
