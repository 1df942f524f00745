"""`hostside action`: the GitHub Action's own entry point; `action.yml` calls it."""

from __future__ import annotations

import argparse
import os
import sys

HELP = "review what started a run of GitHub Actions"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options: none, for a runner speaks by its environment."""


def run(_: argparse.Namespace) -> int:
    """Exit code: 0 nothing that fails, 1 findings, 2 nothing could be reviewed."""
    from importlib.util import find_spec

    from bot.errors import UsageError

    if find_spec("githubkit") is None:
        raise UsageError("the Action's packages are missing; `pip install 'hostside[action]'`")
    from bot.action import run as act

    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="backslashreplace")  # a path may hold what no encoding knows
    return act(os.environ, sys.stdout)
