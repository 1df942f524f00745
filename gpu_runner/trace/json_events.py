"""The events of a chrome-format JSON file, in batches, whatever its size and state.

A piece of the file is cut where one event ends and the next begins. The cut is a guess (`},{` may
stand in a string, or inside an event) that proves itself: the text before it, closed with `]`,
decodes as a JSON list only if the guess was right. Where no guess holds, the events are read one by
one, and a broken one is skipped and counted: a quote inside a kernel's name must not cost the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpu_runner.errors import FormatError
from gpu_runner.trace.decoding import msgspec
from gpu_runner.trace.json_loose import MOST_UNREADABLE, Event, metadata_of, read_loosely
from gpu_runner.trace.source import Source

LONGEST_HEADER = 32 << 20
LONGEST_EVENT = 16 << 20
GUESSES = 6
GUESS_WITHIN = 256 << 10
BOM = b"\xef\xbb\xbf"
CUT_SHORT = "the JSON ends in the middle, so the last part is missing"

_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,(?=\s*\{)")
_END = re.compile(rb"\}\s*\]")
_events = msgspec.json.Decoder(list[Event])


class EventFile:
    """A chrome-format trace: `batches` gives its events, then `metadata` and the counts stand."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.metadata: dict[str, Any] = {}
        self.unreadable = 0
        self.problem = ""
        self._rest = b""
        self._bare = False  # the file is the list itself, which needs no closing
        self._guessed = False

    def batches(self) -> Iterator[list[Event]]:
        """All events, a few thousand at a time."""
        self._rest = self._header()
        while True:
            piece = self.source.read()
            self._rest += piece
            batch, ended = self._batch(final=not piece)
            yield batch
            if ended:
                self._trailer()
                break
            if not piece:
                self.problem = CUT_SHORT
                break
            if self.unreadable > MOST_UNREADABLE:
                self.problem = f"over {MOST_UNREADABLE:,} events are broken, so the reading stopped"
                break
            if len(self._rest) > LONGEST_EVENT:
                self.problem = "one event is longer than 16 MB, so the reading stopped there"
                break
        self.problem = self.source.problem or self.problem

    def _header(self) -> bytes:
        """What follows the `[` that opens the events; what precedes it becomes metadata."""
        head = self.source.read().removeprefix(BOM).lstrip()
        if not head.startswith((b"{", b"[")):
            problem = self.source.problem or "it is neither JSON nor an Nsight Systems export"
            raise FormatError(problem)
        if head.startswith(b"["):
            self._bare = True  # chrome's short form: nothing but the list
            return head[1:]
        while (match := _LIST.search(head)) is None:
            piece = self.source.read()
            if not piece or len(head) > LONGEST_HEADER:
                raise FormatError(self._no_events(head, bool(piece)))
            head += piece
        self.metadata |= metadata_of(head[: match.start()] + b'"traceEvents":[]}')
        return head[match.end() :]

    def _no_events(self, head: bytes, goes_on: bool) -> str:
        if self.source.problem:
            return self.source.problem
        if goes_on or not head.rstrip().endswith(b"}"):
            return "its JSON is cut short or broken before the first event"
        return "it is JSON without a `traceEvents` list, so not a trace of the PyTorch profiler"

    def _batch(self, final: bool) -> tuple[list[Event], bool]:
        """The next events, and whether the list ended with them."""
        for stop, resume in self._guesses(final):
            try:
                batch = _events.decode(b"[" + self._rest[:stop] + b"]")
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                continue
            self._rest = self._rest[resume:]
            return batch, final
        found = read_loosely(self._rest.decode("utf-8", "replace"), final, self._guessed)
        self._rest = found.rest.encode("utf-8", "replace")
        self._guessed = found.guessed
        self.unreadable += found.unreadable
        return found.events, found.ended

    def _guesses(self, final: bool) -> Iterator[tuple[int, int]]:
        """Where the events so far may end, and where the rest would go on; best first."""
        window = max(0, len(self._rest) - GUESS_WITHIN)
        pattern = _END if final else _BETWEEN
        for match in list(pattern.finditer(self._rest, window))[: -GUESSES - 1 : -1]:
            yield match.start() + 1, match.end()

    def _trailer(self) -> None:
        """What follows the list: newer files keep their base time and name there."""
        rest = self._rest
        while len(rest) < LONGEST_EVENT and (piece := self.source.read()):
            rest += piece
        rest = rest.strip()
        if self._bare:
            return
        if not rest.endswith(b"}"):
            self.problem = CUT_SHORT
        self.metadata |= metadata_of(b"{" + rest.removeprefix(b","))
