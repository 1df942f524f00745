"""What a file does to the GPU, in evaluation order: the events that rules read.

A rule never looks at syntax. It asks the timeline for events of one class and looks at their
values, their place (loops, guards, function, heat) and the call that caused them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from analyzers.dryrun.values import Value
from analyzers.finding import Confidence, Span
from analyzers.knowledge import Fact
from analyzers.places import Loop, Place
from analyzers.records import Word, record
from analyzers.source import Source


@record
class Argument:
    """One argument at a call."""

    name: str  # keyword, or the parameter's name where it is known, else ""
    span: Span
    value: Value
    keyword: bool = False
    star: bool = False


@record
class Call:
    """One call of a known API, with handles for edits."""

    place: Place
    name: str  # qualified, "torch.Tensor.item"
    fact: Fact
    span: Span
    callee: Span  # the expression before the parentheses
    receiver: Value | None
    receiver_span: Span | None
    arguments: tuple[Argument, ...]
    result: Value = field(compare=False)
    method: str = ""  # last part of the callee as written
    evaluating: bool = False  # the module was switched to eval mode

    def argument(self, name: str) -> Argument | None:
        """The argument given for that parameter."""
        return next((a for a in self.arguments if a.name == name), None)

    def has(self, name: str) -> bool:
        """Whether that parameter is given."""
        return self.argument(name) is not None

    @property
    def has_star(self) -> bool:
        """Whether arguments are passed that cannot be seen (`*a`, `**k`)."""
        return any(a.star for a in self.arguments)


class Reason(Word):
    """Why the host waits."""

    DEVICE = "device"  # an explicit wait for everything
    STREAM = "stream"
    EVENT = "event"
    SCALAR = "scalar"  # .item(), float(t), int(t)
    CONDITION = "condition"  # if t, while t, t and …, in
    FORMAT = "format"  # print, f-string, logging
    COPY = "copy"  # .cpu(), .numpy(), tolist()
    SHAPE = "shape"  # the size of the result depends on the data
    UPLOAD = "upload"  # host data sent to the device
    INDEX = "index"  # a slice bound or a list's index that lives on the device
    GATHER = "gather"  # host numbers index a device tensor
    STORE = (
        "store"  # a number goes through an index on the device, or a device scalar through a mask
    )
    ELEMENT = "element"  # one element of a device array is read or written by the host
    ITERATE = "iterate"  # range(t), [x] * t


EXPLICIT = frozenset({Reason.DEVICE, Reason.STREAM, Reason.EVENT})


@record
class Event:
    """Something that happens at a place."""

    place: Place


@record
class Called(Event):
    """A call of a known API or of a network."""

    call: Call


@record
class Wait(Event):
    """The host waits for the device."""

    reason: Reason
    value: Value  # what is waited for; of an explicit wait the stream or event
    call: Call | None
    pending: bool = (
        False  # explicit: asynchronous work needs it (async copy to the host, side stream)
    )

    @property
    def explicit(self) -> bool:
        """Whether the code asks for the wait (synchronize)."""
        return self.reason in EXPLICIT


class Direction(Word):
    """Which way bytes go."""

    TO_DEVICE = "to device"
    TO_HOST = "to host"


@record
class Copy(Event):
    """Bytes cross between host and device."""

    direction: Direction
    source: Value
    result: Value
    call: Call
    blocking: bool
    destination: Value | None = None  # given by the caller, or None when newly allocated


@record
class PerhapsSent(Copy):
    """A host tensor that the program made, or fetched, goes to a place that is not known."""


@record
class Launch(Event):
    """A device function is launched with an explicit grid."""

    call: Call
    kernel: Value
    grid: Value | None
    block: Value | None
    grid_span: Span | None
    block_span: Span | None
    stream: Value | None
    tensors: tuple[Value, ...]
    grid_written: Span | None = None  # the tuple of its dimensions, here or further up


@record
class LoaderUsed(Event):
    """A loader is gone through, or handed to something that will."""

    loader: Call


@record
class MetadataRead(Event):
    """The host asks for the shape, size or type of data that was copied from the device."""

    value: Value
    base: Span  # of the expression whose attribute is read
    attribute: str


@record
class HostRead(Event):
    """The host reads data whose copy from the device is still under way."""

    value: Value
    copy: Copy
    sure: Confidence  # that nothing has waited for the copy


@record
class HostWrite(Event):
    """The host overwrites memory that a copy to the device is still reading."""

    value: Value
    copy: Copy
    sure: Confidence  # that nothing has waited for the copy
    by_next_call: bool = False  # the copy was issued by an earlier call of the same method


@record
class CrossStream(Event):
    """Work on one stream uses data of another stream with no order between them."""

    value: Value
    producer_span: Span
    producer: str  # name of the stream that made the data ("" for the default stream)
    consumer: str  # name of the stream that uses it
    ordered_by_default: bool  # legacy rules still order the two (blocking streams)
    sure: Confidence = Confidence.CERTAIN  # that these are two streams and nothing orders them
    overwrites: bool = False  # the consumer writes what the producer still reads
    context: Span | None = None  # the with-statement that made the side stream current …
    stream: Span | None = None  # … and the expression in it that names the stream
    library: str = ""  # whose work the consumer is
    producer_library: str = ""


@record
class Unrecorded(Event):
    """Memory of one stream was used on another, and may be handed out again before that ends."""

    value: Value
    producer_span: Span
    producer: str  # the stream it was allocated on
    consumer: str  # the stream that used it
    sure: Confidence


@record
class SizedIndex(Event):
    """An array is indexed by a number that counts bytes."""

    base: Value
    index: Value


@record
class EarlyElapsed(Event):
    """The time of an event is asked for while it is still queued."""

    call: Call
    event: Span | None  # the expression that gives the later event


@record
class Elapsed(Event):
    """A duration is computed from two clock readings around device work."""

    start: Span  # of the statement that read the clock first
    start_place: Place
    stop_place: Place
    work: Call | None  # the last device work between
    sure: Confidence
    waited: bool  # the host waited after that work
    waited_between: bool = False  # … or at least once between the two readings
    drained: bool = True  # nothing was under way when the clock was read first
    loops: tuple[Loop, ...] = ()  # those around the work, inside what is timed
    uploaded: bool = False  # a copy to the device waited for earlier work in between


@record
class Accumulated(Event):
    """A tensor is added to a running total or stored in a container."""

    target: str
    value: Value
    value_span: Span
    how: str  # "add", "append", "store" (under a key), "fold" (x = f(x, value)), "cat", "report"
    target_outside: bool  # the total outlives the turn of the loop
    backward: bool  # the value itself is sent through backward() in this function
    target_backward: bool  # the total is used for backward later
    feeds_backward: bool = False  # what is sent through backward() is computed from the value
    read_in_loop: bool = False  # the loop also reads the total


E_ = TypeVar("E_", bound=Event)


@dataclass(frozen=True)
class Timeline:
    """All events of one file."""

    source: Source
    events: tuple[Event, ...]
    gpu: str | None = None  # the GPU the project is written for
    imports: frozenset[str] = frozenset()  # top-level modules that the file imports
    kernels: tuple[Value, ...] = ()  # device functions defined in this file
    loaders_moved: frozenset[Span] = frozenset()  # loader calls whose batches go to the device

    @cached_property
    def _by_kind(self) -> dict[type[Event], list[Event]]:
        groups: dict[type[Event], list[Event]] = {}
        for event in self.events:
            groups.setdefault(event.__class__, []).append(event)
        return groups

    def of(self, kind: type[E_]) -> Iterator[E_]:
        """The events of that class, in order."""
        return iter(self._by_kind.get(kind, ()))  # type: ignore[arg-type]  # grouped by class

    def calls(self, effect: str = "") -> Iterator[Call]:
        """The calls of known APIs; with `effect`, of those that have it."""
        for event in self.of(Called):
            if not effect or event.call.fact.effect == effect:
                yield event.call

    def text(self, span: Span) -> str:
        """The source text of a span."""
        return self.source.segment(span)
