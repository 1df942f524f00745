"""The hidden marks by which we find our own words again."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from bot.comments import MARKER

_MARK = re.compile(rf"<!-- {MARKER}:([a-z0-9:._-]+) -->")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}\Z")
SUMMARY = "summary"
FIXED = "fixed"
MEASURED = "measured"  # the comment ends with what a benchmark measured


def mark(name: str) -> str:
    """The mark with this name, invisible in Markdown."""
    return f"<!-- {MARKER}:{name} -->"


def marks(body: str) -> tuple[str, ...]:
    """The names of the marks at the end of a body.

    Only those: what stands higher up may be text from the repository.
    """
    found: list[str] = []
    rest = body.rstrip()
    while match := re.search(rf"{_MARK.pattern}\Z", rest):
        found.insert(0, match[1])
        rest = rest[: match.start()].rstrip()
    return tuple(found)


def without_marks(body: str) -> str:
    """The body less the marks at its end."""
    rest = body.rstrip()
    while match := re.search(rf"{_MARK.pattern}\Z", rest):
        rest = rest[: match.start()].rstrip()
    return rest


def fingerprint(body: str) -> str:
    """The fingerprint of the finding that the body is about; empty when there is none."""
    return next((name for name in marks(body) if _FINGERPRINT.match(name)), "")


def review_mark(head_sha: str) -> str:
    """The mark of the review of this head."""
    return mark(f"review:{head_sha}")


def content_mark(comments: list[dict[str, Any]]) -> str:
    """The mark by which a review with exactly these comments is known again."""
    said = json.dumps(comments, sort_keys=True).encode()
    return mark(f"comments:{hashlib.sha256(said).hexdigest()[:16]}")


def reviewed_head(body: str) -> str:
    """The head that this review's body is about; empty when it is no review of ours."""
    names = (name for name in marks(body) if name.startswith("review:"))
    return next((name.partition(":")[2] for name in names), "")
