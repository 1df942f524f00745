"""The files by which a step speaks to its runner: outputs and the job summary; and its log."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from bot.errors import UsageError
from bot.reports.github import plain

LARGEST_SUMMARY = 1_000_000  # bytes; GitHub drops the whole summary above 1 MiB


def set_outputs(environment: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    """Give these values to the steps that follow."""
    # A delimiter that nobody could have written into a value.
    end = f"end-{secrets.token_hex(16)}"
    text = "".join(f"{name}<<{end}\n{value}\n{end}\n" for name, value in outputs.items())
    _append(environment, "GITHUB_OUTPUT", text)


def add_summary(environment: Mapping[str, str], text: str) -> None:
    """Add Markdown to the job's summary."""
    _append(environment, "GITHUB_STEP_SUMMARY", text)


def _append(environment: Mapping[str, str], name: str, text: str) -> None:
    if not environment.get(name):
        return
    try:
        with open(environment[name], "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as problem:
        raise UsageError(f"{name}: the file cannot be written ({problem.strerror})") from problem


def within(path: Path, folder: Path) -> bool:
    """Whether the path lies in the folder, wherever links lead."""
    return path.resolve().is_relative_to(folder.resolve())


def write(path: Path, text: str) -> None:
    """Write a report, making its folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as problem:
        raise UsageError(f"{path} cannot be written ({problem.strerror})") from problem


def say(out: TextIO, text: str) -> None:
    """Print a sentence that no runner can take for a command."""
    print(f"hostside: {plain(text)}", file=out)
