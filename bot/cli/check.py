"""`hostside check PATH…|-`: whole files and trees, or a snippet from standard input."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analyzers.finding import Confidence
from bot import config as configuration
from bot.cli import USAGE, options
from bot.config import RepoConfig
from bot.errors import UsageError
from bot.examine import LARGEST, SURE, Job, examine_all, in_children
from bot.files import Found, find
from bot.review import Review, assemble, everywhere

HELP = "check whole files and trees, or standard input"
STDIN = "-"
SNIPPET = "<stdin>"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, a directory, or -")
    parser.add_argument("--fix", action="store_true", help="apply the safe fixes")
    parser.add_argument("--unsafe-fixes", action="store_true", help="with --fix: the others too")
    parser.add_argument("--diff", metavar="REV", help="only findings on lines changed since REV")
    options.add(parser)


def run(arguments: argparse.Namespace) -> int:
    """Exit code: 0 nothing at or above --fail-on, 1 findings, 2 a named file was not readable."""
    if STDIN in arguments.paths and len(arguments.paths) > 1:
        raise UsageError("`-` stands for standard input and goes with no other path")
    if arguments.unsafe_fixes and not arguments.fix:
        raise UsageError("--unsafe-fixes widens --fix; give both")
    start = Path.cwd() if arguments.paths == [STDIN] else Path(arguments.paths[0]).absolute()
    root = configuration.find_root(start)
    config = options.merge(_configuration(root, arguments), arguments)
    if arguments.paths == [STDIN]:
        jobs, named = [_snippet(config)], {SNIPPET}
    else:
        files = find(arguments.paths, config, root)
        jobs = [_job(file, config, arguments) for file in files]
        named = {file.shown for file in files if file.named}
    review = check(jobs, config, arguments.format)
    code = options.finish(review, arguments)
    return _unread(review, named) or code


def _configuration(root: Path, arguments: argparse.Namespace) -> RepoConfig:
    if arguments.no_config:
        return RepoConfig()
    return configuration.load(configuration.reader_of(root))


def check(jobs: Sequence[Job], config: RepoConfig, form: str = "text") -> Review:
    """The review of whole files."""
    from bot.progress import watched

    run = watched(in_children, "files checked")
    return assemble(examine_all(jobs, run), config, everywhere, "")


def _job(file: Found, config: RepoConfig, arguments: argparse.Namespace) -> Job:
    prove = frozenset(Confidence) if arguments.confidence == "possible" else SURE
    return Job(file.shown, config.for_file(file.inside), source=file.source, prove=prove)


def _snippet(config: RepoConfig) -> Job:
    data = sys.stdin.buffer.read(LARGEST + 1)
    return Job(SNIPPET, config.for_file(SNIPPET), text=data)


def _unread(review: Review, named: set[str]) -> int:
    """Complain about files on the command line that were not analysed."""
    bad = [file for file in review.files if file.path in named and file.status == "failed"]
    for file in bad:
        print(f"hostside: {file.path} was not checked: {file.reason}", file=sys.stderr)
    return USAGE if bad else 0
