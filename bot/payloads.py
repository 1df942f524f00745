"""The fields of GitHub's webhooks that are used here, and no others.

Lenient on purpose: hosts of different ages send different fields, and a field nobody reads must
not lose a delivery. What is read has its type checked, for the sender is not trusted.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, ValidationError, create_model

from bot.errors import BotError


class User(BaseModel):
    """An account."""

    id: int
    login: str
    type: str = "User"


class Repository(BaseModel):
    """A repository."""

    id: int
    full_name: str = Field(pattern=r"^[^/\s]+/[^/\s]+$")


class Ref(BaseModel):
    """One end of a pull request; its repository is null when the fork was deleted."""

    sha: str = Field(pattern=r"^[0-9a-f]{40,64}$")
    ref: str
    repo: Repository | None = None


class Label(BaseModel):
    """A label of a pull request."""

    name: str


class PullRequest(BaseModel):
    """A pull request as the event saw it."""

    number: int
    state: str = "open"
    draft: bool = False
    updated_at: str = ""
    head: Ref
    base: Ref
    user: User | None = None  # null when the account was deleted


class Named(BaseModel):
    """Something known by its id."""

    id: int


class PullRequestMark(BaseModel):
    """Says that an issue is a pull request."""

    url: str = ""


class Issue(BaseModel):
    """The issue under which a comment stands."""

    number: int
    state: str = "open"
    pull_request: PullRequestMark | None = None


class Comment(BaseModel):
    """A comment of a conversation."""

    id: int
    body: str | None = None
    user: User | None = None
    created_at: str = ""
    in_reply_to_id: int | None = None  # on lines: the comment that began the conversation


class PullNumber(BaseModel):
    """A pull request that a check belongs to; for a fork the list of them is empty."""

    number: int


class CheckRun(BaseModel):
    """A check run."""

    id: int
    name: str
    head_sha: str
    pull_requests: list[PullNumber] = []
    external_id: str | None = None
    app: Named | None = None


class CheckSuite(BaseModel):
    """All check runs of one head."""

    head_sha: str
    pull_requests: list[PullNumber] = []


class WorkflowRun(BaseModel):
    """A workflow run."""

    display_title: str = ""


class Action(BaseModel):
    """The button of a check run that was pressed."""

    identifier: str


class Changes(BaseModel):
    """What an edit changed."""

    base: object = None


class _Always(BaseModel):
    """What any event may say."""

    action: str = ""
    repository: Repository | None = None
    installation: Named | None = None
    sender: User | None = None


class Payload(_Always):
    """A delivery's body, whatever its event."""

    pull_request: PullRequest | None = None
    changes: Changes | None = None
    issue: Issue | None = None
    comment: Comment | None = None
    check_run: CheckRun | None = None
    check_suite: CheckSuite | None = None
    requested_action: Action | None = None
    workflow_run: WorkflowRun | None = None
    repositories_removed: list[Repository] = []


# Parts that only some events need: another event's oddities in them must not matter.
_PARTS = {
    "pull_request": ("pull_request", "changes"),
    "issue_comment": ("issue", "comment"),
    "pull_request_review_comment": ("pull_request", "comment"),
    "check_suite": ("check_suite",),
    "check_run": ("check_run", "requested_action"),
    "workflow_run": ("workflow_run",),
    "installation_repositories": ("repositories_removed",),
}


def _shape(event: str, parts: tuple[str, ...]) -> type[_Always]:
    known = Payload.model_fields
    fields: dict[str, Any] = {name: (known[name].annotation, known[name]) for name in parts}
    return create_model(event, __base__=_Always, **fields)


# One pass over the body: what is not wanted is never made a value of Python's.
_SHAPES = {event: _shape(event, parts) for event, parts in _PARTS.items()}


def parse(event: str, body: bytes) -> Payload:
    """The fields that this event needs; a BotError says which of them is missing or wrong."""
    try:
        found = _SHAPES.get(event, _Always).model_validate_json(body)
    except ValidationError as problem:
        first = problem.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the body"
        raise BotError(f"{event}: {place}: {first['msg']}") from None
    return Payload.model_construct(**dict(found))
