"""`hostside review`: what a change brings, as a pull request's review would say it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bot import config as configuration
from bot.baseline import NONE, Baseline, parse
from bot.cli import options
from bot.config import Reader, RepoConfig
from bot.config_nearest import for_change, may_be_judged
from bot.diff import ChangedFile
from bot.errors import UsageError
from bot.review import Review, build_review

if TYPE_CHECKING:
    from bot.changes import Ends
    from bot.git import Checkout

HELP = "review the difference between two revisions"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--repo", metavar="DIR", help="a directory in the repository (here)")
    parser.add_argument("--base", metavar="REV", help="what the change is compared with (HEAD)")
    parser.add_argument("--head", metavar="REV", help="the change (the working tree)")
    parser.add_argument("--staged", action="store_true", help="the change is what is staged")
    parser.add_argument("--patch", metavar="FILE", help="a unified diff, its files beside it; or -")
    options.add(parser)


def run(arguments: argparse.Namespace) -> int:
    """Exit code: 0 nothing new at or above --fail-on, 1 findings."""
    _agree(arguments)
    if arguments.patch:
        return _patch(arguments)
    from bot.changes import changed_files
    from bot.git import open_checkout

    checkout = open_checkout(arguments.repo or ".")
    if checkout.bare and not arguments.head:
        raise UsageError(f"{checkout.root} has no working tree; give --base and --head")
    base = arguments.base or "HEAD"
    tip, ends = _ends(checkout, base, arguments)
    read = checkout.reader(tip)
    files = changed_files(checkout, ends)
    config = RepoConfig()
    # A commit hook runs on every commit, and most of them touch no GPU code.
    needless = arguments.staged and not any(map(may_be_judged, files))
    if not (arguments.no_config or needless):
        config = for_change(configuration.load(read), read, files, most=None)
    baseline = _baseline(config, read, arguments, checkout.root)
    config = options.merge(config, arguments)
    review = reviewed(files, config, _subject(base, arguments), baseline)
    return options.finish(review, arguments)


def _ends(checkout: Checkout, base: str, arguments: argparse.Namespace) -> tuple[str, Ends]:
    """What the settings are read from, and what is compared."""
    from bot.changes import Ends

    if arguments.staged and base == "HEAD" and checkout.empty():  # a hook before the first commit
        tip = checkout.no_files()
        return tip, Ends(tip, "", staged=True)
    tip = checkout.commit(base)
    head = checkout.commit(arguments.head or "HEAD")
    start = checkout.merge_base(tip, head)
    return tip, Ends(start, head if arguments.head else "", arguments.staged)


def _baseline(
    config: RepoConfig, read: Reader, arguments: argparse.Namespace, root: Path
) -> Baseline:
    """What is left out; a file of the repository as it is at the base."""
    given = Path(arguments.baseline).resolve() if arguments.baseline else None
    if given is None or not given.is_relative_to(root.resolve()):
        return options.baseline(arguments, config, read)
    name = given.relative_to(root.resolve()).as_posix()
    text = read(name)
    if text is None:
        raise UsageError(
            f"the base has no {name}, and a change cannot bring its own baseline; commit it to the "
            "base, or name a file outside of the repository"
        )
    return parse(name, text)


def _agree(arguments: argparse.Namespace) -> None:
    if arguments.patch and (arguments.base or arguments.head or arguments.staged):
        raise UsageError("--patch says what changed by itself; leave out --base, --head, --staged")
    if arguments.head and arguments.staged:
        raise UsageError("--head and --staged name two different changes; give one")
    if arguments.head and not arguments.base:
        raise UsageError("--head needs --base, the revision it is compared with")


def _subject(base: str, arguments: argparse.Namespace) -> str:
    if arguments.head:
        return f"{base}...{arguments.head}"
    return f"staged changes since {base}" if arguments.staged else f"working tree since {base}"


def _patch(arguments: argparse.Namespace) -> int:
    from bot.patchfile import changed_files

    if arguments.repo and not Path(arguments.repo).is_dir():
        raise UsageError(f"{arguments.repo} is not a directory; name the one the patch applies to")
    files = changed_files(arguments.patch, arguments.repo)
    root = configuration.find_root(Path(arguments.repo or ".").absolute())
    read = configuration.reader_of(root)
    config = RepoConfig()
    if not arguments.no_config:
        config = for_change(configuration.load(read), read, files, most=None)
    baseline = options.baseline(arguments, config, read)
    review = reviewed(files, options.merge(config, arguments), arguments.patch, baseline)
    return options.finish(review, arguments)


def reviewed(
    files: Sequence[ChangedFile], config: RepoConfig, subject: str, baseline: Baseline = NONE
) -> Review:
    """The review, analysed in child processes."""
    from bot.examine import in_children
    from bot.progress import watched

    return build_review(files, config, watched(in_children, "files reviewed"), subject, baseline)
