"""The forms a review can be printed in; each module turns a Review into text."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:  # `hostside trace` prints its reports without loading the analysis
    from bot.review import Review

FORMATS = ("text", "json", "sarif", "github", "markdown", "html", "rdjson", "rdjsonl")


class _Report(Protocol):
    def render(self, review: Review) -> str: ...


def render(review: Review, form: str) -> str:
    """The review in that form."""
    module = cast("_Report", importlib.import_module(f"bot.reports.{form}"))
    return module.render(review)
