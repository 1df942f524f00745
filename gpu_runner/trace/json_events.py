"""The events of a chrome-format JSON file, in batches, whatever its size and state.

A piece of the file is cut where one event ends and the next begins. The cut is a guess (`},{` may
stand in a string, or inside an event) that proves itself: the text before it, closed with `]`,
decodes as a JSON list only if the guess was right. Where no guess holds, the events are read one by
one, and a broken one is skipped and counted: a quote inside a kernel's name must not cost the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from gpu_runner.errors import FormatError
from gpu_runner.trace.source import Source

LONGEST_HEADER = 32 << 20
LONGEST_EVENT = 16 << 20
GUESSES = 6
GUESS_WITHIN = 256 << 10
BOM = b"\xef\xbb\xbf"

_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,(?=\s*\{)")
_END = re.compile(rb"\}\s*\]")
_NEXT_EVENT = re.compile(r'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|args|id)")')
# C++ prints these where JSON has no number; Python's decoder wants its own spelling.
_NOT_A_NUMBER = re.compile(
    r"(?<=[:,\[\s])([-+]?)(?:nan|inf(?:inity)?)(?:\(\w*\))?(?=[\s,}\]])", re.I
)
_SKIP = re.compile(r"[\s,]*")


class Event(msgspec.Struct, gc=False):
    """The fields of one event that matter; numbers are kept as they are written."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = msgspec.Raw()
    dur: msgspec.Raw = msgspec.Raw()
    args: Arguments | None = None


class Arguments(msgspec.Struct, gc=False):
    """The arguments of GPU work and host calls."""

    device: Any = None
    in_device: Any = msgspec.field(default=None, name="inDevice")
    stream: Any = None
    correlation: Any = None
    bytes: Any = None
    graph: Any = msgspec.field(default=None, name="graph node id")


_events = msgspec.json.Decoder(list[Event])
_loose = json.JSONDecoder(parse_float=str)


class EventFile:
    """A chrome-format trace: `batches` gives its events, then `metadata` and the counts stand."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.metadata: dict[str, Any] = {}
        self.unreadable = 0
        self.problem = ""
        self._rest = b""

    def batches(self) -> Iterator[list[Event]]:
        """All events, a few thousand at a time."""
        self._rest = self._header()
        while True:
            piece = self.source.read()
            self._rest += piece
            final = not piece
            batch = self._cut(final)
            ended = final
            if batch is None:
                batch, ended = self._one_by_one(final)
            elif final:
                ended = True
            yield batch
            if ended:
                break
            if len(self._rest) > LONGEST_EVENT:
                self.problem = "one event is longer than 16 MB, so the reading stopped there"
                return
        self._trailer()
        self.problem = self.problem or self.source.problem

    def _header(self) -> bytes:
        """What follows the `[` that opens the events; what precedes it becomes metadata."""
        head = self.source.read().removeprefix(BOM).lstrip()
        if not head.startswith((b"{", b"[")):
            raise FormatError("it is neither JSON nor an Nsight Systems export")
        if head.startswith(b"["):
            return head[1:]  # chrome's short form: nothing but the list
        while (match := _LIST.search(head)) is None:
            piece = self.source.read()
            if not piece or len(head) > LONGEST_HEADER:
                raise FormatError(self._no_events(head, bool(piece)))
            head += piece
        self._read_metadata(head[: match.start()] + b'"traceEvents":[]}')
        return head[match.end() :]

    def _no_events(self, head: bytes, goes_on: bool) -> str:
        if self.source.problem:
            return self.source.problem
        if goes_on or not head.rstrip().endswith(b"}"):
            return "its JSON is cut short or broken before the first event"
        return "it is JSON without a `traceEvents` list, so not a trace of the PyTorch profiler"

    def _read_metadata(self, text: bytes) -> None:
        try:
            found = _loose.decode(_readable(text))
        except (ValueError, RecursionError):
            return  # names of devices are a nicety
        if isinstance(found, dict):
            self.metadata |= cast(dict[str, Any], found)

    def _cut(self, final: bool) -> list[Event] | None:
        """The events up to the best cut, or None if no guess proves right."""
        for stop, resume in self._guesses(final):
            try:
                batch = _events.decode(b"[" + self._rest[:stop] + b"]")
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                continue
            self._rest = self._rest[resume:]
            return batch
        return None

    def _guesses(self, final: bool) -> Iterator[tuple[int, int]]:
        """Where the events so far may end, and where the rest would go on; best first."""
        window = max(0, len(self._rest) - GUESS_WITHIN)
        pattern = _END if final else _BETWEEN
        for match in list(pattern.finditer(self._rest, window))[: -GUESSES - 1 : -1]:
            yield match.start() + 1, match.end()

    def _one_by_one(self, final: bool) -> tuple[list[Event], bool]:
        """The events that can be read singly, and whether the list ended."""
        text = self._rest.decode("utf-8", "replace")
        batch: list[Event] = []
        at = 0
        while True:
            at = _skip(text, at)
            if at >= len(text):
                self._rest = b""
                if final:
                    self._cut_short()
                return batch, final
            if text[at] == "]":
                self._rest = text[at + 1 :].encode()
                return batch, True
            event, after = _single(text, at)
            if after < 0:  # broken, or not all there yet
                following = _NEXT_EVENT.search(text, at)
                if following is None:
                    self._rest = text[at:].encode()
                    if final:
                        self._cut_short()
                        self._rest = b""
                    return batch, final
                event, _ = _single(_mended(text[at : following.start() + 1]), 0)
                after = following.end()
            at = after
            if event is None:
                self.unreadable += 1
            else:
                batch.append(event)

    def _cut_short(self) -> None:
        if not self.problem:
            self.problem = "the JSON ends in the middle, so the last part is missing"

    def _trailer(self) -> None:
        """What follows the list: newer files keep their base time and name there."""
        rest = self._rest
        while len(rest) < LONGEST_EVENT and (piece := self.source.read()):
            rest += piece
        rest = rest.strip().removeprefix(b",").lstrip()
        if rest and not rest.startswith(b"}"):
            self._read_metadata(b"{" + rest)


def _single(text: str, at: int) -> tuple[Event | None, int]:
    """One event and where it ends; -1 if it cannot be read."""
    try:
        value, after = _loose.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, -1
    return _event(value), after


def _event(value: Any) -> Event | None:
    if not isinstance(value, dict):
        return None
    found = cast(dict[str, Any], value)
    arguments: Any = found.get("args")
    return Event(
        ph=found.get("ph"),
        cat=found.get("cat"),
        name=found.get("name"),
        pid=found.get("pid"),
        tid=found.get("tid"),
        ts=_raw(found.get("ts")),
        dur=_raw(found.get("dur")),
        args=_arguments(cast(dict[str, Any], arguments)) if isinstance(arguments, dict) else None,
    )


def _arguments(found: dict[str, Any]) -> Arguments:
    return Arguments(
        device=found.get("device"),
        in_device=found.get("inDevice"),
        stream=found.get("stream"),
        correlation=found.get("correlation"),
        bytes=found.get("bytes"),
        graph=found.get("graph node id"),
    )


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw() if value is None else msgspec.Raw(str(value).encode())


def _skip(text: str, at: int) -> int:
    match = _SKIP.match(text, at)
    return match.end() if match else at


def _mended(text: str) -> str:
    """The text with not-a-number in the spelling Python's decoder takes."""
    return _NOT_A_NUMBER.sub("NaN", text)


def _readable(text: bytes) -> str:
    return _mended(text.decode("utf-8", "replace"))
