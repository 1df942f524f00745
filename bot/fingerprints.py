"""What a finding is known by across pushes, reports and the baseline, wherever its line moves."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

from bot.novelty import Flagged

_WHAT = 10  # digits that say which finding it is; those after them say in which file


def fingerprint(path: str, key: tuple[str, str], ordinal: int) -> str:
    """The mark made of rule, the line's text, which of its kind it is, and the path."""
    rule, text = key
    what = _digits("\0".join((rule, text, str(ordinal))))[:_WHAT]
    return what + _digits(path)[: 16 - _WHAT]


def without_path(mark: str) -> str:
    """The part of a fingerprint that stays the same when the file is renamed."""
    return mark[:_WHAT]


def _digits(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def marked(path: str, flagged: Sequence[Flagged]) -> Iterator[tuple[str, int]]:
    """Each finding's fingerprint, and which of its kind it is."""
    seen: Counter[tuple[str, str]] = Counter()
    for found in flagged:
        seen[found.key] += 1
        yield fingerprint(path, found.key, seen[found.key]), seen[found.key]
