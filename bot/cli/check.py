"""`hostside check PATH…|-`: whole files and trees, or a snippet from standard input."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

from analyzers.finding import Safety
from bot import config as configuration
from bot.baseline import Baseline
from bot.cli import USAGE, options
from bot.cli.paths import Paths, check, look
from bot.config import RepoConfig
from bot.errors import UsageError
from bot.examine import LARGEST, NOTEBOOK, Examined, Job
from bot.reports.words import plural
from bot.review import Review, assemble, everywhere, worth_proving

HELP = "check whole files and trees, or standard input"
STDIN = "-"
SNIPPET = "<stdin>"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, a directory, or -")
    parser.add_argument("--fix", action="store_true", help="apply the safe fixes")
    parser.add_argument("--unsafe-fixes", action="store_true", help="with --fix: the others too")
    parser.add_argument(
        "--add-ignores", action="store_true", help="silence what is found by comments in the code"
    )
    parser.add_argument("--reason", metavar="TEXT", help="with --add-ignores: why")
    parser.add_argument(
        "--force-exclude",
        action="store_true",
        help="leave out what the settings exclude even if it is named (for commit hooks)",
    )
    parser.add_argument("--diff", metavar="REV", help="only what is new since REV in these paths")
    options.add(parser)


@dataclass(frozen=True)
class _Work:
    """What is to be judged, and how."""

    jobs: Sequence[Job]
    config: RepoConfig
    baseline: Baseline
    paths: Paths | None = None  # None: standard input


def run(arguments: argparse.Namespace) -> int:
    """Exit code: 0 nothing at or above --fail-on, 1 findings, 2 something was not judged."""
    _agree(arguments)
    if arguments.paths == [STDIN]:
        return _finish(_snippet(arguments), arguments)
    paths = look(arguments.paths, arguments, hasty=True)
    baseline = options.baseline(arguments, paths.config, paths.read)
    if arguments.diff:
        return options.finish(_since(arguments, paths, baseline), arguments)
    return _finish(_Work(paths.jobs(), paths.config, baseline, paths), arguments)


def _agree(arguments: argparse.Namespace) -> None:
    if STDIN in arguments.paths and len(arguments.paths) > 1:
        raise UsageError("`-` stands for standard input and goes with no other path")
    if arguments.unsafe_fixes and not arguments.fix:
        raise UsageError("--unsafe-fixes widens --fix; give both")
    if arguments.diff and arguments.fix:
        raise UsageError("--fix mends whole files; leave out --diff")
    if arguments.diff and arguments.add_ignores:
        raise UsageError("--add-ignores silences whole files; leave out --diff")
    if "#" in (arguments.reason or "") or not (arguments.reason or "").isprintable():
        raise UsageError("--reason is one line of text without `#`, which starts another comment")
    if arguments.reason and not arguments.add_ignores:
        raise UsageError("--reason explains the comments of --add-ignores; give both")
    if arguments.diff and STDIN in arguments.paths:
        raise UsageError("--diff compares files of a repository; name a path instead of `-`")


def _finish(work: _Work, arguments: argparse.Namespace) -> int:
    jobs, examined = work.jobs, check(work.jobs, printed=arguments.format == "text")
    if arguments.fix:
        jobs, examined = _mended(jobs, examined, arguments)
    if arguments.add_ignores:
        jobs, examined = _silenced(replace(work, jobs=jobs), examined, arguments)
    review = assemble(examined, work.config, everywhere, "", work.baseline)
    if work.paths is None:
        if arguments.fix or arguments.add_ignores:
            options.emit_bytes(jobs[0].text or b"")
            return options.code(review, arguments)
        return options.finish(review, arguments)
    review = replace(review, stale=(*review.stale, *work.paths.gone(work.baseline)))
    options.report(review, arguments)
    return _unread(review, work.paths) or options.code(review, arguments)


def _rewritten(jobs: Sequence[Job], texts: dict[int, bytes]) -> list[Job]:
    """The jobs after these texts were written, to the disk or in memory."""
    after = list(jobs)
    for place, text in texts.items():
        job = jobs[place]
        if job.source:
            _write(job.source, text)
        else:
            after[place] = replace(job, text=text)
    return after


def _again(
    jobs: Sequence[Job], examined: Sequence[Examined], places: Sequence[int]
) -> list[Examined]:
    """The results, those at `places` made anew."""
    anew = dict(zip(places, check([jobs[number] for number in places]), strict=True))
    return [anew.get(number, result) for number, result in enumerate(examined)]


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
    texts: dict[int, bytes] = {}
    total = 0
    for place, mended in pool.run(MEND, [MendJob(jobs[number], allowed) for number in places]):
        if mended.text is not None:
            texts[places[place]] = mended.text
            total += mended.fixes
    after = _rewritten(jobs, texts)
    if total:
        applied = f"{plural(total, 'proven fix', 'es')} in {plural(len(texts), 'file')}"
        print(f"hostside: applied {applied}", file=sys.stderr)
    return after, _again(after, examined, sorted(texts))


def _silenced(
    work: _Work, examined: Sequence[Examined], arguments: argparse.Namespace
) -> tuple[list[Job], list[Examined]]:
    """The jobs and their results after every shown finding was silenced by a comment."""
    from bot import pool
    from bot.ignores import ADD, IgnoreJob, wanted

    asked = {
        number: marks
        for number, result in enumerate(examined)
        if (marks := wanted(result, work.config, work.baseline))
    }
    places = list(asked)
    reason = (arguments.reason or "").strip()
    jobs = [IgnoreJob(work.jobs[n], asked[n], reason) for n in places]
    texts: dict[int, bytes] = {}
    total = 0
    for place, done in sorted(pool.run(ADD, jobs), key=itemgetter(0)):
        if done.left:
            count = plural(done.left, "finding")
            name = jobs[place].job.path
            print(f"hostside: {name}: {count} could not be silenced: {done.why}", file=sys.stderr)
        if done.text is not None:
            texts[places[place]] = done.text
            total += done.silenced
    after = _rewritten(work.jobs, texts)
    if total:
        where = f"{plural(total, 'finding')} in {plural(len(texts), 'file')}"
        print(f"hostside: silenced {where}", file=sys.stderr)
    return after, _again(after, examined, sorted(texts))


def _write(source: str, text: bytes) -> None:
    try:
        with open(source, "r+b", buffering=0) as file:
            before = file.readall()
            try:
                _put(file, text)
            except OSError:  # no room for all of it: half a file is worse than an old one
                _put(file, before)
                raise
    except OSError as problem:
        raise UsageError(
            f"{source} cannot be written ({problem.strerror}) and stays as it is"
        ) from problem


def _put(file: io.FileIO, text: bytes) -> None:
    file.seek(0)
    rest = memoryview(text)
    while rest:
        rest = rest[file.write(rest) or 0 :]
    file.truncate()


def _snippet(arguments: argparse.Namespace) -> _Work:
    read = configuration.reader_of(configuration.find_root(Path.cwd()))
    config = RepoConfig() if arguments.no_config else configuration.load(read)
    config = options.merge(config, arguments)
    data = sys.stdin.buffer.read(LARGEST + 1)
    job = Job(SNIPPET, config.for_file(SNIPPET), text=data, prove=worth_proving(config))
    return _Work([job], config, options.baseline(arguments, config, read))


def _since(arguments: argparse.Namespace, paths: Paths, baseline: Baseline) -> Review:
    """What is new in these files since a revision."""
    from bot.changes import Ends, changed_files
    from bot.cli.review import reviewed
    from bot.git import open_checkout

    first = Path(arguments.paths[0])
    checkout = open_checkout(str(first if first.is_dir() else first.parent))
    shown: dict[str, str] = {}
    for file in paths.files:
        source = Path(file.source).resolve()
        if not source.is_relative_to(checkout.root.resolve()):
            raise UsageError(f"{file.shown} is outside the repository {checkout.root}")
        shown[source.relative_to(checkout.root.resolve()).as_posix()] = file.shown
    start = checkout.merge_base(checkout.commit(arguments.diff), checkout.commit("HEAD"))
    changed = [file for file in changed_files(checkout, Ends(start)) if file.path in shown]
    review = reviewed(changed, paths.config, f"changes since {arguments.diff}", baseline)
    return replace(
        review,
        comments=tuple(replace(c, path=shown[c.path]) for c in review.comments),
        files=tuple(replace(f, path=shown[f.path]) for f in review.files),
    )


def _unread(review: Review, paths: Paths) -> int:
    """Complain about files on the command line that were not analysed."""
    named = {file.shown for file in paths.files if file.named}
    bad = [
        file
        for file in review.files
        if file.path in named and (file.unjudged or file.reason == NOTEBOOK)
    ]
    for file in bad:
        print(f"hostside: {file.path} was not checked: {file.reason}", file=sys.stderr)
    return USAGE if bad else 0
