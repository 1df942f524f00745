"""Who touches what too early: a stream before another, the host before a copy has ended."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from analyzers.dryrun.run import Run
from analyzers.dryrun.state import Lent, Written
from analyzers.dryrun.streams import DEFAULT, Operation
from analyzers.dryrun.values import Device, Kind, Value
from analyzers.finding import Confidence
from analyzers.places import Place
from analyzers.records import replace
from analyzers.timeline import CrossStream, HostRead, HostWrite, Unrecorded

# Streams whose names start so were handed in: a caller may pass the current one.
GIVEN = "given "
MAYBE = "maybe "
MADE = "made "  # by a function that may hand out the same one again


def parts(value: Value) -> Sequence[Value]:
    """The value itself, or the tensors inside a sequence or mapping."""
    if value.kind is not Kind.SEQUENCE and value.kind is not Kind.MAPPING:
        return (value,)
    if value.items is not None:
        return [part for item in value.items for part in parts(item)]
    if value.element is not None and value.element.kind is not value.kind:
        return (value.element,)
    return ()


def reads(
    run: Run, node: ast.AST, values: Iterable[Value], operation: Operation, library: str
) -> None:
    """Device work reads these values: is what made them ordered before it?"""
    for value in values:
        for part in parts(value):
            if not part.ident or part.device is Device.HOST:
                continue
            written = run.state.written.get(part.ident)
            if written is not None:
                _ordered(run, node, part, written, operation, library=library, overwrites=False)
            _keep_reader(run, node, part, operation, library)


def writes(
    run: Run,
    node: ast.AST,
    value: Value,
    operation: Operation,
    library: str,
    *,
    new: bool,
    allocates: bool = False,
) -> None:
    """Device work writes this memory: has everything else that uses it been waited for?"""
    state = run.state
    if not value.ident or value.device is Device.HOST:
        return
    written = state.written.get(value.ident)
    if written is not None:
        _ordered(run, node, value, written, operation, library=library, overwrites=False)
    for reader in state.readers.pop(value.ident, ()):
        _ordered(run, node, value, reader, operation, library=library, overwrites=True)
    made_on = operation.stream if new or written is None else written.made_on
    if new:
        _reuses_lent(run, operation)
    place = run.order
    state.written[value.ident] = Written(
        operation, run.span(node), library, place, made_on, allocates
    )


def _ordered(
    run: Run,
    node: ast.AST,
    value: Value,
    first: Written,
    operation: Operation,
    *,
    library: str,
    overwrites: bool,
) -> None:
    """Report the two uses unless the first has ended when the second starts."""
    stream, other = operation.stream, first.operation.stream
    if run.state.order.before(first.operation, stream):
        if not overwrites:
            _lend(run, node, value, first, operation)
        return
    legacy = _legacy_ordered(run, other, stream)
    if first.allocates and legacy:
        return  # nothing ran there that could overlap
    side = other if stream == DEFAULT else stream
    entered = run.entered.get(side)
    event = CrossStream(
        run.place(node),
        value,
        producer_span=first.span,
        producer=other,
        consumer=stream,
        ordered_by_default=legacy,
        sure=_sure(value, first, operation),
        overwrites=overwrites,
        context=entered[1] if entered is not None else None,
        stream=entered[0] if entered is not None else None,
        library=library,
        producer_library=first.library,
    )
    _report(run, event, first.order)
    # Once said is enough: from here on the two count as ordered.
    run.state.order.stream_waits(stream, other)


def _sure(value: Value, first: Written, operation: Operation) -> Confidence:
    streams = (first.operation.stream, operation.stream)
    both = _sure_of(streams[0]).weaker(_sure_of(streams[1]))
    if DEFAULT not in streams and any(stream.startswith(MADE) for stream in streams):
        return Confidence.POSSIBLE
    # Fresh memory may still be in use by work of before, but no kernel has filled it.
    return Confidence.POSSIBLE if first.allocates else value.sure.weaker(both)


def _sure_of(stream: str) -> Confidence:
    if stream.startswith(MAYBE):
        return Confidence.POSSIBLE
    return Confidence.LIKELY if stream.startswith(GIVEN) else Confidence.CERTAIN


def _keep_reader(run: Run, node: ast.AST, value: Value, operation: Operation, library: str) -> None:
    readers = run.state.readers.get(value.ident, ())
    if len(readers) < _READERS:
        others = tuple(r for r in readers if r.operation.stream != operation.stream)
        mine = Written(operation, run.span(node), library, run.order)
        run.state.readers[value.ident] = (*others, mine)


_READERS = 4


def _legacy_ordered(run: Run, one: str, other: str) -> bool:
    """Whether the legacy default stream orders the two: one of them is it, the other blocking."""
    if DEFAULT not in (one, other):
        return False
    return (one or other) in run.blocking_streams


def _lend(run: Run, node: ast.AST, value: Value, made: Written, operation: Operation) -> None:
    """Memory that belongs to one stream is used on another, which the allocator is not told."""
    state = run.state
    owner = made.made_on
    if not owner or owner == operation.stream or value.ident in state.told:
        return
    if state.order.done(made.operation):
        return
    event = Unrecorded(
        run.place(node),
        value,
        producer_span=made.span,
        producer=owner,
        consumer=operation.stream,
        sure=value.sure.weaker(_sure_of(owner)).weaker(_sure_of(operation.stream)),
    )
    state.lent[value.ident] = Lent(operation, event)


def _reuses_lent(run: Run, operation: Operation) -> None:
    """A new allocation on a stream may get memory that another stream still reads."""
    lent = run.state.lent
    for ident, loan in list(lent.items()):
        if loan.event.producer != operation.stream:
            continue
        del lent[ident]
        if not run.state.order.before(loan.operation, operation.stream):
            _report(run, loan.event, run.order)


def host_reads(run: Run, value: Value, node: ast.AST) -> None:
    """The host reads the data of `value`: is its copy from the device finished?"""
    state = run.state
    if not state.to_host:
        return
    for part in parts(value):
        unfinished = state.to_host.get(part.ident) if part.ident else None
        if unfinished is None or part.device is Device.GPU:
            continue
        del state.to_host[part.ident]
        if not state.order.done(unfinished.operation):
            event = HostRead(run.place(node), part, unfinished.copy, unfinished.sure)
            _report(run, event, unfinished.copy.place.order)


def handed_out(run: Run, value: Value, node: ast.AST, *, read: bool = False) -> None:
    """A value leaves the code that is followed: whoever gets a host array reads it.

    A tensor may be handed on with an event to wait for. A view of it in the class of plain host
    arrays has no such protocol. With `read` the call may read what it gets, and nothing in sight
    tells when the copy ends.
    """
    plain = run.facts.names.get("host_array_class", ("",))[0]
    for part in parts(value):
        unfinished = run.state.to_host.get(part.ident) if part.ident else None
        if unfinished is None:
            continue
        if part.type == plain != unfinished.copy.result.type:
            host_reads(run, part, node)
        elif read and unfinished.copy.destination is None and not run.state.recorded:
            run.state.to_host[part.ident] = replace(unfinished, sure=Confidence.POSSIBLE)
            host_reads(run, part, node)


def host_writes(run: Run, value: Value, node: ast.AST) -> None:
    """The host overwrites the memory of `value`: does a copy to the device still read it?"""
    unfinished = run.state.to_device.get(value.ident) if value.ident else None
    if unfinished is None or value.device is Device.GPU:
        return
    del run.state.to_device[value.ident]
    if run.state.order.done(unfinished.operation):
        return
    event = HostWrite(run.place(node), value, unfinished.copy, unfinished.sure, run.called_again)
    if not run.called_again:
        _report(run, event, unfinished.copy.place.order)
    elif run.learning == 0:
        run.events.append(event)


def _report(run: Run, event: CrossStream | HostRead | HostWrite | Unrecorded, since: int) -> None:
    """Record it; inside a called function only what concerns its caller, at the call."""
    site: Place | None = run.site
    if run.recording:
        run.events.append(event)
    elif site is not None and run.learning == run.site_learning and since < site.order:
        run.events.append(replace(event, place=site))
