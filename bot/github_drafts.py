"""A review in two steps: drafted, which only its author sees, then submitted.

GitHub allows an account one draft for each pull request. So a draft is also a lock: of two runs
that post at the same moment one is refused, and sees afterwards what the other one said. A draft
that a dead run left behind is finished or taken away, or it would be in the way for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bot.github_calls import Answer, Calls
from bot.github_errors import (
    DeniedError,
    GitHubError,
    GoneError,
    SupersededError,
    TryAgainError,
)
from bot.github_marks import marks, reviewed_head
from bot.github_said import PENDING, Said
from bot.github_shapes import PostedReview, PullRequest
from bot.pulls import PullRef

_LOOKS = 3  # at another run's draft, before it is finished for that run
_TURNS = 4  # how often a draft may be in the way
There = Callable[[], Collection[str]]  # fingerprints that already have our comment


@dataclass(frozen=True)
class Drafts:
    """Writes reviews that cannot be doubled."""

    calls: Calls
    said: Said

    def make(self, ref: PullRef, body: dict[str, Any], wanted: frozenset[str], there: There) -> int:
        """The id of a draft with this body, once no other draft is in the way."""
        for _ in range(_TURNS):
            try:
                made = self.calls.create(_path(ref), body, lambda: self._own(ref, body["body"]))
            except GitHubError as problem:
                if "one pending review" not in str(problem):
                    raise
                self._clear(ref, wanted, there)
                continue
            return made.read(PostedReview).id if isinstance(made, Answer) else made
        raise TryAgainError(
            "another unfinished review of the same account is in the way; "
            "submit or discard it on the pull request's page"
        )

    def submit(self, ref: PullRef, number: int, text: str) -> int:
        """Show the draft to everybody; its id. What GitHub refuses to show is taken away."""
        path = f"{_path(ref)}/{number}/events"
        try:
            self.calls.create(
                path, {"event": "COMMENT", "body": text}, lambda: self._submitted(ref, number)
            )
        except GoneError as problem:
            raise TryAgainError("another run discarded this review's draft") from problem
        except TryAgainError:
            raise
        except GitHubError as problem:
            # Another run finished it for us.
            if problem.status == 422 and self._submitted(ref, number) is not None:
                return number
            # Left here, it would be finished later, beside what is said in its place now.
            with suppress(DeniedError):
                self.discard(ref, number)
            raise
        return number

    def discard(self, ref: PullRef, number: int) -> None:
        """Take the draft away; it is no loss when somebody submitted or discarded it before."""
        try:
            self.calls.edit("DELETE", f"{_path(ref)}/{number}", None)
        except TryAgainError:
            raise
        except GitHubError as problem:
            if problem.status not in (404, 422):
                raise

    def _clear(self, ref: PullRef, wanted: frozenset[str], there: There) -> None:
        """Wait until the draft in the way is gone, or finish what its run left behind."""
        governor = self.calls.governor
        pending: list[PostedReview] = []
        for _ in range(_LOOKS):
            governor.clock.sleep(governor.gap)
            pending = self.said.drafts(ref)
            if not pending:
                return
        draft = pending[-1]
        head = reviewed_head(draft.body or "")
        if head == ref.head_sha and not wanted & frozenset(there()):
            self._finish(ref, draft)
        elif head:
            if head != ref.head_sha:
                self._still_current(ref)  # or it is the draft of the newer head, being written
            self.discard(ref, draft.id)
        # Else it is somebody's own work under the same account.

    def _finish(self, ref: PullRef, draft: PostedReview) -> None:
        try:
            self.submit(ref, draft.id, draft.body or "")
        except GitHubError as problem:
            if problem.status != 422:
                raise  # else it is gone, and no longer in the way

    def _still_current(self, ref: PullRef) -> None:
        now = self.calls.get(f"repos/{ref.full_name}/pulls/{ref.number}").read(PullRequest).head.sha
        if now != ref.head_sha:
            raise SupersededError(f"{ref} moved from {ref.head_sha[:12]} to {now[:12]} meanwhile")

    def _own(self, ref: PullRef, text: str) -> int | None:
        """The draft that was made although no answer came: its marks name the very comments."""
        same = [d.id for d in self.said.drafts(ref) if marks(d.body or "") == marks(text)]
        return max(same, default=None)

    def _submitted(self, ref: PullRef, number: int) -> int | None:
        try:
            found = self.calls.get(f"{_path(ref)}/{number}").read(PostedReview)
        except GoneError:
            return None
        return number if found.state != PENDING else None


def _path(ref: PullRef) -> str:
    return f"repos/{ref.full_name}/pulls/{ref.number}/reviews"
