"""`hostside check PATH…|-`: whole files and trees, or a snippet from standard input."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from analyzers.finding import Confidence, Safety
from bot import config as configuration
from bot.cli import USAGE, options
from bot.config import RepoConfig
from bot.errors import UsageError
from bot.examine import LARGEST, SURE, Examined, Job, examine_all, in_children
from bot.files import Found, find
from bot.reports.words import plural
from bot.review import Review, assemble, everywhere

HELP = "check whole files and trees, or standard input"
STDIN = "-"
SNIPPET = "<stdin>"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, a directory, or -")
    parser.add_argument("--fix", action="store_true", help="apply the safe fixes")
    parser.add_argument("--unsafe-fixes", action="store_true", help="with --fix: the others too")
    parser.add_argument("--diff", metavar="REV", help="only what is new since REV in these paths")
    options.add(parser)


def run(arguments: argparse.Namespace) -> int:
    """Exit code: 0 nothing at or above --fail-on, 1 findings, 2 a named file was not readable."""
    _agree(arguments)
    snippet = arguments.paths == [STDIN]
    start = Path.cwd() if snippet else Path(arguments.paths[0]).absolute()
    root = configuration.find_root(start)
    config = RepoConfig()
    if not arguments.no_config:
        config = configuration.load(configuration.reader_of(root))
    config = options.merge(config, arguments)
    if snippet:
        return _finish([_snippet(config)], {SNIPPET}, config, arguments)
    files = find(arguments.paths, config, root)
    if arguments.diff:
        return options.finish(_since(arguments, config, files), arguments)
    named = {file.shown for file in files if file.named}
    jobs = [_job(file, config, arguments) for file in files]
    return _finish(jobs, named, config, arguments)


def _agree(arguments: argparse.Namespace) -> None:
    if STDIN in arguments.paths and len(arguments.paths) > 1:
        raise UsageError("`-` stands for standard input and goes with no other path")
    if arguments.unsafe_fixes and not arguments.fix:
        raise UsageError("--unsafe-fixes widens --fix; give both")
    if arguments.diff and arguments.fix:
        raise UsageError("--fix mends whole files; leave out --diff")
    if arguments.diff and STDIN in arguments.paths:
        raise UsageError("--diff compares files of a repository; name a path instead of `-`")


def _finish(
    jobs: Sequence[Job], named: set[str], config: RepoConfig, arguments: argparse.Namespace
) -> int:
    examined = check(jobs)
    if arguments.fix:
        jobs, examined = _mended(jobs, examined, arguments)
    review = assemble(examined, config, everywhere, "")
    if arguments.fix and jobs[0].path == SNIPPET:
        options.emit_bytes(jobs[0].text or b"")
        return options.code(review, arguments)
    code = options.finish(review, arguments)
    return _unread(review, named) or code


def check(jobs: Sequence[Job]) -> list[Examined]:
    """Whole files judged in child processes."""
    from bot.progress import watched

    return examine_all(jobs, watched(in_children, "files checked"))


def _mended(
    jobs: Sequence[Job], examined: Sequence[Examined], arguments: argparse.Namespace
) -> tuple[list[Job], list[Examined]]:
    """The jobs and their results after the fixes were written."""
    from bot import pool
    from bot.mend import MEND, MendJob, may_apply

    allowed = frozenset({Safety.SAFE, Safety.UNSAFE} if arguments.unsafe_fixes else {Safety.SAFE})
    places = [
        number
        for number, result in enumerate(examined)
        if any(may_apply(item.finding, allowed) for item in result.items)
    ]
    after, total, files = list(jobs), 0, 0
    for place, mended in pool.run(MEND, [MendJob(jobs[number], allowed) for number in places]):
        if mended.text is None:
            continue
        job = jobs[places[place]]
        if job.source:
            _write(job.source, mended.text)
        after[places[place]] = job if job.source else replace(job, text=mended.text)
        total, files = total + mended.fixes, files + 1
    again = dict(zip(places, check([after[number] for number in places]), strict=True))
    if total:
        applied = f"{plural(total, 'proven fix', 'es')} in {plural(files, 'file')}"
        print(f"hostside: applied {applied}", file=sys.stderr)
    return after, [again.get(number, result) for number, result in enumerate(examined)]


def _write(source: str, text: bytes) -> None:
    try:
        with open(source, "wb") as file:
            file.write(text)
    except OSError as problem:
        raise UsageError(f"{source} cannot be mended ({problem.strerror})") from problem


def _job(file: Found, config: RepoConfig, arguments: argparse.Namespace) -> Job:
    prove = frozenset(Confidence) if config.confidence is Confidence.POSSIBLE else SURE
    return Job(
        file.shown,
        config.for_file(file.inside),
        source=file.source,
        prove=prove,
        inside=file.inside,
    )


def _snippet(config: RepoConfig) -> Job:
    data = sys.stdin.buffer.read(LARGEST + 1)
    return Job(SNIPPET, config.for_file(SNIPPET), text=data)


def _since(arguments: argparse.Namespace, config: RepoConfig, files: Sequence[Found]) -> Review:
    """What is new in these files since a revision."""
    from bot.changes import Ends, changed_files
    from bot.cli.review import reviewed
    from bot.git import open_checkout

    first = Path(arguments.paths[0])
    checkout = open_checkout(str(first if first.is_dir() else first.parent))
    shown: dict[str, str] = {}
    for file in files:
        source = Path(file.source).resolve()
        if not source.is_relative_to(checkout.root.resolve()):
            raise UsageError(f"{file.shown} is outside the repository {checkout.root}")
        shown[source.relative_to(checkout.root.resolve()).as_posix()] = file.shown
    start = checkout.merge_base(checkout.commit(arguments.diff), checkout.commit("HEAD"))
    changed = [file for file in changed_files(checkout, Ends(start)) if file.path in shown]
    review = reviewed(changed, config, f"changes since {arguments.diff}")
    return replace(
        review,
        comments=tuple(replace(c, path=shown[c.path]) for c in review.comments),
        files=tuple(replace(f, path=shown[f.path]) for f in review.files),
    )


def _unread(review: Review, named: set[str]) -> int:
    """Complain about files on the command line that were not analysed."""
    bad = [file for file in review.files if file.path in named and file.status == "failed"]
    for file in bad:
        print(f"hostside: {file.path} was not checked: {file.reason}", file=sys.stderr)
    return USAGE if bad else 0
