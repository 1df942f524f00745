"""`hostside explain CODE|name`: a rule's page."""

from __future__ import annotations

import argparse
import os
import sys

from analyzers.rule import find_rule
from bot.config import UNUSED, no_such_rule
from bot.errors import UsageError

HELP = "print a rule's page"

UNUSED_PAGE = f"""# {UNUSED} `unused-suppression`

A comment silences a rule that has nothing to say there.

## What it does

Reports `# hostside: ignore[...]` comments that match no finding, or name no rule.

## Why it matters

The code was mended, or the comment stands at the wrong line; left in place, it would hide the next
finding. Delete it.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("rule", metavar="CODE|NAME", help="such as GPU105 or item-in-hot-loop")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0, or a usage error for a rule that does not exist."""
    from bot.cli.options import emit

    page = UNUSED_PAGE
    if arguments.rule.lower() not in (UNUSED.lower(), "unused-suppression"):
        page = _page(arguments.rule)
    emit(_coloured(page) if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else page)
    return 0


def _page(name: str) -> str:
    from analyzers.pages import rule_page

    rule = find_rule(name)
    if rule is None:
        raise UsageError(no_such_rule(name, "explain"))
    return rule_page(rule)


def _coloured(page: str) -> str:
    import io

    from rich.console import Console
    from rich.markdown import Markdown

    width = min(os.get_terminal_size().columns, 100)
    console = Console(file=io.StringIO(), width=width, force_terminal=True)
    console.print(Markdown(page))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
