"""File names as git writes them: C strings when they hold anything unusual."""

from __future__ import annotations

import re

_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_NAMES = {value: letter for letter, value in _ESCAPES.items()}


def quote(name: str) -> str:
    """The file name as git wants it in a patch."""
    data = name.encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in data):
        return name
    return f'"{"".join(map(_octal, data))}"'


def _octal(byte: int) -> str:
    if byte in _NAMES:
        return f"\\{_NAMES[byte]}"
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


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
