"""Suggestion blocks, applied to the file as GitHub's button does."""

from __future__ import annotations

import re

from tests.standin.hunks import moved
from tests.standin.model import LineComment, RefusedError

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*suggestion[ \t]*$")


def blocks(body: str) -> list[list[str]]:
    """The lines of each suggestion block of a comment."""
    found: list[list[str]] = []
    lines = iter(body.replace("\r\n", "\n").split("\n"))
    for line in lines:
        opened = _FENCE.match(line)
        if not opened:
            continue
        fence = opened[1]
        closing = re.compile(rf"^ {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$")
        content: list[str] = []
        for inner in lines:
            if closing.match(inner):
                break
            content.append(inner)
        found.append(content)
    return found


def place(comment: LineComment) -> tuple[int, int] | None:
    """The comment's lines at the present head; None when it is outdated."""
    if comment.line is None:
        return None
    first = comment.start_line or comment.line
    pull = comment.pull
    shift = moved(pull.repo.git, comment.path, (comment.commit, pull.head_sha), first, comment.line)
    return None if shift is None else (first + shift, comment.line + shift)


def apply(comments: list[LineComment]) -> dict[str, bytes]:
    """The changed files after all these suggestions in one commit."""
    pull = comments[0].pull
    if pull.state != "open":
        raise RefusedError(422, "Suggestions cannot be applied while the pull request is closed.")
    by_path: dict[str, list[tuple[int, int, list[str]]]] = {}
    for comment in comments:
        where, found = place(comment), blocks(comment.body)
        if not found:
            raise RefusedError(422, "There is no suggestion in this comment.")
        if comment.side != "RIGHT":
            raise RefusedError(422, "Suggestions cannot be applied on deleted lines.")
        if where is None:
            raise RefusedError(422, "This suggestion is outdated and cannot be applied.")
        if comment.resolved:
            raise RefusedError(422, "This suggestion has been applied or marked resolved.")
        by_path.setdefault(comment.path, []).append((*where, found[0]))
    return {path: _replaced(pull, path, changes) for path, changes in by_path.items()}


def _replaced(pull, path: str, changes: list[tuple[int, int, list[str]]]) -> bytes:
    found = pull.repo.git.blob(pull.head_sha, path)
    if found is None:
        raise RefusedError(422, "This suggestion is outdated and cannot be applied.")
    lines = found[1].decode("utf-8", "surrogateescape").split("\n")
    taken: set[int] = set()
    for first, last, content in sorted(changes, reverse=True):
        if taken & set(range(first, last + 1)):
            raise RefusedError(422, "Only one suggestion per line can be applied in a batch.")
        taken |= set(range(first, last + 1))
        if lines[first - 1 : last] == content:
            raise RefusedError(422, "Suggestions cannot be applied because no changes were made.")
        lines[first - 1 : last] = content
    return "\n".join(lines).encode("utf-8", "surrogateescape")
