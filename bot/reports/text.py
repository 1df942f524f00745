"""The review as a person reads it; a review that says nothing costs no formatting library."""

from __future__ import annotations

import os
import sys

from bot.neutral import visible
from bot.reports.words import closing, counted_files, unjudged
from bot.review import Review

WIDEST = 120


def render(review: Review) -> str:
    """The review as plain text."""
    if not review.comments:
        return "".join(f"{text}\n" for text, _ in tail(review))
    from bot.reports.terminal import plain

    return plain(review)


def show(review: Review) -> None:
    """Print the review: in colour on a terminal, plain where NO_COLOR is set or in a pipe."""
    from bot.cli.options import emit

    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not sys.stdout.isatty() or not review.comments:
        emit(render(review))
        return
    from bot.reports.terminal import coloured

    emit(coloured(review, min(os.get_terminal_size().columns, WIDEST)))


def tail(review: Review) -> list[tuple[str, str]]:
    """The last lines with their style: what was not judged, what was read, the outcome."""
    return [
        *(
            (visible(f"{file.path} was not judged: {file.reason}"), "yellow")
            for file in unjudged(review)
        ),
        (counted_files(review), "dim"),
        (closing(review, " (--confidence possible)"), "bold"),
    ]
