"""What `check` and `baseline` look at: files at and below the paths, each under its settings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from analyzers.analysis import AnalysisConfig
from bot import config as configuration
from bot.baseline import Baseline, Entry
from bot.cli import options
from bot.config import Reader, RepoConfig
from bot.config_nearest import folders_above, with_nested
from bot.examine import NO_GPU, Examined, Job, in_children, sift
from bot.files import Found, find
from bot.pool import Task
from bot.review import worth_proving

FEW = 200  # files that are read once more than needed


@dataclass(frozen=True)
class Paths:
    """The files to look at, and the repository that they are in."""

    root: Path
    config: RepoConfig
    files: tuple[Found, ...]
    named: tuple[str, ...]  # the paths as they were given

    @property
    def read(self) -> Reader:
        """Reads files of the repository as they are on the disk."""
        return configuration.reader_of(self.root)

    def jobs(self, prove: bool = True) -> list[Job]:
        """One for each file; `prove`: whether its suggestions matter."""
        return [self._job(file, prove) for file in self.files]

    def _job(self, file: Found, prove: bool) -> Job:
        return Job(
            file.shown,
            self.config.for_file(file.inside),
            source=file.source,
            prove=worth_proving(self.config.nearest(file.inside)[0]) if prove else frozenset(),
            inside=file.inside,
        )

    def gone(self, baseline: Baseline) -> tuple[Entry, ...]:
        """What the baseline lists in files that are no more, at or below the paths."""
        tops = [Path(path).resolve() for path in self.named]
        root = self.root.resolve()

        def vanished(path: str) -> bool:
            file = root / path
            return not file.exists() and any(file.is_relative_to(top) for top in tops)

        paths = {entry.path for entry in baseline.entries}
        return baseline.within(path for path in paths if vanished(path))


def look(paths: Sequence[str], arguments: argparse.Namespace, hasty: bool = False) -> Paths:
    """The files at and below the paths that their settings let through.

    `hasty`: without their settings, where there is nothing to judge.
    """
    root = _root(paths)
    files = find(paths, root)
    config = RepoConfig()
    if not arguments.no_config and not (hasty and _without_gpu(files)):
        read = configuration.reader_of(root)
        folders = folders_above(file.inside for file in files if not file.outside)
        config = with_nested(configuration.load(read), read, folders)
    config = options.merge(config, arguments)
    named_counts = not ("force_exclude" in arguments and arguments.force_exclude)
    wanted = tuple(
        file for file in files if (file.named and named_counts) or config.wants(file.inside)
    )
    return Paths(root, config, wanted, tuple(paths))


def _without_gpu(files: Sequence[Found]) -> bool:
    """Whether these few named files have nothing to judge: then no settings need to be read.

    A commit hook runs on every commit, and most of them touch no GPU code.
    """
    if len(files) > FEW or not all(file.named for file in files):
        return False
    jobs = (Job(file.shown, AnalysisConfig(), source=file.source) for file in files)
    return all(sift(job).reason == NO_GPU for job in jobs)


def _root(paths: Iterable[str]) -> Path:
    """What the paths are seen from: their repository, of several the first."""
    whole = list(dict.fromkeys(os.path.abspath(path) for path in paths))
    folders = dict.fromkeys(
        path if os.path.isdir(path) else os.path.dirname(path) for path in whole
    )
    roots = list(dict.fromkeys(configuration.find_root(Path(folder)) for folder in folders))
    if len(roots) == 1 or any((root / ".git").exists() for root in roots):
        return roots[0]
    return configuration.find_root(Path(os.path.commonpath(whole)))


def check(jobs: Sequence[Job], *, printed: bool = False) -> list[Examined]:
    """Whole files judged in child processes; `printed`: what is found will be shown as text."""
    from bot.examine import examine_all
    from bot.progress import watched

    run = _meanwhile_preparing if printed else in_children
    return examine_all(jobs, watched(run, "files checked"))


def _meanwhile_preparing(
    task: Task[Job, Examined], jobs: Sequence[Job]
) -> Iterator[tuple[int, Examined]]:
    """What prints findings is loaded while the children look for more."""
    prepared = False
    for number, result in in_children(task, jobs):
        if result.items and not prepared:
            prepared = bool(import_module("bot.reports.terminal"))
        yield number, result
