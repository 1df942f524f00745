"""What a job does to a pull request: review it, or answer a command on it.

Nothing here knows the queue: a job returns what became of it, or raises why nothing did. Each can
be done again from its start after a crash at any point, for GitHub is asked first what is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bot import baseline, evidence, lifecycle, wishes
from bot import config as configuration
from bot.bench_work import Quota
from bot.benches import Benches
from bot.config import RepoConfig
from bot.config_nearest import for_change
from bot.diff import ChangedFile
from bot.errors import ConfigError
from bot.examine import Runner, in_children
from bot.github_errors import GitHubError, SupersededError
from bot.pulls import Check, Plan, Posted, Pull, PullClient, PullRef
from bot.review import Review, build_review
from bot.skipping import reason_to_skip
from bot.store import Store
from bot.wishes import Reviewed

CLOSED = "the pull request was closed"
PUSHED = (
    "a newer push replaced the commit that was to be measured; `/gpu-bench` measures the new one"
)


class NeedlessError(Exception):
    """There is a reason to leave the pull request alone."""


class LostError(Exception):
    """Another worker holds this job by now."""


@dataclass(frozen=True)
class Desk:
    """What a job works with."""

    client: PullClient
    store: Store
    held: Callable[[], bool] = lambda: True  # whether the job is still this worker's
    run: Runner = in_children
    quota: Quota = field(default_factory=Quota)
    pages: str = ""  # address of this service's pages; empty: they cannot be reached from outside


def review_pull(desk: Desk, ref: PullRef, asked: bool = False) -> str:
    """Review the head; what became of it. `asked`: a person wants it, draft or not."""
    started = time.monotonic()
    pull = _current(desk, ref)
    ref = pull.ref
    config = configuration.load(desk.client.reader(ref))
    silent = wishes.ignored(desk.store, ref.full_name, ref.number)
    if not asked:
        _look_for_reasons(desk, pull, config)
    files, review = judged(desk, ref, config)
    measured = evidence.of_head(desk.store, ref, desk.pages)
    review = evidence.weighed(review, files, measured)
    plan = lifecycle.plan(review, desk.client.earlier(ref), ref, silent, measured.effects)
    posted = _post(desk, ref, plan if config.check_run else replace(plan, check=None))
    _record(desk, ref, review, posted, time.monotonic() - started)
    return f"{review.conclusion}: {len(review.comments)} findings, {posted.comments} new comments"


def judged(desk: Desk, ref: PullRef, config: RepoConfig) -> tuple[tuple[ChangedFile, ...], Review]:
    """The changed files at this head, and the review of them."""
    read = desk.client.reader(ref)
    silent = wishes.ignored(desk.store, ref.full_name, ref.number)
    files = desk.client.changed_files(ref)
    wanted = for_change(config, read, files).ignoring(silent)
    review = build_review(files, wanted, desk.run, str(ref), baseline.load(config, read))
    return files, review


def end_benchmark(store: Store, pull: Pull) -> bool:
    """Whether a benchmark was under way that this pull request has outrun, and is cancelled now."""
    benches, repo, number = Benches(store), pull.ref.full_name, pull.ref.number
    if not pull.open:
        return benches.cancel_of(repo, number, CLOSED)
    return benches.cancel_of(repo, number, PUSHED, keep_head=pull.ref.head_sha)


def _current(desk: Desk, ref: PullRef) -> Pull:
    pull = desk.client.pull(ref)
    end_benchmark(desk.store, pull)
    if not pull.open:
        raise NeedlessError("the pull request is closed")
    if ref.head_sha and pull.ref.head_sha != ref.head_sha:
        raise SupersededError(f"{ref} moved to {pull.ref.head_sha[:12]} before it was looked at")
    return pull


def _look_for_reasons(desk: Desk, pull: Pull, config: RepoConfig) -> None:
    """Raise the reason to leave this pull request alone, if there is one."""
    if by := wishes.paused_by(desk.store, pull.ref.full_name, pull.ref.number):
        raise NeedlessError(f"paused by {by}")
    if reason := reason_to_skip(pull, config):
        raise NeedlessError(reason)


def _post(desk: Desk, ref: PullRef, plan: Plan) -> Posted:
    if not desk.held():
        raise LostError
    return desk.client.post(ref, plan)


def _record(desk: Desk, ref: PullRef, review: Review, posted: Posted, seconds: float) -> None:
    row = Reviewed(
        ref.full_name,
        ref.number,
        ref.head_sha,
        review.conclusion.value,
        len(review.comments),
        posted.comments + posted.files,
        seconds,
    )
    wishes.record(desk.store, row)


def explain_failure(desk: Desk, ref: PullRef, problem: str) -> None:
    """Say on the commit that it was not reviewed, as far as GitHub lets us."""
    title = "This commit was not reviewed"
    text = f"{problem.rstrip('.')}. Nothing is known about it; `/hostside review` tries again."
    try:
        pull = desk.client.pull(ref)
        if pull.open and pull.ref.head_sha == (ref.head_sha or pull.ref.head_sha):
            desk.client.post(pull.ref, Plan(check=Check("neutral", title, text)))
    except GitHubError:
        return  # the job table says it all the same


def explain_configuration(desk: Desk, ref: PullRef, problem: ConfigError) -> None:
    """Answer a broken configuration with its mistake, once for each."""
    import hashlib

    from bot.neutral import prose

    digest = hashlib.sha256(str(problem).encode()).hexdigest()[:16]
    text = (
        f"Hostside cannot follow its configuration on the base branch: {prose(str(problem))}\n\n"
        "Nothing was reviewed. `hostside config check` shows the same mistake on a checkout."
    )
    desk.client.reply(ref, text, f"configuration:{digest}")
    explain_failure(desk, ref, f"The configuration is broken: {problem}")


def next_head(desk: Desk, ref: PullRef) -> PullRef | None:
    """The present head when it is not the one that was asked for, and still open."""
    pull = desk.client.pull(ref)
    return pull.ref if pull.open and pull.ref.head_sha != ref.head_sha else None
