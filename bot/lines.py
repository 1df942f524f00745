"""Text and lines as Python counts them: only LF, CRLF and CR end a line."""

from __future__ import annotations

import io
import re
import tokenize

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_LONE_CR = re.compile(rb"\r(?!\n)")


def split_lines(text: str) -> list[str]:
    """The lines with their ends; unlike `str.splitlines`, a form feed does not end one."""
    return _LINE.findall(text)


def decode(data: bytes) -> tuple[str, str]:
    """The text and its encoding; bytes that fit no declared encoding are read as Latin-1."""
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        # "utf-8-sig" drops the byte order mark, but an edited file must keep it.
        encoding = "utf-8" if name == "utf-8-sig" else name
        return data.decode(encoding), encoding
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return data.decode("latin-1"), "latin-1"


def counts_like_git(data: bytes) -> bool:
    """Whether Python's line numbers are git's: a lone CR ends a line only for Python."""
    return _LONE_CR.search(data) is None


def line_end(text: str) -> str:
    """The file's own line end; an empty string when it mixes several."""
    ends = set(re.findall(r"\r\n|\r|\n", text))
    return ends.pop() if len(ends) == 1 else "" if ends else "\n"
