"""Device work: what is enqueued where, in which order, and who touches what too early."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from analyzers.dryrun.run import Run
from analyzers.dryrun.state import Work, Written
from analyzers.dryrun.streams import DEFAULT
from analyzers.dryrun.values import MISSING, NUMBER, Device, Kind, Value
from analyzers.finding import Confidence
from analyzers.timeline import Call, Copy, CrossStream, HostRead, HostWrite, Reason


def enqueue(
    run: Run,
    node: ast.AST,
    reads: Iterable[Value],
    result: Value,
    call: Call | None = None,
    stream: str | None = None,
    library: str = "",
) -> None:
    """Device work that reads some values and writes `result`, on a stream (default: current)."""
    state = run.state
    sure = result.sure if result.device is Device.GPU else Confidence.POSSIBLE
    state.work = Work(run.tick(), call, sure)
    run.mark_work()
    if not run.tracks_streams:
        return
    name = run.stream_name if stream is None else stream
    if name != DEFAULT:
        state.side_work = True
    operation = state.order.enqueue(name)
    for value in (*reads, result):
        for part in parts(value):
            _used_on(run, node, part, name, library)
    if result.ident:
        state.written[result.ident] = Written(operation, run.span(node), library)


def _used_on(run: Run, node: ast.AST, value: Value, stream: str, library: str) -> None:
    written = run.state.written.get(value.ident) if value.ident else None
    if written is None or run.state.order.before(written.operation, stream):
        return
    other = written.operation.stream
    run.emit(
        CrossStream(
            run.place(node),
            value,
            producer_span=written.span,
            producer=other,
            consumer=stream,
            ordered_by_default=_legacy_ordered(run, other, stream),
            library=library or written.library,
        )
    )
    # Once said is enough: from here on the two count as ordered.
    run.state.order.stream_waits(stream, other)


def _legacy_ordered(run: Run, one: str, other: str) -> bool:
    """Whether the legacy default stream orders the two: one of them is it, the other blocking."""
    if DEFAULT not in (one, other):
        return False
    return (one or other) in run.blocking_streams


def parts(value: Value) -> Iterator[Value]:
    """The value itself, or the tensors inside a sequence or mapping."""
    if value.kind in (Kind.SEQUENCE, Kind.MAPPING):
        if value.items is not None:
            for item in value.items:
                yield from parts(item)
        elif value.element is not None and value.element.kind is not value.kind:
            yield value.element
    else:
        yield value


def host_reads(run: Run, value: Value, node: ast.AST) -> None:
    """The host reads the data of `value`: is its copy from the device finished?"""
    state = run.state
    if not state.to_host:
        return
    for part in parts(value):
        unfinished = state.to_host.get(part.ident) if part.ident else None
        if unfinished is None:
            continue
        del state.to_host[part.ident]
        if not state.order.done(unfinished.operation):
            run.emit(HostRead(run.place(node), part, unfinished.copy, unfinished.sure))


def host_writes(run: Run, value: Value, node: ast.AST) -> None:
    """The host overwrites the memory of `value`: does a copy to the device still read it?"""
    unfinished = run.state.to_device.get(value.ident) if value.ident else None
    if unfinished is None or value.device is Device.GPU:
        return
    del run.state.to_device[value.ident]
    if not run.state.order.done(unfinished.operation):
        run.emit(HostWrite(run.place(node), value, unfinished.copy, unfinished.sure))


def elementwise(run: Run, node: ast.AST, operands: tuple[Value, ...]) -> Value:
    """The result of an operator over tensors (and numbers)."""
    tensors = [o for o in operands if o.kind is Kind.TENSOR]
    if any(_computes_on_host(run, tensor, node) for tensor in tensors):
        return NUMBER
    device, sure = device_of_inputs(operands)
    first = next((t for t in tensors if t.device is device), tensors[0])
    result = replace(
        first,
        device=device,
        sure=sure,
        ident=run.new_ident(),
        scalar=all(t.scalar for t in tensors),
        graph=run.state.grad and any(t.graph for t in tensors),
        dtype=first.dtype if all(t.dtype == first.dtype for t in tensors) else "",
        pinned=None,
        fresh=False,
        filled="",
        strided=False,
        homemade=device is Device.HOST and all(t.homemade for t in tensors),
        fetched=fetched_from(tensors) if device is not Device.GPU else None,
        constant=MISSING,
        ref=None,
        made_by=None,
    )
    for tensor in tensors:
        if tensor.device is Device.HOST:
            host_reads(run, tensor, node)
    if device is Device.GPU:
        enqueue(run, node, tensors, result)
    return result


def _computes_on_host(run: Run, value: Value, node: ast.AST) -> bool:
    """An array whose class has no arithmetic: what takes part is one element, fetched."""
    if not value.on_gpu or f"{value.type}.__getitem__" not in run.facts.table:
        return False
    from analyzers.dryrun.waits import wait

    wait(run, Reason.ELEMENT, value, node)
    return True


def fetched_from(operands: Iterable[Value]) -> Copy | None:
    """The copy that brought the data of one of the operands to the host."""
    return next((p.fetched for o in operands for p in parts(o) if p.fetched is not None), None)


def device_of_inputs(operands: Iterable[Value]) -> tuple[Device, Confidence]:
    """Where the result of an operation over these operands lives.

    One operand on the device puts the result there; a host result needs all operands known.
    """
    best: Value | None = None
    unknown = own = False
    for operand in operands:
        for part in parts(operand):
            if part.on_gpu:
                if best is None or part.sure.rank < best.sure.rank:
                    best = part
            elif part.device is Device.UNKNOWN and part.kind in (Kind.TENSOR, Kind.UNKNOWN):
                unknown = True
            elif part.homemade and not part.scalar:
                own = True
    if best is not None:
        return Device.GPU, best.sure
    if own and unknown:
        # A host tensor with dimensions takes no operand from the device: what is not known is
        # most likely a number.
        return Device.HOST, Confidence.POSSIBLE
    return (Device.UNKNOWN if unknown else Device.HOST), Confidence.LIKELY
