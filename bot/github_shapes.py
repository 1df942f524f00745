"""The fields that we read of GitHub's answers; everything else may come, go and change."""

from __future__ import annotations

from pydantic import Field

from bot.github_calls import Shape


class Account(Shape):
    """A person, a bot or an organisation."""

    id: int = 0
    login: str = ""
    type: str = ""


class Repository(Shape):
    """A repository, as far as a pull request names it."""

    id: int = 0
    full_name: str = ""
    clone_url: str = ""


class Branch(Shape):
    """One end of a pull request; `repo` is gone when its fork was deleted."""

    ref: str = ""
    sha: str
    repo: Repository | None = None


class Label(Shape):
    """A label."""

    name: str = ""


class PullRequest(Shape):
    """A pull request."""

    number: int
    state: str
    title: str = ""
    draft: bool = False
    user: Account | None = None
    labels: tuple[Label, ...] = ()
    head: Branch
    base: Branch
    changed_files: int = 0


class ListedFile(Shape):
    """A file of the files API; `patch` is absent when it is binary or too large."""

    filename: str
    previous_filename: str = ""
    status: str
    sha: str | None = None
    additions: int = 0
    deletions: int = 0
    patch: str | None = None


class Contents(Shape):
    """A file of the contents API, or a blob."""

    type: str = "file"
    encoding: str = ""
    content: str = ""
    size: int = 0
    sha: str = ""


class Commit(Shape):
    """A commit's name."""

    sha: str


class Comparison(Shape):
    """Two commits compared; at most 300 files are listed."""

    base_commit: Commit
    merge_base_commit: Commit
    files: tuple[ListedFile, ...] | None = None


class Reactions(Shape):
    """How many thumbs point down; the other counts are not our business."""

    down: int = Field(default=0, alias="-1")


class LineComment(Shape):
    """A comment on lines or on a file."""

    id: int
    user: Account | None = None
    body: str = ""
    path: str = ""
    line: int | None = None
    original_commit_id: str = ""
    commit_id: str = ""
    in_reply_to_id: int | None = None
    pull_request_review_id: int | None = None
    subject_type: str = "line"
    reactions: Reactions = Reactions()


class PostedReview(Shape):
    """A review."""

    id: int
    user: Account | None = None
    body: str | None = None
    commit_id: str | None = None
    state: str = ""


class IssueComment(Shape):
    """A comment in the conversation."""

    id: int
    user: Account | None = None
    body: str | None = None


class Reaction(Shape):
    """Who reacted, and how."""

    id: int
    content: str = ""
    user: Account | None = None


class App(Shape):
    """The App that a check run belongs to."""

    id: int = 0
    slug: str = ""


class Output(Shape):
    """A check run's texts."""

    annotations_count: int = 0


class CheckRun(Shape):
    """A check run."""

    id: int
    name: str = ""
    status: str = ""
    external_id: str | None = None
    output: Output = Output()
    app: App | None = None


class ThreadComment(Shape):
    """A comment as GraphQL numbers it."""

    databaseId: int | None = None  # noqa: N815  # GraphQL's own name


class FirstComments(Shape):
    """The comment that a thread began with."""

    nodes: tuple[ThreadComment, ...] = ()


class Thread(Shape):
    """A conversation on lines."""

    isResolved: bool = False  # noqa: N815  # GraphQL's own name
    comments: FirstComments = FirstComments()


class PageInfo(Shape):
    """Whether there is more."""

    hasNextPage: bool = False  # noqa: N815  # GraphQL's own name
    endCursor: str | None = None  # noqa: N815  # GraphQL's own name


class Threads(Shape):
    """One page of conversations."""

    nodes: tuple[Thread, ...] = ()
    pageInfo: PageInfo = PageInfo()  # noqa: N815  # GraphQL's own name


class Viewer(Shape):
    """Who we are."""

    login: str = ""
    databaseId: int | None = None  # noqa: N815  # GraphQL's own name
