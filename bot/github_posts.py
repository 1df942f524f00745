"""Comments on a pull request: one review, comments on files, edits, the sticky summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.github_calls import Answer, Calls
from bot.github_drafts import Drafts
from bot.github_errors import GitHubError, GoneError, TryAgainError
from bot.github_marks import (
    FIXED,
    SUMMARY,
    content_mark,
    fingerprint,
    mark,
    marks,
    review_mark,
    without_marks,
)
from bot.github_said import Said
from bot.github_shapes import IssueComment, LineComment
from bot.pulls import Edit, NewComment, Plan, Posted, PullRef, Summary

LONGEST_BODY = 65_000  # characters; GitHub refuses more than 65,536
_CUT = "\n\n… the rest did not fit."


@dataclass(frozen=True)
class Posts:
    """Writes comments, each once."""

    calls: Calls
    said: Said

    def post(self, ref: PullRef, plan: Plan) -> Posted:
        """Carry out all of the plan but its check; what is there already is left."""
        for draft in plan.discard:
            Drafts(self.calls, self.said).discard(ref, draft)
        edits = sum(self.edit(ref, edit) for edit in plan.edits)
        posted = Posted(edits=edits)
        if plan.comments:
            posted = self._comments(ref, plan, posted)
        if plan.summary:
            posted = replace(posted, summary=self.summary(ref, plan.summary))
        return posted

    def _comments(self, ref: PullRef, plan: Plan, posted: Posted) -> Posted:
        there = self._there(ref)
        missing = [c for c in plan.comments if c.fingerprint not in there]
        inline = [c for c in missing if c.line]
        files = [c for c in missing if not c.line]
        if inline:
            try:
                review, count = self._review(ref, plan, inline)
                posted = replace(posted, review=review, comments=count)
            except TryAgainError:
                raise
            except GitHubError as problem:
                if problem.status != 422:
                    raise
                # GitHub's diff is not the one that was checked. It refuses all comments and does
                # not say which one is wrong; on their files it takes them.
                files = [replace(c, line=0) for c in inline] + files
        lost = [c.fingerprint for c in files if not self._on_file(ref, c)]
        return replace(posted, files=len(files) - len(lost), lost=tuple(lost))

    def _there(self, ref: PullRef, draft: int = 0) -> frozenset[str]:
        """Fingerprints that already have our comment for this head, those of the draft apart."""
        return frozenset(
            fingerprint(comment.body)
            for comment in self._ours_here(ref)
            if not draft or comment.pull_request_review_id != draft
        )

    def _ours_here(self, ref: PullRef) -> list[LineComment]:
        return [
            comment
            for comment in self.said.line_comments(ref)
            if comment.original_commit_id == ref.head_sha
            and self.said.ours(comment.user)
            and FIXED not in marks(comment.body)  # its head was left, and came back
        ]

    def _review(self, ref: PullRef, plan: Plan, comments: Sequence[NewComment]) -> tuple[int, int]:
        """The review's id and how many comments it has; none when another run posted them."""
        drafts = Drafts(self.calls, self.said)
        while comments:
            anchored = [_anchored(comment) for comment in comments]
            end = review_mark(ref.head_sha) + content_mark(anchored)
            text = _fitting(plan.review_body, end)
            body = {"commit_id": ref.head_sha, "body": text, "comments": anchored}
            wanted = frozenset(comment.fingerprint for comment in comments)
            draft = drafts.make(ref, body, wanted, lambda: self._there(ref))
            # Looked at again now that nobody else can post: another run may just have done so.
            there = self._there(ref, draft)
            if not wanted & there:
                return drafts.submit(ref, draft, text), len(comments)
            drafts.discard(ref, draft)
            comments = [c for c in comments if c.fingerprint not in there]
        return 0, 0

    def _on_file(self, ref: PullRef, comment: NewComment) -> bool:
        """Put the comment on its file; False when GitHub does not take it there either."""
        body = {
            "path": comment.path,
            "body": _fitting(without_marks(comment.body), _marks_of(comment)),
            "commit_id": ref.head_sha,
            "subject_type": "file",
        }

        def find() -> bool | None:
            return True if comment.fingerprint in self._there(ref) else None

        try:
            made = self.calls.create(_pull(ref, "comments"), body, find)
        except TryAgainError:
            raise
        except GitHubError as problem:
            if problem.status != 422:
                raise
            return False
        if isinstance(made, Answer):
            self._keep_oldest(ref, comment.fingerprint)
        return True

    def _keep_oldest(self, ref: PullRef, mark: str) -> None:
        """Of several comments on one file about one finding, which two runs posted, leave one."""
        same = [c for c in self._ours_here(ref) if fingerprint(c.body) == mark]
        for other in sorted(same, key=lambda c: c.id)[1:]:
            self._delete(f"repos/{ref.full_name}/pulls/comments/{other.id}")

    def edit(self, ref: PullRef, edit: Edit) -> bool:
        """Give our comment another body; False when it was deleted meanwhile."""
        path = f"repos/{ref.full_name}/pulls/comments/{edit.id}"
        end = "".join(mark(name) for name in marks(edit.body))
        try:
            self.calls.edit("PATCH", path, {"body": _fitting(edit.body, end)})
        except GoneError:
            return False
        return True

    def summary(self, ref: PullRef, body: str, name: str = SUMMARY) -> int:
        """Bring the sticky comment to this text, making it when there is none; its id."""
        body = _fitting(body, mark(name))
        known = self.said.spoken(ref, name) or Summary(self._say(ref, body, name), body)
        # Two runs may have found none at the same moment: the oldest stays, whoever looks first.
        known, *others = self.said.all_spoken(ref, name) or [known]
        for other in others:
            self._delete(f"repos/{ref.full_name}/issues/comments/{other.id}")
        if known.body != body:
            path = f"repos/{ref.full_name}/issues/comments/{known.id}"
            self.calls.edit("PATCH", path, {"body": body})
        return known.id

    def _delete(self, path: str) -> None:
        try:
            self.calls.edit("DELETE", path, None)
        except GoneError:
            return  # the other run was quicker

    def reply(self, ref: PullRef, body: str, key: str) -> int:
        """Say this in the conversation once; the comment's id."""
        name = f"reply:{key}"
        known = self.said.spoken(ref, name)
        return known.id if known else self._say(ref, _fitting(body, mark(name)), name)

    def _say(self, ref: PullRef, body: str, name: str) -> int:
        path = f"repos/{ref.full_name}/issues/{ref.number}/comments"
        made = self.calls.create(path, {"body": body}, lambda: self.said.spoken(ref, name))
        return made.read(IssueComment).id if isinstance(made, Answer) else made.id

    def react(self, ref: PullRef, comment: int, content: str, on_line: bool) -> None:
        """Put a reaction on a comment; a second one of the kind changes nothing."""
        kind = "pulls" if on_line else "issues"
        path = f"repos/{ref.full_name}/{kind}/comments/{comment}/reactions"
        self.calls.edit("POST", path, {"content": content})


def _pull(ref: PullRef, what: str) -> str:
    return f"repos/{ref.full_name}/pulls/{ref.number}/{what}"


def _anchored(comment: NewComment) -> dict[str, Any]:
    said: dict[str, Any] = {
        "path": comment.path,
        "body": _fitting(without_marks(comment.body), _marks_of(comment)),
        "line": comment.line,
        "side": "RIGHT",
    }
    # GitHub refuses a range that starts where it ends.
    if comment.start_line and comment.start_line < comment.line:
        said |= {"start_line": comment.start_line, "start_side": "RIGHT"}
    return said


def _marks_of(comment: NewComment) -> str:
    return mark(comment.fingerprint)


def _fitting(body: str, end: str) -> str:
    """The body with these marks at its end, cut to what GitHub takes."""
    room = LONGEST_BODY - len(end) - 2
    text = without_marks(body)
    if len(text) > room:
        text = text[: room - len(_CUT)] + _CUT
    return f"{text}\n\n{end}" if text else end
