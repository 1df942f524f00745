"""`hostside rules`: one line for each rule."""

from __future__ import annotations

import argparse
import json

from analyzers.rule import Rule, all_rules

HELP = "list the rules"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0."""
    from bot.cli.options import emit

    emit(_json() if arguments.format == "json" else _table())
    return 0


def _table() -> str:
    rules = all_rules()
    width = max((len(rule.name) for rule in rules), default=0)
    lines = [
        f"{rule.code}  {rule.name:{width}s}  {rule.severity:7s}  {_one_line(rule)}"
        for rule in rules
    ]
    return "".join(f"{line}\n" for line in [*lines, "", "`hostside explain CODE` prints a page."])


def _one_line(rule: Rule) -> str:
    return " ".join(rule.title.split())


def _json() -> str:
    rows = [
        {
            "rule": rule.code,
            "name": rule.name,
            "severity": rule.severity,
            "objective": rule.objective,
            "title": _one_line(rule),
        }
        for rule in all_rules()
    ]
    return json.dumps(rows, indent=2) + "\n"
