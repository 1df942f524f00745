"""Frames on the pipes between the runner and the harness: a JSON header and raw bytes behind it.

Both ends import this module, and one end lives in the interpreter of the project under test, so
it needs nothing but the standard library and no syntax newer than Python 3.9. Nothing here is
ever unpickled: the reading end in the runner treats every frame as hostile.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from typing import Any

SIZES = struct.Struct(">4sIQ")  # mark, bytes of header, bytes of payload
MARK = b"HSF1"
MOST_HEADER = 4 << 20
MOST_PAYLOAD = 256 << 20

Header = dict[str, Any]


class FrameError(Exception):
    """The bytes on the pipe are not a frame of ours."""


def pack(header: Header, payload: bytes = b"") -> bytes:
    """The frame as bytes, ready to be written at once."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return SIZES.pack(MARK, len(text), len(payload)) + text + payload


def sizes(start: bytes) -> tuple[int, int]:
    """Lengths of header and payload that the first bytes of a frame announce."""
    mark, header, payload = SIZES.unpack(start)
    if mark != MARK:
        raise FrameError("something else was written to the result pipe")
    if header > MOST_HEADER or payload > MOST_PAYLOAD:
        raise FrameError(f"a frame announces {header + payload} bytes, which is too large")
    return header, payload


def parse(text: bytes) -> Header:
    """The header; `FrameError` unless it is one JSON object."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise FrameError("a frame's header is not JSON") from None
    if not isinstance(header, dict):
        raise FrameError("a frame's header is not an object")
    return {str(key): value for key, value in header.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def read(fd: int, read_some: Callable[[int, int], bytes] = os.read) -> tuple[Header, bytes]:
    """The next frame, waiting for it; `EOFError` when the other end has closed."""
    header, payload = sizes(_exactly(fd, SIZES.size, read_some))
    return parse(_exactly(fd, header, read_some)), _exactly(fd, payload, read_some)


def _exactly(fd: int, count: int, read_some: Callable[[int, int], bytes]) -> bytes:
    parts: list[bytes] = []
    while count:
        part = read_some(fd, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def write(fd: int, data: bytes, write_some: Callable[[int, memoryview], int] = os.write) -> None:
    """Writes everything, however little the pipe takes at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[write_some(fd, rest) :]
