"""What started the workflow: the event's file, as the two commits that are to be compared.

Lenient as `bot.payloads` is. Nothing of it is trusted for more than naming what GitHub is then
asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from bot.errors import UsageError
from bot.payloads import PullRequest, Repository

PULL_EVENTS = ("pull_request", "pull_request_target")
FOLLOWED = "workflow_run"
_NOBODY = "0" * 40  # what GitHub names where there is no commit
_SHA = r"^[0-9a-f]{40,64}$"


class _MergeGroup(BaseModel):
    head_sha: str = Field(pattern=_SHA)
    base_sha: str = Field(pattern=_SHA)


class _Home(Repository):
    default_branch: str = ""


class Run(BaseModel):
    """The workflow run that another one follows."""

    id: int
    event: str
    head_sha: str = Field(pattern=_SHA)
    head_branch: str | None = None


class _Event(BaseModel):
    repository: _Home | None = None  # a schedule's event names none
    pull_request: PullRequest | None = None
    merge_group: _MergeGroup | None = None
    before: str = _NOBODY
    after: str = _NOBODY
    ref: str = ""
    workflow_run: Run | None = None


@dataclass(frozen=True)
class Trigger:
    """What is to be looked at, as the event names it."""

    event: str
    repository: str  # owner/name
    number: int = 0  # of the pull request; 0: none
    base: str = ""  # a commit or branch; empty: nothing to compare with
    head_sha: str = ""
    run: Run | None = None  # the run that this one follows
    nothing: str = ""  # why there is nothing to look at

    @property
    def on_pull(self) -> bool:
        """Whether there is a pull request to speak on."""
        return bool(self.number)


def read(environment: Mapping[str, str]) -> Trigger:
    """The trigger of this run; a UsageError says which part of the event is missing."""
    name = environment.get("GITHUB_EVENT_NAME", "")
    file = environment.get("GITHUB_EVENT_PATH", "")
    if not name or not file:
        raise UsageError(
            "this is no run of GitHub Actions: GITHUB_EVENT_NAME and GITHUB_EVENT_PATH are not "
            "set; `hostside review` works on a checkout"
        )
    try:
        event = _Event.model_validate_json(Path(file).read_bytes())
    except OSError as problem:
        raise UsageError(f"the event's file {file} cannot be read ({problem.strerror})") from None
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "its file"
        raise UsageError(f"the event {name} cannot be read: {place}: {first['msg']}") from None
    home = event.repository or _home(environment)
    return _trigger(name, event, home, environment.get("GITHUB_SHA", ""))


def _home(environment: Mapping[str, str]) -> _Home:
    named = environment.get("GITHUB_REPOSITORY", "")
    try:
        return _Home(id=0, full_name=named)
    except ValidationError:
        raise UsageError(
            f"neither the event nor GITHUB_REPOSITORY ({named!r}) names a repository"
        ) from None


def _trigger(name: str, event: _Event, home: _Home, commit: str) -> Trigger:
    if name in PULL_EVENTS and event.pull_request is not None:
        pull = event.pull_request
        return Trigger(name, home.full_name, pull.number, pull.base.sha, pull.head.sha)
    if name == "merge_group" and event.merge_group is not None:
        group = event.merge_group
        return Trigger(name, home.full_name, base=group.base_sha, head_sha=group.head_sha)
    if name == FOLLOWED and event.workflow_run is not None:
        run = event.workflow_run
        return Trigger(name, home.full_name, head_sha=run.head_sha, run=run)
    if name == "push":
        return _push(event, home)
    if name in ("workflow_dispatch", "schedule", "repository_dispatch"):
        branch = event.ref.removeprefix("refs/heads/")
        base = home.default_branch if branch not in ("", home.default_branch) else ""
        return Trigger(name, home.full_name, base=base, head_sha=commit)
    why = f"the event {name} names no change; see docs/action.md for those that do"
    return Trigger(name, home.full_name, nothing=why)


def _push(event: _Event, home: _Home) -> Trigger:
    if not event.after.strip("0"):
        return Trigger("push", home.full_name, nothing="the branch was deleted")
    base = event.before
    if not base.strip("0"):  # a new branch: what it brings beyond the default one
        branch = event.ref.removeprefix("refs/heads/")
        base = home.default_branch if branch != home.default_branch else ""
    return Trigger("push", home.full_name, base=base, head_sha=event.after)
