"""Folders for one run, gone with it: also when it is killed, then the next run clears them away.

A folder's owner holds a lock on a file in it for as long as it lives, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

from gpu_runner.errors import RunnerError

OWNER = ".owner"


@contextlib.contextmanager
def scratch(prefix: str) -> Generator[Path]:
    """A new folder under the system's temporary one; folders whose owners died go first."""
    try:
        area = Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as problem:
        raise RunnerError(
            f"no temporary folder can be made ({problem.strerror}); set TMPDIR to one with room"
        ) from problem
    try:
        with _owned(area / OWNER):
            _clear(area.parent, prefix)
            yield area
    finally:
        shutil.rmtree(area, ignore_errors=True)


@contextlib.contextmanager
def _owned(mark: Path) -> Generator[None]:
    descriptor = os.open(mark, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _clear(folder: Path, prefix: str) -> None:
    """Removes our own folders with this prefix that nobody holds any more."""
    for left in folder.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            facts = left.lstat()
            if facts.st_uid == os.geteuid() and not left.is_symlink() and _ownerless(left / OWNER):
                shutil.rmtree(left, ignore_errors=True)


def _ownerless(mark: Path) -> bool:
    """Whether the mark exists and its lock is free; a folder without a mark is just being made."""
    descriptor = os.open(mark, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
