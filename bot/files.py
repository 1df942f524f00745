"""Which files a check of paths and trees reads."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.errors import UsageError
from bot.review import PYTHON

# Directories that hold other people's code or nobody's; named directly they are read all the same.
SKIPPED = frozenset(
    {"__pycache__", "__pypackages__", "node_modules", "site-packages", "venv", "env", "build",
     "dist", "_build", "buck-out"}
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """A file to read, as it is called in reports and within its repository."""

    shown: str
    source: str
    inside: str  # path within the configured directory, or within the tree that was named
    named: bool = False  # on the command line
    outside: bool = False  # of the configured directory


def find(paths: Sequence[str], root: Path) -> tuple[Found, ...]:
    """The Python files at and below the paths, each once, in the order of their names.

    Notebooks are among them, so that it can be said that they are not analysed.
    """
    found: dict[str, Found] = {}
    for path in paths:
        for file in _below(path, root):
            found.setdefault(os.path.realpath(file.source), file)
    return tuple(sorted(found.values(), key=lambda file: file.shown))


def _below(path: str, root: Path) -> Iterator[Found]:
    try:
        mode = os.stat(path).st_mode
    except OSError as problem:
        raise UsageError(f"{path}: {_complaint(problem)}") from problem
    if not stat.S_ISDIR(mode):
        if not stat.S_ISREG(mode):
            raise UsageError(f"{path} is neither a file nor a directory; name one of these")
        yield _found(path, root, os.path.dirname(path), named=True)
        return
    for directory, subdirectories, names in os.walk(path, onerror=_refuse(path)):
        subdirectories[:] = sorted(d for d in subdirectories if not skips(directory, d))
        for name in sorted(names):
            file = os.path.join(directory, name)
            if name.endswith((*PYTHON, ".ipynb")) and os.path.isfile(file):
                yield _found(file, root, path)


def skips(directory: str, name: str) -> bool:
    """Whether a folder's files are not looked at unless it is named itself."""
    environment = os.path.join(directory, name, "pyvenv.cfg")
    return name in SKIPPED or name.startswith(".") or os.path.isfile(environment)


def _refuse(top: str):
    def refuse(problem: OSError) -> None:
        if problem.filename == top:
            raise UsageError(f"{top}: {_complaint(problem)}") from problem

    return refuse


def _complaint(problem: OSError) -> str:
    if isinstance(problem, FileNotFoundError):
        return "there is no such file or directory"
    if isinstance(problem, PermissionError):
        return "it cannot be read (permission denied); change its mode or leave it out"
    return f"it cannot be read ({problem.strerror})"


def _found(file: str, root: Path, top: str, named: bool = False) -> Found:
    whole = os.path.abspath(file)
    shown = os.path.relpath(whole)
    shown = whole if shown.startswith("..") else shown
    inside = os.path.relpath(_own_name(whole, root), root)
    outside = inside.startswith("..")
    if outside:  # what the tree itself is called says nothing of the file
        inside = os.path.relpath(whole, top or ".")
    inside = inside.replace(os.sep, "/")
    return Found(shown.replace(os.sep, "/"), whole, inside, named, outside)


def _own_name(file: str, root: Path) -> str:
    """Where the file itself lies, if a link within the repository leads to it."""
    if not os.path.islink(file):
        return file
    inside = os.path.relpath(os.path.realpath(file), os.path.realpath(root))
    return file if inside.startswith("..") else os.path.join(root, inside)
