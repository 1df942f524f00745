"""What we said on a pull request before, and how people answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from bot.github_calls import Calls, Shape
from bot.github_errors import DeniedError, GitHubError, GoneError
from bot.github_marks import FIXED, SUMMARY, fingerprint, marks, reviewed_head
from bot.github_shapes import (
    Account,
    App,
    IssueComment,
    LineComment,
    PostedReview,
    Reaction,
    Threads,
    Viewer,
)
from bot.pulls import Earlier, EarlierComment, PullRef, Summary

PENDING = "PENDING"
_WRITERS = ("admin", "write")
# Also says who we are: a name can change, the number cannot.
THREADS = """
query($owner: String!, $repo: String!, $number: Int!, $after: String) {
  viewer { login databaseId }
  repository(owner: $owner, name: $repo) {
    pullRequest(number: $number) {
      reviewThreads(first: 100, after: $after) {
        nodes { isResolved comments(first: 1) { nodes { databaseId } } }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
}
"""
VIEWER = "query { viewer { login databaseId } }"


class _Pull(Shape):
    reviewThreads: Threads = Threads()  # noqa: N815  # GraphQL's own name


class _Repository(Shape):
    pullRequest: _Pull | None = None  # noqa: N815  # GraphQL's own name


class _Data(Shape):
    viewer: Viewer | None = None
    repository: _Repository | None = None


class _Envelope(Shape):
    data: _Data | None = None


@dataclass
class Said:
    """Reads our own words; remembers who we are."""

    calls: Calls
    app_id: int
    _me: Viewer | None = field(default=None, init=False)

    def earlier(self, ref: PullRef) -> Earlier:
        """Everything we said on it, in the order of saying."""
        resolved = self._resolved(ref)
        written = self.line_comments(ref)
        answers: dict[int, list[Account | None]] = defaultdict(list)
        for comment in written:
            if comment.in_reply_to_id is not None:
                answers[comment.in_reply_to_id].append(comment.user)
        comments = [
            self._comment(ref, comment, resolved or frozenset(), answers[comment.id])
            for comment in written
            if self.ours(comment.user) and fingerprint(comment.body)
        ]
        reviews = self._reviews(ref)
        return Earlier(
            comments=tuple(comments),
            summary=self.summary(ref),
            reviewed=tuple(reviewed_head(r.body or "") for r in reviews if r.state != PENDING),
            complete=resolved is not None,
            drafts=tuple(r.id for r in reviews if _is_stale_draft(r, ref)),
            begun=tuple(
                r.id for r in reviews if r.state == PENDING and not _is_stale_draft(r, ref)
            ),
        )

    def _comment(
        self,
        ref: PullRef,
        comment: LineComment,
        resolved: frozenset[int],
        answers: Sequence[Account | None],
    ) -> EarlierComment:
        return EarlierComment(
            id=comment.id,
            fingerprint=fingerprint(comment.body),
            path=comment.path,
            line=comment.line if comment.subject_type == "line" else None,
            body=comment.body,
            commit=comment.original_commit_id,
            fixed=FIXED in marks(comment.body),
            resolved=comment.id in resolved,
            replied=any(not self.ours(user) for user in answers),
            rejected_by=self._rejected_by(ref, comment),
        )

    def line_comments(self, ref: PullRef) -> list[LineComment]:
        """All comments on lines and files, by whomever."""
        path = f"repos/{ref.full_name}/pulls/{ref.number}/comments"
        return list(self.calls.pages(path, LineComment))

    def finding(self, ref: PullRef, comment: int) -> str:
        """The fingerprint of the finding that this comment of ours is about; else empty."""
        found = (c for c in self.line_comments(ref) if c.id == comment and self.ours(c.user))
        return next((fingerprint(c.body) for c in found), "")

    def _reviews(self, ref: PullRef) -> list[PostedReview]:
        path = f"repos/{ref.full_name}/pulls/{ref.number}/reviews"
        found = self.calls.pages(path, PostedReview)
        return [r for r in found if reviewed_head(r.body or "") and self.ours(r.user)]

    def drafts(self, ref: PullRef) -> list[PostedReview]:
        """Our account's unfinished review, ours or not; GitHub shows nobody else's."""
        path = f"repos/{ref.full_name}/pulls/{ref.number}/reviews"
        return [r for r in self.calls.pages(path, PostedReview) if r.state == PENDING]

    def summary(self, ref: PullRef) -> Summary | None:
        """Our sticky comment."""
        return self.spoken(ref, SUMMARY)

    def spoken(self, ref: PullRef, name: str) -> Summary | None:
        """Our comment in the conversation that ends with this mark."""
        return next(iter(self.all_spoken(ref, name)), None)

    def all_spoken(self, ref: PullRef, name: str) -> list[Summary]:
        """The same, oldest first; more than one when two runs spoke at the same moment."""
        path = f"repos/{ref.full_name}/issues/{ref.number}/comments"
        found = [
            Summary(comment.id, comment.body or "")
            for comment in self.calls.pages(path, IssueComment)
            if name in marks(comment.body or "") and self.ours(comment.user)
        ]
        return sorted(found, key=lambda comment: comment.id)

    def ours(self, user: Account | None) -> bool:
        """Whether this is us: others can copy a mark, but not be us."""
        if user is None:
            return False
        me = self._viewer()
        return user.id == me.databaseId if me.databaseId else user.login == me.login

    def permission(self, ref: PullRef, login: str) -> str:
        """What the person may do in the repository, asked anew: rights are taken away, too."""
        path = f"repos/{ref.full_name}/collaborators/{quote(login)}/permission"
        try:
            return self.calls.get(path).read(_Permission).permission
        except GoneError:
            return "none"

    def _rejected_by(self, ref: PullRef, comment: LineComment) -> tuple[str, ...]:
        if not comment.reactions.down:
            return ()
        path = f"repos/{ref.full_name}/pulls/comments/{comment.id}/reactions"
        people = [
            reaction.user.login
            for reaction in self.calls.pages(path, Reaction, content="-1")
            if reaction.content == "-1" and reaction.user and reaction.user.type == "User"
        ]
        return tuple(who for who in people if self.permission(ref, who) in _WRITERS)

    def _viewer(self) -> Viewer:
        if self._me is None:
            self._me = self._ask_viewer()
        return self._me

    def _ask_viewer(self) -> Viewer:
        found = _optional(lambda: self.calls.graphql(VIEWER, {}, _Envelope))
        if found and found.data and found.data.viewer:
            return found.data.viewer
        if self.app_id:  # a server without GraphQL; the suffix cannot be had by anybody else
            return Viewer(login=f"{self.calls.get('app').read(App).slug}[bot]")
        raise GitHubError("GitHub does not tell who we are; its GraphQL API is needed for that")

    def _resolved(self, ref: PullRef) -> frozenset[int] | None:
        """The comments whose thread somebody resolved; None when GitHub does not tell."""
        found: set[int] = set()
        after: str | None = None
        while True:
            variables = {"owner": ref.owner, "repo": ref.repo, "number": ref.number, "after": after}
            page = _optional(lambda v=variables: self.calls.graphql(THREADS, v, _Envelope))
            data = page.data if page else None
            if data is None or data.repository is None or data.repository.pullRequest is None:
                return None
            self._me = data.viewer or self._me
            threads = data.repository.pullRequest.reviewThreads
            for thread in threads.nodes:
                if thread.isResolved:
                    found.update(c.databaseId for c in thread.comments.nodes if c.databaseId)
            after = threads.pageInfo.endCursor
            if not threads.pageInfo.hasNextPage or not after:
                return frozenset(found)


class _Permission(Shape):
    permission: str = "none"


def _is_stale_draft(review: PostedReview, ref: PullRef) -> bool:
    """Whether it was never submitted and never will be: its commit is not the head any more."""
    return review.state == PENDING and reviewed_head(review.body or "") != ref.head_sha


def _optional(ask: Callable[[], _Envelope]) -> _Envelope | None:
    """The answer, or None where this GitHub does not offer it to us."""
    try:
        return ask()
    except (DeniedError, GoneError):
        return None
