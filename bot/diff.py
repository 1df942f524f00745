"""What a change touched: files, hunks, and where a finding can be shown.

The only module that knows unidiff. Patches come from git, from a file, or from GitHub's files
API, whose patches have no header lines; names may be C-quoted.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from unidiff import constants, errors
from unidiff import patch as parsed

from analyzers.finding import Related, Span
from bot.errors import UsageError
from bot.lines import counts_like_git
from bot.quoting import unquote

SUBMODULE = "It is a submodule."
SYMLINK = "It is a symbolic link."
BINARY = "It is a binary file."


class Placement(enum.StrEnum):
    """Where a finding is shown."""

    INLINE = "inline"  # on its lines, which lie in one hunk
    FILE = "file"  # on the file: it changed, but not within reach of these lines
    SUMMARY = "summary"  # in the folded part of the summary


class Change(enum.StrEnum):
    """What happened to a file."""

    ADDED = "added"
    MODIFIED = "modified"
    RENAMED = "renamed"
    DELETED = "deleted"


@dataclass(frozen=True)
class Hunk:
    """One contiguous piece of a diff; `before` and `after` are its lines with their ends."""

    base_first: int  # line at base where `before` starts, or would
    first: int  # line at head where `after` starts, or would
    before: tuple[str, ...]
    after: tuple[str, ...]
    added: frozenset[int]  # lines at head
    removed: frozenset[int]  # lines at base

    @property
    def last(self) -> int:
        """Its last line at head; smaller than `first` when it only deletes."""
        return self.first + len(self.after) - 1

    def holds(self, first: int, last: int) -> bool:
        """Whether all these lines at head are shown in it."""
        return self.first <= first <= last <= self.last


@dataclass(frozen=True)
class Patch:
    """The part of a diff that is about one file."""

    path: str
    old_path: str
    change: Change
    hunks: tuple[Hunk, ...] = ()
    unread: str = ""  # why there is no text to read


@dataclass(frozen=True)
class ChangedFile:
    """A file at head, at base, and the hunks between."""

    path: str
    change: Change
    hunks: tuple[Hunk, ...] = ()
    text: bytes | None = None  # at head; None when deleted or not read
    base: bytes | None = None  # None when new or not read
    old_path: str = ""  # when renamed
    unread: str = ""  # why its text is not here although it exists at head
    shown: bool = True  # False: GitHub shows no diff of it, so that no line can be commented on

    @property
    def added(self) -> frozenset[int]:
        """The lines at head that the change wrote."""
        return frozenset[int]().union(*(hunk.added for hunk in self.hunks))

    def hunk_holding(self, first: int, last: int) -> Hunk | None:
        """The hunk that shows all these lines."""
        if self.text is not None and not counts_like_git(self.text):
            return None
        return next((hunk for hunk in self.hunks if hunk.holds(first, last)), None)


def locate(file: ChangedFile, span: Span) -> Placement:
    """Where a finding with this span can be shown."""
    if file.shown and file.hunk_holding(span.line, span.end_line):
        return Placement.INLINE
    return Placement.FILE if file.hunks else Placement.SUMMARY


def touched(added: frozenset[int], span: Span, related: Iterable[Related] = ()) -> bool:
    """Whether the finding or one of its other places lies on an added line."""
    return span.touches(added) or any(other.span.touches(added) for other in related)


def parse_diff(text: str) -> tuple[Patch, ...]:
    """The patches of a unified diff, in its order."""
    return tuple(
        patch
        for part in _split(text)
        for patch in (_parse_git(part) if part.startswith("diff --git ") else _parse(part))
    )


def parse_patch(path: str, patch: str, old_path: str = "") -> Patch:
    """The patch of one file whose header lines are missing, as GitHub's files API gives it."""
    header = "--- a/header\n+++ b/header\n"
    body = patch if patch.endswith("\n") or not patch else patch + "\n"
    files = list(_parse(header + body)) if patch else []
    hunks = files[0].hunks if files else ()
    change = Change.RENAMED if old_path and old_path != path else Change.MODIFIED
    return Patch(path=path, old_path=old_path or path, change=change, hunks=hunks)


def _split(text: str) -> Iterator[str]:
    # Inside a hunk every line starts with a sign, so this cannot cut one. Split, so that one
    # file's oddity does not cost the others.
    starts = [match.start() for match in re.finditer(r"(?m)^diff --git ", text)]
    if not starts and text.strip():
        yield text
    for start, end in zip(starts, [*starts[1:], len(text)], strict=False):
        yield text[start:end]


_GIT_HEADER = re.compile(r"diff --git (.*)\n")
_SIDES = (
    (re.compile(r"(?m)^(?:rename|copy) from (.*)$"), re.compile(r"(?m)^--- (.*)$")),
    (re.compile(r"(?m)^(?:rename|copy) to (.*)$"), re.compile(r"(?m)^\+\+\+ (.*)$")),
)


def _parse_git(text: str) -> Iterator[Patch]:
    """The patch below one `diff --git` line.

    A name with ` b/` in it leaves that line ambiguous, so names are read from the lines that hold
    only one, and unidiff gets to see a plain name in their place.
    """
    body = re.search(r"(?m)^@@ ", text)
    head = text[: body.start()] if body else text
    old, new = (_side_name(head, patterns) for patterns in _SIDES)
    both = _name(_half(head))
    plain = _GIT_HEADER.sub("diff --git a/name b/name\n", head, count=1)
    plain = re.sub(r"(?m)^(--- |\+\+\+ )(?!/dev/null).*$", _plain_name, plain)
    plain = re.sub(r"(?m)^Binary files .*$", "Binary files a/name and b/name differ", plain)
    for patch in _parse(plain + text[len(head) :]):
        old_path, path = old or both, new or both
        if patch.change is Change.DELETED:
            yield replace(patch, path=old_path, old_path=old_path)
        elif patch.change is Change.ADDED:
            yield replace(patch, path=path, old_path=path)
        else:
            change = Change.MODIFIED if old_path == path else Change.RENAMED
            yield replace(patch, path=path, old_path=old_path, change=change)


def _side_name(head: str, patterns: tuple[re.Pattern[str], re.Pattern[str]]) -> str:
    renamed, header = (pattern.search(head) for pattern in patterns)
    if renamed:
        return unquote(renamed[1])
    return _name(header[1]) if header and header[1] != "/dev/null" else ""


def _plain_name(match: re.Match[str]) -> str:
    return f"{match[1]}{'a' if match[1].startswith('-') else 'b'}/name"


def _half(head: str) -> str:
    """The first of the two names, which are the same, behind `diff --git`."""
    match = _GIT_HEADER.match(head)
    names = match[1] if match else ""
    return names[: len(names) // 2]


def _parse(text: str) -> Iterator[Patch]:
    lines = (line + "\n" for line in text.removesuffix("\n").split("\n"))
    try:
        files = parsed.PatchSet(lines)
    except errors.UnidiffParseError as problem:
        raise UsageError(
            f"this is not a unified diff that can be read ({str(problem).strip()}); "
            "make it with `git diff`"
        ) from problem
    for file in files:
        old, new = _name(file.source_file), _name(file.target_file)
        change = _change(file, old, new)
        yield Patch(
            path=old if change is Change.DELETED else new,
            old_path=new if change is Change.ADDED else old,
            change=change,
            hunks=tuple(_hunk(hunk) for hunk in file),
            unread=_unread(file),
        )


def _unread(file: parsed.PatchedFile) -> str:
    if file.is_binary_file:
        return BINARY
    return SUBMODULE if file.is_submodule else SYMLINK if file.is_symlink else ""


def _change(file: parsed.PatchedFile, old: str, new: str) -> Change:
    if file.is_added_file or old == "/dev/null":
        return Change.ADDED
    if file.is_removed_file or new == "/dev/null":
        return Change.DELETED
    return Change.RENAMED if file.is_rename else Change.MODIFIED


def _hunk(hunk: parsed.Hunk) -> Hunk:
    before = _side(hunk, constants.LINE_TYPE_REMOVED)
    after = _side(hunk, constants.LINE_TYPE_ADDED)
    # With no lines on a side, the header names the line before the place.
    return Hunk(
        base_first=hunk.source_start + (not before),
        first=hunk.target_start + (not after),
        before=before,
        after=after,
        added=frozenset(line.target_line_no or 0 for line in hunk if line.is_added),
        removed=frozenset(line.source_line_no or 0 for line in hunk if line.is_removed),
    )


def _side(hunk: parsed.Hunk, sign: str) -> tuple[str, ...]:
    lines: list[str] = []
    own = False
    for line in hunk:
        if line.line_type == constants.LINE_TYPE_NO_NEWLINE:
            lines[-1:] = [text.rstrip("\n") for text in lines[-1:]] if own else lines[-1:]
            continue
        own = line.line_type in (sign, constants.LINE_TYPE_CONTEXT, constants.LINE_TYPE_EMPTY)
        lines += [line.value] if own else []
    return tuple(lines)


def whole_file(text: bytes) -> tuple[Hunk, ...]:
    """The hunk of a file that is new as a whole."""
    lines = text.decode("utf-8", "surrogateescape").split("\n")
    after = tuple(f"{line}\n" for line in lines[:-1]) + ((lines[-1],) if lines[-1] else ())
    if not after:
        return ()
    return (Hunk(1, 1, (), after, frozenset(range(1, len(after) + 1)), frozenset()),)


def _name(header: str) -> str:
    name = unquote(header.strip("\n").rstrip("\t"))
    return name[2:] if name.startswith(("a/", "b/")) else name


class UnfitHunkError(Exception):
    """A hunk does not fit the text it is said to be about."""

    def __init__(self, line: int) -> None:
        super().__init__(f"the hunk at line {line} does not fit")
        self.line = line


def reverse(text: str, hunks: tuple[Hunk, ...]) -> str:
    """The text before the hunks were applied; raises UnfitHunkError if they were not."""
    return _swap(text, [(hunk.first, hunk.after, hunk.before) for hunk in hunks])


def apply(text: str, hunks: tuple[Hunk, ...]) -> str:
    """The text with the hunks applied; raises UnfitHunkError if they do not fit."""
    return _swap(text, [(hunk.base_first, hunk.before, hunk.after) for hunk in hunks])


def _swap(text: str, pieces: list[tuple[int, tuple[str, ...], tuple[str, ...]]]) -> str:
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    lines = [line for line in lines if line]
    for first, old, new in reversed(pieces):
        start = max(first - 1, 0)
        if not _same(lines[start : start + len(old)], old):
            raise UnfitHunkError(first)
        lines[start : start + len(old)] = new
    return "".join(lines)


def _same(found: list[str], said: tuple[str, ...]) -> bool:
    return [line.rstrip("\r\n") for line in found] == [line.rstrip("\r\n") for line in said]
