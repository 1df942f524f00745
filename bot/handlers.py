"""What follows from a webhook: the event and its action, as jobs to queue and jobs to drop.

Pure: the payload in, values out. Whether a draft or a label keeps a review away is decided later,
for the repository's own configuration has a say in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from bot.bench_work import RUN_PATTERN, watch_key
from bot.commands import BENCH, command_lines
from bot.payloads import Payload, PullRequest, User
from bot.pulls import BENCHMARK_BUTTON, CHECK_NAME
from bot.work import NOTHING, Drop, JobSpec, Kind, Work

_OURS = re.compile(r"hostside:(\d{1,9}):")  # what our check runs carry
SUPERSEDED = "a newer push took its place"
CLOSED = "the pull request was closed"
REMOVED = "the App was removed"


@dataclass(frozen=True)
class Event:
    """A delivery whose payload is understood."""

    delivery: str
    name: str
    payload: Payload
    allowed_bots: Collection[int] = ()

    @property
    def installation(self) -> int:
        """The installation that it is about; 0 when GitHub did not say."""
        return self.payload.installation.id if self.payload.installation else 0

    @property
    def repo(self) -> str:
        """The repository as `owner/name`; empty for events of a whole installation."""
        return self.payload.repository.full_name if self.payload.repository else ""


def work(event: Event) -> Work:
    """What the event asks for; nothing for events and actions that are not ours."""
    handler = _HANDLERS.get((event.name, event.payload.action))
    return handler(event) if handler else NOTHING


def review_key(repo: str, number: int, head_sha: str) -> str:
    """What makes two reviews the same job."""
    return f"review:{repo}#{number}@{head_sha}"


def _review(event: Event) -> Work:
    pull = event.payload.pull_request
    if pull is None or not event.repo or pull.state == "closed":
        return NOTHING
    key = review_key(event.repo, pull.number, pull.head.sha)
    changes = event.payload.changes
    rebased = bool(changes and changes.base)
    job = JobSpec(
        f"{key}:{pull.base.sha}" if rebased else key,  # another base, another diff
        Kind.REVIEW,
        event.repo,
        pull.number,
        event.installation,
        _ends(pull),
        pull.updated_at,
        # A force push may go back to an old head, and an edit to an old base.
        anew=rebased or event.payload.action == "synchronize",
    )
    older = Drop(SUPERSEDED, event.installation, event.repo, pull.number, pull.updated_at)
    return Work((job,), (older,) if pull.updated_at else ())


def _ends(pull: PullRequest) -> dict[str, str]:
    return {"head_sha": pull.head.sha, "base_sha": pull.base.sha}


def _closed(event: Event) -> Work:
    pull = event.payload.pull_request
    if pull is None or not event.repo:
        return NOTHING
    # A redelivered "closed" must not drop what a later "reopened" queued.
    until = pull.updated_at
    key = f"closed:{event.repo}#{pull.number}@{until}"
    end = JobSpec(key, Kind.BENCH, event.repo, pull.number, event.installation)
    older = Drop(CLOSED, event.installation, event.repo, pull.number, until)
    return Work((end,), (older,))


def _comment(event: Event) -> Work:
    payload = event.payload
    comment, pull = payload.comment, payload.issue or payload.pull_request
    if comment is None or pull is None or not _listened_to(comment.user, event.allowed_bots):
        return NOTHING
    if payload.issue and payload.issue.pull_request is None:
        return NOTHING
    lines = command_lines(comment.body or "")
    if not lines or comment.user is None:
        return NOTHING
    on_line = payload.issue is None
    arguments = {
        "lines": list(lines),
        "comment": comment.id,
        "on_line": on_line,
        "author": comment.user.login,
        "created": comment.created_at,
        "head": payload.pull_request.head.sha if payload.pull_request else "",
        "reply_to": comment.in_reply_to_id or 0,
        "listed": comment.user.id in event.allowed_bots,
    }
    key = f"command:{event.repo}:{'line' if on_line else 'talk'}:{comment.id}"
    return _command(event, key, pull.number, arguments)


def _listened_to(user: User | None, allowed_bots: Collection[int]) -> bool:
    # By number: a name can be taken over by somebody else.
    return user is not None and (user.type == "User" or user.id in allowed_bots)


def _button(event: Event) -> Work:
    payload = event.payload
    run, pressed, by = payload.check_run, payload.requested_action, payload.sender
    if run is None or by is None or pressed is None or pressed.identifier != BENCHMARK_BUTTON:
        return NOTHING
    number = _pull_of(run.external_id, [pull.number for pull in run.pull_requests])
    arguments = {"lines": [f"{BENCH} sha={run.head_sha}"], "comment": 0, "author": by.login}
    key = f"button:{event.delivery}"
    return _command(event, key, number, arguments) if number else NOTHING


def _rerun(event: Event) -> Work:
    run, suite = event.payload.check_run, event.payload.check_suite
    if run is not None and run.name == CHECK_NAME:
        numbers = [_pull_of(run.external_id, [pull.number for pull in run.pull_requests])]
    elif suite is not None:
        numbers = [pull.number for pull in suite.pull_requests]
    else:
        return NOTHING
    again = f"rerun:{event.delivery}"
    return Work(tuple(_asked_for(event, f"{again}#{n}", n) for n in numbers if n))


def _asked_for(event: Event, key: str, number: int) -> JobSpec:
    asked = {"asked": True}
    return JobSpec(key, Kind.REVIEW, event.repo, number, event.installation, asked)


def _pull_of(external_id: str | None, listed: list[int]) -> int:
    """The pull request of a check run: GitHub lists none when the head is in a fork."""
    known = _OURS.match(external_id or "")
    return int(known[1]) if known else (listed or [0])[0]


def _command(event: Event, key: str, number: int, arguments: Mapping[str, object]) -> Work:
    job = JobSpec(key, Kind.COMMAND, event.repo, number, event.installation, arguments)
    return Work((job,)) if event.repo else NOTHING


def _ran(event: Event) -> Work:
    """A workflow run that measures a benchmark began or ended: worth a look at it now."""
    run = event.payload.workflow_run
    known = RUN_PATTERN.match(run.display_title) if run else None
    if known is None or not event.repo:
        return NOTHING
    asked = {"token": known[1]}
    key = watch_key(known[1])
    return Work((JobSpec(key, Kind.WATCH, event.repo, 0, event.installation, asked),))


def _uninstalled(event: Event) -> Work:
    return Work(drops=(Drop(REMOVED, event.installation),))


def _fewer_repositories(event: Event) -> Work:
    gone = event.payload.repositories_removed
    return Work(drops=tuple(Drop(REMOVED, event.installation, repo.full_name) for repo in gone))


_HANDLERS: dict[tuple[str, str], Callable[[Event], Work]] = {
    ("pull_request", "opened"): _review,
    ("pull_request", "reopened"): _review,
    ("pull_request", "synchronize"): _review,
    ("pull_request", "ready_for_review"): _review,
    # The title or label that kept the review away may be gone, or the base is another.
    ("pull_request", "edited"): _review,
    ("pull_request", "unlabeled"): _review,
    ("pull_request", "closed"): _closed,
    ("issue_comment", "created"): _comment,
    ("pull_request_review_comment", "created"): _comment,
    ("check_run", "requested_action"): _button,
    ("check_run", "rerequested"): _rerun,
    ("check_suite", "rerequested"): _rerun,
    ("workflow_run", "in_progress"): _ran,
    ("workflow_run", "completed"): _ran,
    ("installation", "deleted"): _uninstalled,
    ("installation", "suspend"): _uninstalled,
    ("installation_repositories", "removed"): _fewer_repositories,
}
EVENTS = frozenset(name for name, _ in _HANDLERS) | {"ping"}
