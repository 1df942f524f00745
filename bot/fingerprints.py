"""What a finding is known by across pushes, reports and the baseline, wherever its line moves."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

from bot.novelty import Flagged


def fingerprint(path: str, key: tuple[str, str], ordinal: int) -> str:
    """The mark made of rule, path, the line's text, and which of its kind it is."""
    rule, text = key
    parts = "\0".join((rule, path, text, str(ordinal)))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def marked(path: str, flagged: Sequence[Flagged]) -> Iterator[tuple[str, int]]:
    """Each finding's fingerprint, and which of its kind it is."""
    seen: Counter[tuple[str, str]] = Counter()
    for found in flagged:
        seen[found.key] += 1
        yield fingerprint(path, found.key, seen[found.key]), seen[found.key]
