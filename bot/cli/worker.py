"""`hostside worker`: answers the bell and does jobs; as many of them, anywhere, as one likes."""

from __future__ import annotations

import argparse
import os

from bot.errors import UsageError

HELP = "do the GitHub App's jobs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--queues", default="review", help="which bells to answer (review)")
    # Given by `hostside serve`, whose worker is to end with it however it ends.
    parser.add_argument("--parent", type=int, default=0, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Work until told to stop."""
    from bot.lifeline import die_with_parent
    from bot.logs import set_up
    from bot.office import Worker, open_store
    from bot.settings import load_settings
    from bot.tasks import QUEUES, work_off

    wrong = set(arguments.queues.split(",")) - set(QUEUES)
    if wrong:
        raise UsageError(
            f"there is no queue {min(wrong)!r} for this command; --queues takes "
            f"{' and '.join(QUEUES)}, and `hostside gpu-runner` answers the bells for GPUs"
        )
    settings = load_settings()
    set_up(settings.log_level)
    if arguments.parent:
        die_with_parent(arguments.parent)
        os.nice(10)  # to answer GitHub in time comes first
    open_store(settings).close()  # a database that is away is told now, not at the first job
    return work_off(settings, arguments.queues, settings.concurrency, Worker(settings))
