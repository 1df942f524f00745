"""What changes while the dry run walks: bindings, stream order, unfinished copies."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzers.dryrun.streams import Operation, Order
from analyzers.dryrun.values import UNKNOWN, Value, join
from analyzers.finding import Confidence, Span
from analyzers.places import Loop
from analyzers.records import record, replace
from analyzers.timeline import Call, Copy, Unrecorded


@record
class Unfinished:
    """An asynchronous copy and the operation it is on the device."""

    copy: Copy
    operation: Operation
    sure: Confidence = Confidence.CERTAIN


@record
class Written:
    """The last device work that wrote some memory."""

    operation: Operation
    span: Span
    library: str
    order: int = 0  # evaluation order
    made_on: str = ""  # the stream that the memory was allocated on
    allocates: bool = False  # without filling it


@record
class Made:
    """A tensor that was made while a side stream was current."""

    stream: str
    span: Span
    sure: Confidence  # that this stream is another one than the current one around it
    waited: bool  # the side stream or the host had waited for work of before


@record
class Lent:
    """The last use of one stream's memory on another stream."""

    operation: Operation
    event: Unrecorded


@record
class Work:
    """The last device work enqueued, for timing."""

    order: int
    call: Call | None
    sure: Confidence
    loops: tuple[Loop, ...] = ()


def _merge_copies(mine: dict[int, Unfinished], theirs: dict[int, Unfinished]) -> None:
    """What is under way on either path; a doubt of one path holds."""
    for ident, copy in theirs.items():
        known = mine.get(ident)
        if known is None or known.copy is not copy.copy:
            mine[ident] = copy
        elif copy.sure.rank > known.sure.rank:
            mine[ident] = replace(known, sure=copy.sure)


@dataclass
class State:
    """The state at one point of one path; arms of a branch get copies that are merged again."""

    names: dict[str, Value] = field(default_factory=dict[str, Value])
    order: Order = field(default_factory=Order)
    to_host: dict[int, Unfinished] = field(default_factory=dict[int, Unfinished])
    to_device: dict[int, Unfinished] = field(default_factory=dict[int, Unfinished])
    written: dict[int, Written] = field(default_factory=dict[int, Written])
    readers: dict[int, tuple[Written, ...]] = field(default_factory=dict[int, tuple[Written, ...]])
    lent: dict[int, Lent] = field(default_factory=dict[int, Lent])
    told: frozenset[int] = frozenset()  # memory whose second stream the allocator was told
    recorded: dict[int, Operation] = field(default_factory=dict[int, Operation])  # by event
    work: Work | None = None
    waited: int = 0  # evaluation order of the last wait of the host
    read_back: int = 0  # … that was not only for data on its way to the device
    grad: bool = True  # autograd is recording
    evaluating: bool = False  # a module was switched to eval mode
    side_work: bool = False  # something was enqueued on another than the default stream

    def copy(self) -> State:
        """An independent copy for one path."""
        return State(
            dict(self.names),
            self.order.copy(),
            dict(self.to_host),
            dict(self.to_device),
            dict(self.written),
            dict(self.readers),
            dict(self.lent),
            self.told,
            dict(self.recorded),
            self.work,
            self.waited,
            self.read_back,
            self.grad,
            self.evaluating,
            self.side_work,
        )

    def called(self) -> State:
        """The state a called function starts with: the same device, no local names."""
        inner = self.copy()
        inner.names = {}
        return inner

    def returned(self, inner: State) -> None:
        """Take over what a called function did to the device."""
        names = self.names
        self.__dict__.update(inner.__dict__)
        self.names = names

    def uses_merge(self, other: State) -> None:
        """Who wrote, read and recorded what, on either path."""
        if other.written or other.readers or other.recorded:  # else nobody used anything
            self.written.update(other.written)
            self.readers.update(other.readers)
            self.lent.update(other.lent)
            self.recorded.update(other.recorded)
        if other.told:
            self.told |= other.told

    def collected(self, joined: Value, *elements: Value | None) -> Value:
        """The element of a container; while a copy into one of them is under way it stands for all.

        Whoever reads the container reads that one too.
        """
        if joined.ident or not self.to_host:
            return joined
        under_way = (e.ident for e in elements if e is not None and e.ident in self.to_host)
        return replace(joined, ident=next(under_way, 0))

    def merge(self, other: State) -> None:
        """Join with the state at the end of another path."""
        mine, theirs = self.names, other.names
        if mine is not theirs:
            for name, b in theirs.items():
                a = mine.get(name)
                if a is not b:
                    joined = join(a if a is not None else UNKNOWN, b)
                    if joined.element is not None and a is not None:
                        for state in (self, other):
                            inner = state.collected(joined.element, a.element, b.element)
                            if inner is not joined.element:
                                joined = replace(joined, element=inner)
                                break
                    mine[name] = joined
            if len(mine) != len(theirs):
                for name in mine.keys() - theirs.keys():
                    mine[name] = join(mine[name], UNKNOWN)
        if other.order.ticks:  # else nothing was enqueued, and there is nothing to order
            self.order.merge(other.order)
        _merge_copies(self.to_host, other.to_host)
        _merge_copies(self.to_device, other.to_device)
        self.uses_merge(other)
        if other.work is not None and (self.work is None or other.work.order > self.work.order):
            self.work = other.work
        self.waited = max(self.waited, other.waited)
        self.read_back = max(self.read_back, other.read_back)
        self.grad = self.grad and other.grad
        self.evaluating = self.evaluating or other.evaluating
        self.side_work = self.side_work or other.side_work
