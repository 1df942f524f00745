"""What GitHub remembers."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.standin.gitstore import GitStore

WHEN = "2026-11-30T12:00:00Z"


@dataclass
class User:
    id: int
    login: str
    type: str = "User"


@dataclass
class Repo:
    id: int
    owner: User
    name: str
    git: GitStore
    fork_of: Repo | None = None
    roles: dict[str, str] = field(default_factory=dict)
    private: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.owner.login}/{self.name}"

    def ref(self, branch: str) -> str:
        """Where the branch is in the shared repository."""
        return f"refs/heads/{branch}" if self.fork_of is None else f"refs/forks/{self.id}/{branch}"


@dataclass
class Pull:
    id: int
    number: int
    repo: Repo
    head_repo: Repo | None
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    title: str
    user: User
    state: str = "open"
    draft: bool = False
    labels: list[str] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)  # paths whose patch is left out
    too_large: bool = False  # the diff is refused with 406
    edits_allowed: bool = True  # by maintainers of the base repository
    updated: str = WHEN

    @property
    def merge_base(self) -> str:
        return self.repo.git.merge_base(self.base_sha, self.head_sha)


@dataclass
class Reaction:
    id: int
    user: User
    content: str


@dataclass
class Review:
    id: int
    pull: Pull
    user: User
    body: str
    state: str
    commit_id: str


@dataclass
class LineComment:
    id: int
    pull: Pull
    user: User
    body: str
    path: str
    commit: str  # for which it was written
    line: int | None = None
    start_line: int | None = None
    side: str = "RIGHT"
    start_side: str | None = None
    hunk: str = ""
    review: int | None = None
    reply_to: int | None = None
    whole_file: bool = False
    resolved: bool = False
    created: str = WHEN
    reactions: list[Reaction] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)


@dataclass
class IssueComment:
    id: int
    repo: Repo
    number: int
    user: User
    body: str
    created: str = WHEN
    reactions: list[Reaction] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)


@dataclass
class CheckRun:
    id: int
    repo: Repo
    name: str
    head_sha: str
    external_id: str = ""
    status: str = "queued"
    conclusion: str | None = None
    title: str | None = None
    summary: str | None = None
    annotations: list[dict] = field(default_factory=list)
    actions: list[dict] = field(default_factory=list)


@dataclass
class Installation:
    id: int
    account: User
    repos: list[Repo]
    permissions: dict[str, str]
    suspended: bool = False


@dataclass
class Token:
    value: str
    user: User
    permissions: dict[str, str]
    repos: list[Repo] | None  # None: whatever the user may see
    expires: float
    installation: Installation | None = None


@dataclass
class Delivery:
    id: int
    guid: str
    event: str
    action: str | None
    body: bytes
    at: float
    status_code: int = 0
    redelivery: bool = False
    installation: int = 0
    repository: int = 0


class RefusedError(Exception):
    """An answer that is not what was asked for."""

    def __init__(self, status: int, message: str, errors: list | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.errors = status, message, errors


def invalid(*errors: str | dict) -> RefusedError:
    """GitHub's 422."""
    said = "Validation Failed" if any(isinstance(e, dict) for e in errors) else None
    return RefusedError(422, said or "Unprocessable Entity", list(errors))
