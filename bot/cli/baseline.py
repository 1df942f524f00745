"""`hostside baseline [PATH…]`: accepts what is found today; only new findings are reported then."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot import baseline as baselines
from bot import config as configuration
from bot.baseline import NONE, Baseline, Entry, LaterVersionError
from bot.cli import options
from bot.cli.paths import Paths, check, look
from bot.config import RepoConfig
from bot.errors import ConfigError, UsageError
from bot.examine import Examined
from bot.reports.words import plural
from bot.review import FileReport, is_reported, stale

HELP = "write down today's findings, so that only new ones are reported"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files and directories (the whole repository)"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help=f"the baseline ({baselines.DEFAULT} at the top)"
    )
    parser.add_argument(
        "--update", action="store_true", help="only take out what is fixed, accept nothing new"
    )
    options.settings(parser)


@dataclass(frozen=True)
class _Target:
    """Where the baseline goes, and what is there now."""

    file: Path
    shown: str
    old: Baseline
    advice: str  # how it comes to be read; empty: it is


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 when the baseline was written."""
    top = configuration.find_root(Path.cwd())
    paths = look(arguments.paths or [str(top)], arguments)
    target = _target(paths, arguments)
    examined = check(paths.jobs(prove=False))
    gone = paths.gone(target.old)
    if arguments.update:
        fixed = stale(target.old, examined, paths.config)
        kept = baselines.without(target.old, (*fixed, *gone)).entries
    else:
        kept = (*_elsewhere(target.old, examined, gone), *_found(examined, paths.config))
    _write(target.file, baselines.written(kept))
    _tell(target, kept, examined)
    return 0


def _target(paths: Paths, arguments: argparse.Namespace) -> _Target:
    config = paths.config
    default = paths.root / baselines.DEFAULT
    if config.baseline:
        default = paths.root / baselines.normal(config.baseline, config.source)
    file = Path(arguments.output) if arguments.output else default
    shown = arguments.output or _shown(file)
    old = NONE
    if file.exists():
        old = _old(file, shown, whole=not arguments.paths and not arguments.update)
    elif arguments.update:
        raise UsageError(f"there is no {shown} to update; leave out --update to write one")
    return _Target(file, shown, old, _advice(file, default, paths))


def _old(file: Path, shown: str, whole: bool) -> Baseline:
    """What the file lists; a broken one counts as empty where it is written as a `whole`."""
    try:
        text = file.read_bytes().decode("utf-8", "replace")
    except OSError as problem:
        raise UsageError(
            f"{shown} cannot be read ({problem.strerror}); name another file with -o"
        ) from problem
    if text.strip() and not baselines.looks_ours(text):
        raise UsageError(
            f"{shown} holds something else than a baseline, and would be lost; name another file "
            "with -o, or delete it"
        )
    try:
        return baselines.parse(shown, text)
    except LaterVersionError:
        raise
    except ConfigError as problem:
        if whole:
            return NONE
        raise UsageError(
            f"{problem}; its entries of other files would be lost, so give neither paths nor "
            "--update"
        ) from problem


def _advice(file: Path, default: Path, paths: Paths) -> str:
    """What makes reviews and checks read this file."""
    if paths.config.baseline and file.resolve() == default.resolve():
        return ""
    root = paths.root.resolve()
    if not file.resolve().is_relative_to(root):
        return f"Name it with --baseline {file}."
    name = file.resolve().relative_to(root).as_posix()
    return (
        f'Name it in the configuration (`baseline = "{name}"` in [tool.hostside]) '
        "or with --baseline, and commit it."
    )


def _shown(file: Path) -> str:
    here = Path.cwd()
    return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)


def _found(examined: Iterable[Examined], config: RepoConfig) -> list[Entry]:
    return [
        baselines.entry(result.name, item.key, item.ordinal, item.fingerprint)
        for result in examined
        for item in result.items
        if is_reported(item, config.nearest(result.name)[0])
    ]


def _elsewhere(
    old: Baseline, examined: Iterable[Examined], gone: Iterable[Entry]
) -> tuple[Entry, ...]:
    """What is known of files that were not looked at now, or could not be judged."""
    judged = {result.name for result in examined if not _report(result).unjudged}
    rest = tuple(entry for entry in old.entries if entry.path not in judged)
    return baselines.without(Baseline(rest), gone).entries


def _report(result: Examined) -> FileReport:
    return FileReport(result.path, result.status, result.reason)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as problem:
        raise UsageError(f"{file} cannot be written ({problem.strerror})") from problem


def _tell(target: _Target, kept: Sequence[Entry], examined: Iterable[Examined]) -> None:
    marks = {entry.fingerprint for entry in kept}
    new, lost = marks - target.old.marks, target.old.marks - marks
    files = plural(len({entry.path for entry in kept}), "file")
    change = f"{len(new):,} new, {len(lost):,} gone" if target.old.entries else "all new"
    print(f"{target.shown}: {plural(len(marks), 'finding')} in {files} ({change}).")
    if target.advice:
        print(target.advice)
    for report in map(_report, examined):
        if report.unjudged:
            print(f"hostside: {report.path} was not judged: {report.reason}", file=sys.stderr)
