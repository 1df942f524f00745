"""Which files a change touched: a commit, what is staged, or the working tree against a base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from bot.diff import SUBMODULE, SYMLINK, Change, ChangedFile, Hunk, Patch, parse_diff, whole_file
from bot.examine import read
from bot.git import Checkout
from bot.review import PYTHON

_DIFF = (
    "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "-M", "-l2000",
    "--ignore-submodules=dirty",
)  # fmt: skip
_PATHS_A_CALL = 400
_REGULAR = ("100644", "100755")


@dataclass(frozen=True)
class _Entry:
    """One line of `git diff --raw`."""

    old_mode: str
    mode: str
    old_blob: str
    blob: str
    status: str
    old_path: str
    path: str


@dataclass(frozen=True)
class Ends:
    """What is compared: a commit with a commit, the index, or the working tree."""

    base: str
    head: str = ""  # empty: the index or the working tree
    staged: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """Git's words for it."""
        cached = ("--cached",) if self.staged else ()
        return (*cached, self.base, *((self.head,) if self.head else ()), "--")


def changed_files(checkout: Checkout, ends: Ends) -> tuple[ChangedFile, ...]:
    """Every changed file, Python ones with their texts and hunks."""
    raw = checkout.run(*_DIFF, "--raw", "-z", "--no-abbrev", *ends.arguments)
    entries = _unique(_entries(raw.decode("utf-8", "surrogateescape")))
    readable = [entry for entry in entries if _is_code(entry)]
    heads = _heads(checkout, ends, readable)
    bases = _bases(checkout, entries)
    patches = _patches(checkout, ends, [e for e in readable if isinstance(heads[e.path], bytes)])
    files = [_file(entry, heads.get(entry.path), bases, patches) for entry in entries]
    if not ends.head:
        files = _with_conflicts(checkout, files)
    if not ends.head and not ends.staged:
        files += _untracked(checkout)
    return tuple(sorted(files, key=lambda file: file.path))


def _entries(raw: str) -> Iterator[_Entry]:
    words = iter(raw.split("\0"))
    for word in words:
        if not word.startswith(":"):
            continue
        old_mode, mode, old_blob, blob, status = word[1:].split(" ")
        old_path = next(words)
        path = next(words) if status[0] in "RC" else old_path
        yield _Entry(old_mode, mode, old_blob, blob, status[0], old_path, path)


def _unique(entries: Iterable[_Entry]) -> list[_Entry]:
    found: dict[str, _Entry] = {}
    for entry in entries:
        # An unmerged file may be listed twice; that it is unmerged is what counts.
        if entry.status == "U" or found.get(entry.path, entry).status != "U":
            found[entry.path] = entry
    return list(found.values())


def _is_code(entry: _Entry) -> bool:
    python = entry.path.endswith(PYTHON)
    return python and entry.mode in _REGULAR and entry.status in ("A", "M", "R", "T")


def _heads(checkout: Checkout, ends: Ends, entries: Sequence[_Entry]) -> dict[str, bytes | str]:
    if ends.head or ends.staged:
        texts = checkout.blobs([entry.blob for entry in entries])
        return {entry.path: text for entry, text in zip(entries, texts, strict=True)}
    return {entry.path: read(str(checkout.root / entry.path)) for entry in entries}


def _bases(checkout: Checkout, entries: Sequence[_Entry]) -> dict[str, bytes]:
    wanted = [e for e in entries if e.old_path.endswith(PYTHON) and e.old_mode in _REGULAR]
    texts = checkout.blobs([entry.old_blob for entry in wanted])
    return {e.path: t for e, t in zip(wanted, texts, strict=True) if isinstance(t, bytes)}


def _patches(checkout: Checkout, ends: Ends, entries: Sequence[_Entry]) -> dict[str, Patch]:
    patches: dict[str, Patch] = {}
    options = ("-U3", "--text", "--src-prefix=a/", "--dst-prefix=b/")
    for start in range(0, len(entries), _PATHS_A_CALL):
        part = entries[start : start + _PATHS_A_CALL]
        paths = sorted({path for entry in part for path in (entry.old_path, entry.path)})
        text = checkout.run(*_DIFF, *options, *ends.arguments, *paths)
        for patch in parse_diff(text.decode("utf-8", "surrogateescape")):
            if patch.change is not Change.DELETED:
                patches[patch.path] = patch
    return patches


_CHANGES = {"A": Change.ADDED, "D": Change.DELETED, "R": Change.RENAMED}
_UNREAD = {"160000": SUBMODULE, "120000": SYMLINK}


def _file(
    entry: _Entry,
    text: bytes | str | None,
    bases: dict[str, bytes],
    patches: dict[str, Patch],
) -> ChangedFile:
    unread = text if isinstance(text, str) else _UNREAD.get(entry.mode, "")
    hunks: tuple[Hunk, ...] = patches[entry.path].hunks if entry.path in patches else ()
    return ChangedFile(
        path=entry.path,
        change=_CHANGES.get(entry.status, Change.MODIFIED),
        hunks=hunks,
        text=text if isinstance(text, bytes) else None,
        base=bases.get(entry.path),
        old_path=entry.old_path if entry.status == "R" else "",
        unread=unread,
    )


def _with_conflicts(checkout: Checkout, files: list[ChangedFile]) -> list[ChangedFile]:
    listing = checkout.run("ls-files", "--unmerged", "-z").decode("utf-8", "surrogateescape")
    unmerged = {line.partition("\t")[2] for line in listing.split("\0")}
    reason = "It has unresolved merge conflicts."
    return [replace(f, text=None, unread=reason) if f.path in unmerged else f for f in files]


def _untracked(checkout: Checkout) -> Iterator[ChangedFile]:
    names = checkout.run("ls-files", "--others", "--exclude-standard", "-z")
    for path in names.decode("utf-8", "surrogateescape").split("\0"):
        if path.endswith(PYTHON) and not (checkout.root / path).is_symlink():
            text = read(str(checkout.root / path))
            if isinstance(text, bytes):
                yield ChangedFile(path, Change.ADDED, whole_file(text), text)
            else:
                yield ChangedFile(path, Change.ADDED, unread=text)
