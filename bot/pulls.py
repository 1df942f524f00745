"""A pull request as values: which one, what was said on it before, what is to be said now.

`bot/github.py` reads and writes them; `bot/lifecycle.py` decides. Nothing here knows GitHub's API.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from bot.config import Reader
from bot.diff import ChangedFile

CHECK_NAME = "Hostside"
BENCHMARK_BUTTON = "benchmark"  # identifier of the check run's button


@dataclass(frozen=True)
class PullRef:
    """One pull request at one head."""

    owner: str
    repo: str
    number: int  # 0: no pull request, only one commit against another
    base_sha: str  # the tip of the base branch; configuration is read there
    head_sha: str
    installation: int = 0  # 0: authenticated by a token
    from_fork: bool = False

    @property
    def full_name(self) -> str:
        """The repository as `owner/name`."""
        return f"{self.owner}/{self.repo}"

    def __str__(self) -> str:
        if not self.number:
            return f"{self.full_name} {self.base_sha[:12]}...{self.head_sha[:12]}"
        return f"{self.full_name}#{self.number}"

    def at(self, head_sha: str, base_sha: str = "") -> PullRef:
        """The same pull request at another head."""
        return replace(self, head_sha=head_sha, base_sha=base_sha or self.base_sha)


@dataclass(frozen=True)
class Pull:
    """What a pull request is right now."""

    ref: PullRef
    title: str
    author: str
    open: bool
    draft: bool
    labels: tuple[str, ...]
    base_branch: str
    head_branch: str
    files: int = 0  # how many are changed
    clone_url: str = ""


@dataclass(frozen=True)
class EarlierComment:
    """One of our own comments on the lines or files of a pull request."""

    id: int
    fingerprint: str
    path: str
    line: int | None  # None: it stands on no line any more, or on the whole file
    body: str
    commit: str  # head for which it was written
    fixed: bool = False  # already marked
    resolved: bool = False  # somebody resolved its thread
    replied: bool = False  # somebody else answered it
    rejected_by: tuple[str, ...] = ()  # people with write access who gave it a thumb down

    @property
    def dismissed(self) -> bool:
        """Whether people said that they do not want to hear of it again."""
        return bool(self.rejected_by) or (self.resolved and not self.fixed)


@dataclass(frozen=True)
class Summary:
    """Our sticky comment in the conversation."""

    id: int
    body: str


@dataclass(frozen=True)
class Earlier:
    """What we said before."""

    comments: tuple[EarlierComment, ...] = ()
    summary: Summary | None = None
    reviewed: tuple[str, ...] = ()  # heads that have our review, oldest first
    complete: bool = True  # False: whether threads are resolved could not be read
    drafts: tuple[int, ...] = ()  # our unfinished reviews of other heads, left by dead runs
    begun: tuple[int, ...] = ()  # those of this head: another run's, or a dead one's


@dataclass(frozen=True)
class NewComment:
    """A comment to post; `line` 0 stands for the whole file."""

    path: str
    body: str
    fingerprint: str
    line: int = 0
    start_line: int = 0  # 0 or `line`: one line


@dataclass(frozen=True)
class Edit:
    """A new body for one of our comments."""

    id: int
    body: str
    fingerprint: str = ""


@dataclass(frozen=True)
class Annotation:
    """A line of the check run's list."""

    path: str
    start_line: int
    end_line: int
    level: str  # notice, warning, failure
    title: str
    message: str
    start_column: int = 0  # 0: none; GitHub refuses columns of a range of lines
    end_column: int = 0


@dataclass(frozen=True)
class Check:
    """The check run's outcome."""

    conclusion: str  # success, failure, neutral, skipped
    title: str
    summary: str
    annotations: tuple[Annotation, ...] = ()
    benchmark: bool = False  # whether it offers the button


@dataclass(frozen=True)
class Plan:
    """All that is to be written on a pull request after one analysis."""

    review_body: str = ""
    comments: tuple[NewComment, ...] = ()  # those with lines go into one review
    discard: tuple[int, ...] = ()  # drafts that would be in the way of every other review
    edits: tuple[Edit, ...] = ()
    summary: str = ""  # empty: the sticky comment stays as it is, and none is made
    check: Check | None = None

    @property
    def quiet(self) -> bool:
        """Whether nothing is written into the conversation."""
        return not (self.comments or self.edits or self.summary)


@dataclass(frozen=True)
class Posted:
    """What GitHub has after a plan was carried out."""

    review: int = 0  # its id; 0: none was needed
    comments: int = 0
    files: int = 0  # comments on whole files
    edits: int = 0
    summary: int = 0
    check: int = 0
    lost: tuple[str, ...] = ()  # fingerprints that GitHub would not take anywhere


class PullClient(Protocol):
    """What `bot.github.connect` gives: one repository's pull requests, read and written.

    Every method raises `bot.errors.BotError` only; see `bot/github_errors.py` for the kinds.
    """

    def pull(self, ref: PullRef) -> Pull:
        """The pull request now; its `ref` has the present head and base."""
        ...

    def changed_files(self, ref: PullRef) -> tuple[ChangedFile, ...]:
        """What the pull request changes at `ref.head_sha`."""
        ...

    def reader(self, ref: PullRef) -> Reader:
        """Reads files of the base commit, for `bot.config.load`."""
        ...

    def earlier(self, ref: PullRef) -> Earlier:
        """What we said on it before."""
        ...

    def post(self, ref: PullRef, plan: Plan) -> Posted:
        """Carry out the plan; safe to call again after a failure at any point."""
        ...

    def start_check(self, ref: PullRef) -> int:
        """Show the check as in progress; its id."""
        ...

    def reply(self, ref: PullRef, body: str, key: str) -> int:
        """Write into the conversation, once for each `key`; the comment's id."""
        ...

    def merge_base(self, ref: PullRef) -> str:
        """The commit at which the head left its base branch."""
        ...

    def sticky(self, ref: PullRef, body: str, name: str) -> int:
        """Bring our one comment of this name to this text, making it when there is none; its id."""
        ...

    def finding(self, ref: PullRef, comment: int) -> str:
        """The fingerprint of the finding that this comment of ours is about; else empty."""
        ...

    def react(self, ref: PullRef, comment: int, content: str, on_line: bool = False) -> None:
        """Put a reaction (`eyes`, `+1`, `confused`) on a comment."""
        ...

    def permission(self, ref: PullRef, login: str) -> str:
        """What the person may do here: admin, write, read or none."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...
