"""What rules ask of a place and a value before they speak: how sure, how often, in which words."""

from __future__ import annotations

from analyzers.dryrun.values import Device, Kind, Value
from analyzers.finding import Confidence
from analyzers.places import Heat, Place

_OFF_ROLES = frozenset({"dataset", "on_cpu", "test"})
_OFF_CONTEXTS = frozenset({"profiler"})


def device_confidence(value: Value) -> Confidence | None:
    """How sure it is that the value's data is on the device; None when it is not."""
    if value.kind is not Kind.TENSOR or value.device is Device.HOST:
        return None
    return value.sure if value.device is Device.GPU else Confidence.POSSIBLE


def applies(place: Place) -> bool:
    """Whether a performance remark makes sense here at all.

    Tests, CPU reference code, data sets (they run in CPU workers) and code that measures are
    left alone.
    """
    function = place.function
    if function is not None and function.roles & _OFF_ROLES:
        return False
    if place.contexts & _OFF_CONTEXTS or place.guarded:
        return False
    return place.heat is not Heat.COLD


def measured(place: Place) -> bool:
    """Whether the function reads a clock: waits are there on purpose."""
    return place.function is not None and place.function.reads_clock


def repeated_confidence(place: Place) -> Confidence | None:
    """How sure it is that the place runs again and again while the GPU should be busy."""
    if not applies(place):
        return None
    if place.heat in (Heat.HOT, Heat.WARM):
        return Confidence.CERTAIN
    return Confidence.POSSIBLE


def when(place: Place) -> str:
    """How often the place runs, in words: "on every turn of the loop in line 12"."""
    loops = [loop for loop in place.loops if not loop.comprehension]
    if loops and place.in_loop:
        return f"on every turn of the loop in line {loops[-1].span.line}"
    if place.loops and place.in_loop:
        return "once per element"
    if place.function is not None and place.heat in (Heat.HOT, Heat.WARM):
        return f"on every call of `{place.function.name}`"
    return "here"


def shown(text: str, limit: int = 60) -> str:
    """A piece of code for a message: one line, not too long, between backticks."""
    line = " ".join(text.split()).replace("`", "'")
    return f"`{line if len(line) <= limit else line[: limit - 1] + '…'}`"
