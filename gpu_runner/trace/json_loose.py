"""Events one by one, from text that no strict decoder takes.

A broken event is skipped up to where the next one seems to begin. Its brackets are then unknown, so
from there on a `]` ends the list only if no further event follows it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, cast

from gpu_runner.trace.decoding import msgspec

_NEXT_EVENT = re.compile(r',\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|args|id)")')
# C++ prints these where JSON has no number; Python's decoder wants its own spelling.
_NOT_A_NUMBER = re.compile(
    r"(?<=[:,\[\s])([-+]?)(?:nan|inf(?:inity)?)(?:\(\w*\))?(?=[\s,}\]])", re.IGNORECASE
)
MOST_UNREADABLE = 100_000  # then the file is not worth the time
RETAKEN = 64 << 10  # characters
_BLANKS = re.compile(r"[\s,]*")
_decoder = json.JSONDecoder(parse_float=str)


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


@dataclass(frozen=True, slots=True)
class Loosely:
    """What could be read of a piece of text."""

    events: list[Event]
    rest: str  # not read yet: an event that goes on, or what follows the list
    unreadable: int
    guessed: bool  # whether a broken event was skipped
    ended: bool  # whether the list was closed


def read_loosely(text: str, final: bool, guessed: bool) -> Loosely:
    """The events in the text; `final` says that no more text follows."""
    events: list[Event] = []
    unreadable = at = 0
    while True:
        if unreadable > MOST_UNREADABLE:
            return Loosely(events, text[at:], unreadable, guessed, ended=False)
        if at > RETAKEN:  # the decoder counts the lines before every mistake it finds
            text, at = text[at:], 0
        at = _skip_blanks(text, at)
        if at >= len(text):
            return Loosely(events, "", unreadable, guessed, ended=False)
        if text[at] == "]":
            following = _NEXT_EVENT.search(text, at) if guessed else None
            if following is None:
                ended = final or not guessed
                return Loosely(events, text[at + ended :], unreadable, guessed, ended)
            at = following.end()
            continue
        event, after = _single(text, at)
        if after < 0:  # broken, or not all there yet
            following = _NEXT_EVENT.search(text, at)
            if following is None:
                return Loosely(events, text[at:], unreadable, guessed, ended=False)
            event, _ = _single(_mended(text[at : following.start()]), 0)
            guessed = guessed or event is None
            after = following.end()
        at = after
        if event is None:
            unreadable += 1
        else:
            events.append(event)


def metadata_of(text: bytes) -> dict[str, Any]:
    """The object in the text, or nothing: names of devices are a nicety."""
    try:
        found = _decoder.decode(_mended(text.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def _single(text: str, at: int) -> tuple[Event | None, int]:
    """One event and where it ends; -1 if it cannot be read."""
    try:
        value, after = _decoder.raw_decode(text, at)
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
    return msgspec.Raw() if value is None else msgspec.Raw(str(value).encode("utf-8", "replace"))


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _mended(text: str) -> str:
    """The text with not-a-number in the spelling Python's decoder takes."""
    return _NOT_A_NUMBER.sub("NaN", text)
