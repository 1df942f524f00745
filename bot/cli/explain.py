"""`hostside explain CODE|name`: a rule's page."""

from __future__ import annotations

import argparse
import os
import sys

from analyzers.rule import find_rule
from bot.config import no_such_rule
from bot.errors import UsageError

HELP = "print a rule's page"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("rule", metavar="CODE|NAME", help="such as GPU105 or item-in-hot-loop")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0, or a usage error for a rule that does not exist."""
    rule = find_rule(arguments.rule)
    if rule is None:
        raise UsageError(no_such_rule(arguments.rule, "explain"))
    from analyzers.pages import rule_page
    from bot.cli.options import emit

    page = rule_page(rule)
    emit(_coloured(page) if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else page)
    return 0


def _coloured(page: str) -> str:
    import io

    from rich.console import Console
    from rich.markdown import Markdown

    width = min(os.get_terminal_size().columns, 100)
    console = Console(file=io.StringIO(), width=width, force_terminal=True)
    console.print(Markdown(page))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
