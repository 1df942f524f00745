"""What a pull request changes, or one commit against another: the diff, and the texts at head.

GitHub refuses the diff of a large change, and leaves the patch of a large file out. Then its
list of files is asked, and where that is not enough, git.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import quote

from bot.diff import (
    Change,
    ChangedFile,
    Patch,
    UnfitHunkError,
    parse_diff,
    parse_patch,
    reverse,
)
from bot.errors import UsageError
from bot.examine import LARGEST
from bot.github_calls import DIFF, Calls
from bot.github_errors import DeniedError, GitHubError, GoneError, UnsureError
from bot.github_shapes import Comparison, Contents, ListedFile
from bot.pulls import Pull, PullRef
from bot.review import PYTHON

MOST_TEXTS = 60  # each is a request; more are fetched with git
MOST_LISTED = 3000  # GitHub lists no more files of a pull request
MOST_COMPARED = 300  # nor between two commits
_TOO_LARGE = (406, 422)
NO_PATCH = "GitHub shows no diff of this file, and it could not be fetched with git."
NO_TEXT = "Its text could not be read from GitHub."

Fetched = Callable[[Pull], tuple[ChangedFile, ...]]


@dataclass(frozen=True)
class Files:
    """Reads what a pull request changes."""

    calls: Calls
    fetch: Fetched  # the same by git

    def changed(self, pull: Pull) -> tuple[ChangedFile, ...]:
        """Every changed file, Python ones with their texts and hunks."""
        patches, hidden = self._patches(pull)
        wanted = [patch for patch in patches if _needs_text(patch)]
        if hidden or len(wanted) > MOST_TEXTS:
            fetched = self._by_git(pull, hidden)
            if fetched is not None:
                return fetched
            if "" in hidden:
                raise GitHubError(
                    f"{pull.ref} changes more files than the {_most(pull.ref):,} that GitHub "
                    "lists, and they could not be fetched with git; split it"
                )
        files = [self._file(pull.ref, patch, patch.path in hidden) for patch in patches]
        return tuple(sorted(files, key=lambda file: file.path))

    def _by_git(self, pull: Pull, hidden: frozenset[str]) -> tuple[ChangedFile, ...] | None:
        try:
            files = self.fetch(pull)
        except UsageError:  # git is missing, or refused
            return None
        # Lines of a file whose diff GitHub does not show cannot be commented on.
        return tuple(replace(f, shown=False) if f.path in hidden else f for f in files)

    def _patches(self, pull: Pull) -> tuple[tuple[Patch, ...], frozenset[str]]:
        """The patches, and the paths of Python files whose patch GitHub leaves out."""
        ref = pull.ref
        try:
            text = self.calls.get(_change(ref), accept=DIFF).content.decode(
                "utf-8", "surrogateescape"
            )
            patches = parse_diff(text)
            if len(patches) >= pull.files:  # else it was cut
                return patches, frozenset()
        except UnsureError as problem:  # GitHub gives up on large diffs in several ways
            if problem.status < 500:
                raise
        except UsageError:
            pass  # something that is no diff
        except GitHubError as problem:
            if problem.status not in _TOO_LARGE:
                raise
        return self._listed(ref)

    def _listed(self, ref: PullRef) -> tuple[tuple[Patch, ...], frozenset[str]]:
        if ref.number:
            files = list(self.calls.pages(f"{_change(ref)}/files", ListedFile))
        else:
            compared = self.calls.get(_change(ref), per_page="1").read(Comparison)
            files = list(compared.files or ())
        hidden = frozenset(f.filename for f in files if _lacks_patch(f))
        if len(files) >= _most(ref):
            hidden |= {""}  # there may be more than GitHub lists
        return tuple(_patch(file) for file in files), hidden

    def _file(self, ref: PullRef, patch: Patch, hidden: bool) -> ChangedFile:
        file = ChangedFile(
            path=patch.path,
            change=patch.change,
            hunks=patch.hunks,
            old_path=patch.old_path if patch.change is Change.RENAMED else "",
            unread=NO_PATCH if hidden else patch.unread,
        )
        if hidden or patch.unread or not patch.path.endswith(PYTHON):
            return file
        if patch.change is Change.DELETED:
            before = "".join(line for hunk in patch.hunks for line in hunk.before)
            return replace(file, base=before.encode("utf-8", "surrogateescape"))
        if not _needs_text(patch):
            return file
        text = self.text(ref, patch.path, ref.head_sha)
        if isinstance(text, str):
            return replace(file, unread=text)
        return replace(file, text=text, base=_base(file, text))

    def text(self, ref: PullRef, path: str, commit: str) -> bytes | str:
        """The file's bytes at this commit, or why they cannot be had."""
        try:
            found = self._contents(ref, path, commit)
        except GoneError:
            return NO_TEXT
        except DeniedError as problem:
            if problem.status == 403:  # too large for this API
                return NO_TEXT
            raise
        if found.size > LARGEST:
            return f"The file is {found.size:,} bytes long; at most {LARGEST:,} are read."
        return _decoded(found)

    def optional_text(self, ref: PullRef, path: str, commit: str) -> bytes | None:
        """The file's bytes at this commit; None when there is no such file."""
        try:
            found = self._contents(ref, path, commit)
        except GoneError as problem:
            if problem.status == 404:
                return None
            raise
        data = _decoded(found) if found.type == "file" else None
        return data if isinstance(data, bytes) else None

    def _contents(self, ref: PullRef, path: str, commit: str) -> Contents:
        name = quote(path.encode("utf-8", "surrogateescape"))
        found = self.calls.get(f"repos/{ref.full_name}/contents/{name}", ref=commit).read(Contents)
        if found.encoding == "none" and found.size <= LARGEST:  # above 1 MB
            return self.calls.get(f"repos/{ref.full_name}/git/blobs/{found.sha}").read(Contents)
        return found


def _change(ref: PullRef) -> str:
    """Where GitHub shows the change: of the pull request, or between the two commits."""
    if ref.number:
        return f"repos/{ref.full_name}/pulls/{ref.number}"
    return f"repos/{ref.full_name}/compare/{ref.base_sha}...{ref.head_sha}"


def _most(ref: PullRef) -> int:
    return MOST_LISTED if ref.number else MOST_COMPARED


def _decoded(found: Contents) -> bytes | str:
    if found.encoding != "base64":
        return NO_TEXT
    try:
        return base64.b64decode(found.content)
    except binascii.Error:
        return NO_TEXT


def _needs_text(patch: Patch) -> bool:
    """Whether the file's text at head can hold anything new."""
    readable = patch.path.endswith(PYTHON) and not patch.unread
    return readable and patch.change is not Change.DELETED and bool(patch.hunks)


def _lacks_patch(file: ListedFile) -> bool:
    changed = file.additions or file.deletions
    return file.filename.endswith(PYTHON) and file.patch is None and bool(changed)


_CHANGES = {"added": Change.ADDED, "removed": Change.DELETED, "copied": Change.ADDED}


def _patch(file: ListedFile) -> Patch:
    patch = parse_patch(file.filename, file.patch or "", file.previous_filename)
    change = _CHANGES.get(file.status, patch.change)
    return replace(patch, change=change)


def _base(file: ChangedFile, text: bytes) -> bytes | None:
    """The text before the change; raises UnsureError when the diff is about another head."""
    if file.change is Change.ADDED:
        return None
    try:
        before = reverse(text.decode("utf-8", "surrogateescape"), file.hunks)
    except UnfitHunkError as problem:
        raise UnsureError(
            f"the diff of {file.path} does not fit its text: the pull request has moved on"
        ) from problem
    return before.encode("utf-8", "surrogateescape")
