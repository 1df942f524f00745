"""`hostside doctor`: what works on this machine for measuring, and what to do about the rest."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from gpu_runner.doctor import Check, State, examine

HELP = "say what works on this machine for measuring, and what to do about the rest"
SIGNS = {State.WORKS: "works", State.LIMITED: "limited", State.MISSING: "missing"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--python", type=Path, metavar="FILE", help="interpreter of the benchmarks")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> int:
    """0 when benchmarks can be run in a sandbox here, on whatever device; 1 when not."""
    checks = examine(arguments.python)
    if arguments.format == "json":
        print(json.dumps({"version": 1, "checks": [asdict(each) for each in checks]}, indent=1))
    else:
        print("\n".join(_lines(checks)))
    return int(any(each.needed and each.state is State.MISSING for each in checks))


def _lines(checks: tuple[Check, ...]) -> list[str]:
    lines: list[str] = []
    for each in checks:
        lines.append(f"{SIGNS[each.state]:8s} {each.name}: {each.finding}")
        if each.remedy:
            lines.append(f"{'':8s} → {each.remedy}")
    return lines
