"""The bytes of a trace, piece by piece: plain or gzip, cut short or endless.

A piece is never larger than PIECE, whatever the file claims, so memory is bounded before anything
is parsed. What goes wrong ends the reading and is kept in `problem`: the part that was read stands.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import BinaryIO

PIECE = 4 << 20
PACKED_PIECE = 256 << 10
MOST_BYTES = 16 << 30
# Real traces shrink 15 to 45 times; only a file made for it shrinks more than this.
MOST_RATIO = 200
RATIO_COUNTS_FROM = 64 << 20
GZIP = b"\x1f\x8b"


class Source:
    """A file that is read once, from front to back."""

    def __init__(self, file: BinaryIO) -> None:
        self.problem = ""
        self.given = 0
        self._file = file
        self._taken = 0
        self._packed = b""
        packed = file.read(2) == GZIP
        self._unpacker = zlib.decompressobj(wbits=31) if packed else None
        file.seek(0)

    def read(self) -> bytes:
        """The next piece, empty at the end; `problem` then says if the end came too early."""
        if self.problem:
            return b""
        piece = self._file.read(PIECE) if self._unpacker is None else self._unpack()
        self.given += len(piece)
        if self.given > MOST_BYTES:
            self.problem = f"only the first {MOST_BYTES >> 30} GiB were read"
        return piece

    def _unpack(self) -> bytes:
        parts: list[bytes] = []
        room = PIECE
        try:
            while room > 0 and (part := self._some(room)) is not None:
                parts.append(part)
                room -= len(part)
        except zlib.error:
            self.problem = "the gzip data is damaged, so the reading stopped there"
        total = self.given + PIECE - room
        if total > RATIO_COUNTS_FROM and total > MOST_RATIO * self._taken:
            self.problem = (
                f"it unpacks to more than {MOST_RATIO} times its size, which no real trace does, "
                "so the reading stopped"
            )
        return b"".join(parts)

    def _some(self, room: int) -> bytes | None:
        """Up to `room` unpacked bytes, or None at the end of the file."""
        assert self._unpacker is not None
        if self._unpacker.eof:  # another gzip member may follow
            rest = self._unpacker.unused_data + self._packed
            self._packed = rest or self._take()
            if not self._packed.startswith(GZIP):
                return None
            self._unpacker = zlib.decompressobj(wbits=31)
        data = self._packed or self._take()
        if not data:
            self.problem = "the gzip data ends in the middle, so the last part is missing"
            return None
        part = self._unpacker.decompress(data, room)
        self._packed = self._unpacker.unconsumed_tail
        return part

    def _take(self) -> bytes:
        data = self._file.read(PACKED_PIECE)
        self._taken += len(data)
        return data


def first_bytes(path: Path, count: int = 64) -> bytes:
    """How the file begins, to tell its format by."""
    with path.open("rb") as file:
        return file.read(count)
