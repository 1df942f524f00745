"""What a unified diff changed, with the files it is about beside it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath

from bot.diff import Change, ChangedFile, Patch, UnfitHunkError, apply, parse_diff, reverse
from bot.errors import UsageError
from bot.examine import read
from bot.review import PYTHON

LARGEST_PATCH = 50_000_000  # bytes


def changed_files(patch_file: str, directory: str | None) -> tuple[ChangedFile, ...]:
    """Every file of the diff; the files on disk may be those before it or those after it."""
    patches = parse_diff(_text(patch_file))
    if not patches:
        raise UsageError(f"{patch_file} holds no unified diff; make one with `git diff`")
    root = _root(patch_file, directory, patches)
    return tuple(_file(root, _resolved(root, patch)) for patch in patches)


def _text(patch_file: str) -> str:
    try:
        if patch_file == "-":
            data = sys.stdin.buffer.read(LARGEST_PATCH + 1)
        else:
            with open(patch_file, "rb") as file:
                data = file.read(LARGEST_PATCH + 1)
    except OSError as problem:
        raise UsageError(f"{patch_file} cannot be read ({problem.strerror})") from problem
    if len(data) > LARGEST_PATCH:
        raise UsageError(f"{patch_file} is longer than {LARGEST_PATCH:,} bytes; split it")
    return data.decode("utf-8", "surrogateescape")


def _root(patch_file: str, directory: str | None, patches: tuple[Patch, ...]) -> Path:
    if directory is not None:
        return Path(directory)
    here, beside = Path.cwd(), Path(patch_file).resolve().parent
    for place in (here, beside):
        if any((place / _resolved(place, patch).path).is_file() for patch in patches):
            return place
    return here


def _resolved(root: Path, patch: Patch) -> Patch:
    """The patch with a path that may be read, less a first part that only some tools write."""
    path = PurePosixPath(patch.path)
    if path.is_absolute() or ".." in path.parts:
        raise UsageError(
            f"the patch names {patch.path}, which is outside the directory; "
            "make it with `git diff` at the top of the repository"
        )
    shorter = "/".join(path.parts[1:])
    if shorter and not (root / path).is_file() and (root / shorter).is_file():
        return replace(patch, path=shorter)
    return patch


def _file(root: Path, patch: Patch) -> ChangedFile:
    bare = ChangedFile(
        patch.path, patch.change, patch.hunks, old_path=patch.old_path, unread=patch.unread
    )
    python = patch.path.endswith(PYTHON) and patch.change is not Change.DELETED
    if not python or not patch.hunks or patch.unread:
        return bare
    if not (root / patch.path).resolve().is_relative_to(root.resolve()):
        raise UsageError(f"{patch.path} is a link that leaves {root}; copy the file there instead")
    name = patch.path
    if not os.path.exists(root / name) and patch.change is Change.RENAMED:
        name = patch.old_path  # the patch was not applied yet
    new = patch.change is Change.ADDED and not os.path.exists(root / name)
    found = b"" if new else read(str(root / name))
    if isinstance(found, str):
        return replace(bare, unread=f"{found} It should lie in {root}.")
    return _sides(bare, found.decode("utf-8", "surrogateescape"))


def _sides(file: ChangedFile, text: str) -> ChangedFile:
    try:
        return replace(file, text=_bytes(text), base=_bytes(reverse(text, file.hunks)))
    except UnfitHunkError:
        pass
    try:
        return replace(file, text=_bytes(apply(text, file.hunks)), base=_bytes(text))
    except UnfitHunkError as problem:
        reason = (
            "The file on disk is neither the one before the patch nor the one after it "
            f"(line {problem.line} differs)."
        )
        return replace(file, unread=reason)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
