"""Whether a file is worth reading at all: a scan for the words that the facts call triggers.

Kept apart from the facts themselves, whose reading costs more than judging a small commit may.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

_LIBRARY = re.compile(r"(?ms)^\[library\]\n.*?(?=^\[|\Z)")


def mentions_gpu(text: str | bytes) -> bool:
    """Whether the text names a GPU library at all; without one there is nothing to analyse."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return triggers().search(data) is not None or b"\x00" in data[:4]


@cache
def triggers() -> re.Pattern[bytes]:
    """The words of every library's facts, as one pattern."""
    words: set[str] = set()
    for file in (Path(__file__).parent / "facts").glob("*.toml"):
        table = _LIBRARY.search(file.read_text(encoding="utf-8"))
        if table:
            words.update(tomllib.loads(table[0])["library"].get("triggers", ()))
    return re.compile(b"|".join(re.escape(word.encode()) for word in sorted(words)) or rb"(?!)")
