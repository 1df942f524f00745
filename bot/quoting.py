"""File names as git writes them: C strings when they hold anything unusual."""

from __future__ import annotations

import re

_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


def unquote(name: str) -> str:
    """The file name that git wrote as a C string; other names as they are."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return name
    parts = re.split(r"(\\(?:[0-7]{3}|.))", name[1:-1])
    data = b"".join(
        _escaped(part[1:]) if part.startswith("\\") else part.encode("utf-8", "surrogateescape")
        for part in parts
    )
    return data.decode("utf-8", "surrogateescape")


def _escaped(code: str) -> bytes:
    if code.isdigit():
        return bytes([int(code, 8) & 0xFF])
    return bytes([_ESCAPES[code]]) if code in _ESCAPES else code.encode()
