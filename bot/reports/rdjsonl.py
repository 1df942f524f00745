"""The review as one Diagnostic of the Reviewdog Diagnostic Format a line."""

from __future__ import annotations

import json

from bot.reports.rdjson import diagnostics
from bot.review import Review


def render(review: Review) -> str:
    """A line for each diagnostic."""
    return "".join(f"{json.dumps(each, ensure_ascii=True)}\n" for each in diagnostics(review))
