"""Settings of folders below the top of a repository: for each file the nearest upward count.

A nested `[tool.hostside]` stands alone, as with ruff: nothing is merged into it. Only what the top
excludes stays excluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from analyzers.prefilter import mentions_gpu
from bot.config import PYPROJECT, Reader, RepoConfig, mentions_us
from bot.diff import ChangedFile

MOST_FOLDERS = 100  # each is a request to GitHub; the deepest of more are not looked into


def with_nested(config: RepoConfig, read: Reader, folders: Iterable[str]) -> RepoConfig:
    """The configuration with what stands in these folders, given the highest first."""
    nested: list[tuple[str, RepoConfig]] = []
    for folder in folders:
        name = f"{folder}/{PYPROJECT}"
        text = read(name)
        if text is None or not mentions_us(text):
            continue
        from bot.config_file import parse_nested

        found = parse_nested(name, text)
        if found is not None:
            nested.append((folder, found))
    return replace(config, nested=tuple(reversed(nested)))


def for_change(
    config: RepoConfig, read: Reader, files: Sequence[ChangedFile], most: int | None = MOST_FOLDERS
) -> RepoConfig:
    """The configuration for the files of a change: looks only where something is to be judged."""
    folders = folders_above(file.path for file in files if may_be_judged(file))
    return with_nested(config, read, folders[:most])


def folders_above(paths: Iterable[str]) -> list[str]:
    """The folders that hold these files, the highest first; without the top itself."""
    found = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    return sorted(found - {".", "/"}, key=lambda folder: (folder.count("/"), folder))


def may_be_judged(file: ChangedFile) -> bool:
    """Whether the file may hold GPU code, as far as a scan for words can tell."""
    from bot.review import PYTHON

    if not file.path.endswith(PYTHON):
        return False
    return bool(file.unread) or any(
        t is not None and mentions_gpu(t) for t in (file.text, file.base)
    )
