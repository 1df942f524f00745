"""`hostside jobs`: what the App was asked to do, what was given up and why; runs it again."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bot.errors import UsageError

if TYPE_CHECKING:
    from bot.work import Parked

HELP = "list the GitHub App's jobs, and run parked ones again"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--rerun", metavar="ID", nargs="+", help="queue these parked jobs again, or `all` of them"
    )


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1 when jobs are parked, so that a watchdog can ask."""
    from bot import upkeep
    from bot.office import open_store
    from bot.settings import load_settings

    store = open_store(load_settings())
    try:
        if arguments.rerun:
            bells = upkeep.rerun(store, _chosen(arguments.rerun, upkeep.parked(store)))
            # Nobody is rung for here: the service's reaper does it, whichever broker it has.
            print(f"queued again: {', '.join(str(bell.job) for bell in bells) or 'none'}")
            return 0
        for (kind, state), number in sorted(upkeep.counts(store).items()):
            print(f"{number:6d} {kind:8s} {state}")
        parked = upkeep.parked(store)
        for job in parked:
            print(f"parked {job.id}: {job.key} after {job.attempts} attempts: {job.outcome}")
        return 1 if parked else 0
    finally:
        store.close()


def _chosen(names: list[str], parked: Sequence[Parked]) -> list[int]:
    known = [job.id for job in parked]
    if names == ["all"]:
        return known
    wrong = [name for name in names if not name.isdecimal() or int(name) not in known]
    if wrong:
        listed = ", ".join(map(str, known)) or "none"
        raise UsageError(f"there is no parked job {wrong[0]!r}; parked are: {listed}")
    return [int(name) for name in names]
