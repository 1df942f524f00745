"""Which lines a pull request's diff shows, read from git's own output."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tests.standin.gitstore import GitStore

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Piece:
    """One hunk: the lines it shows on either side."""

    left: range
    right: range
    text: str

    def shows(self, side: str, line: int) -> bool:
        return line in (self.left if side == "LEFT" else self.right)


@dataclass
class FileDiff:
    """One changed file."""

    path: str
    old_path: str
    status: str
    additions: int = 0
    deletions: int = 0
    binary: bool = False
    pieces: list[Piece] = field(default_factory=list)
    patch: str = ""


def changed(store: GitStore, base: str, head: str) -> list[FileDiff]:
    """What GitHub lists for `base...head`, where `base` is the merge base already."""
    names = store.diff(base, head, "--name-status", "-z").decode("utf-8", "surrogateescape")
    words = iter(names.split("\0"))
    found: list[FileDiff] = []
    for word in words:
        if not word:
            continue
        old = next(words)
        new = next(words) if word[0] in "RC" else old
        status = {"A": "added", "D": "removed", "M": "modified", "R": "renamed"}[word[0]]
        found.append(FileDiff(new, old, status))
    text = store.diff(base, head).decode("utf-8", "surrogateescape")
    starts = [match.start() for match in re.finditer(r"(?m)^diff --git ", text)]
    # Git writes the patches in the order of the names.
    ends = [*starts[1:], len(text)][: len(starts)]  # a change may come to nothing
    for file, first, end in zip(found, starts, ends, strict=True):
        _read(file, text[first:end])
    return found


def _read(file: FileDiff, text: str) -> None:
    lines = text.split("\n")
    file.binary = any(line.startswith(("Binary files", "GIT binary")) for line in lines)
    start = next((n for n, line in enumerate(lines) if line.startswith("@@")), None)
    if start is None:
        return
    body = lines[start:-1]
    file.patch = "\n".join(body)
    starts = [n for n, line in enumerate(body) if line.startswith("@@")]
    for first, end in zip(starts, [*starts[1:], len(body)], strict=True):
        file.pieces.append(_piece(body[first:end]))
    file.additions = sum(line.startswith("+") for line in body)
    file.deletions = sum(line.startswith("-") for line in body)


def _piece(lines: list[str]) -> Piece:
    match = _HUNK.match(lines[0])
    assert match is not None
    old, old_count, new, new_count = (int(n) if n is not None else 1 for n in match.groups())
    return Piece(range(old, old + old_count), range(new, new + new_count), "\n".join(lines))


def moved(
    store: GitStore, path: str, commits: tuple[str, str], first: int, last: int
) -> int | None:
    """How far lines first..last moved between two commits; None when they were touched."""
    then, now = commits
    if then == now:
        return 0
    if store.blob(now, path) is None:
        return None
    text = store.run("diff", "--no-color", "-U0", then, now, "--", path).decode(errors="replace")
    shift = 0
    for match in _HUNK.finditer(text):
        old, old_count, _, new_count = (int(n) if n is not None else 1 for n in match.groups())
        begin = old if old_count else old + 1  # with no old lines, the header names the one before
        if begin > last:
            break
        if begin + old_count > first and begin <= last and (old_count or begin > first):
            return None
        shift += new_count - old_count
    return shift
