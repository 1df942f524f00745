"""Device work: what is enqueued where, in which order, and who touches what too early."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from analyzers.dryrun import hazards as uses
from analyzers.dryrun.hazards import host_reads, host_writes, parts
from analyzers.dryrun.run import Run
from analyzers.dryrun.state import Work
from analyzers.dryrun.streams import DEFAULT
from analyzers.dryrun.values import HOST_KINDS, MISSING, NUMBER, Device, Kind, Value
from analyzers.finding import Confidence
from analyzers.records import replace
from analyzers.timeline import Call, Copy, Reason

__all__ = ["elementwise", "enqueue", "host_reads", "host_writes", "parts"]


def enqueue(
    run: Run,
    node: ast.AST,
    reads: Iterable[Value],
    result: Value,
    call: Call | None = None,
    *,
    stream: str | None = None,
) -> None:
    """Device work that reads some values and writes `result`, on a stream (default: current)."""
    state = run.state
    sure = result.sure if result.device is Device.GPU else Confidence.POSSIBLE
    state.work = Work(run.tick(), call, sure, run.loops)
    run.mark_work()
    if not (run.follows_order() if stream else run.tracks_streams):
        return
    library = library_of(run, call, result)
    name = run.stream_for(library) if stream is None else stream
    if name != DEFAULT:
        state.side_work = True
    operation = state.order.enqueue(name)
    uses.reads(run, node, reads, operation, library)
    fresh = call is not None and call.fact.fresh
    allocates = fresh and call is not None and call.fact.filled == "undefined"
    new = fresh or result.ident not in state.written
    uses.writes(run, node, result, operation, library, new=new, allocates=allocates)


def library_of(run: Run, call: Call | None, value: Value) -> str:
    """Whose work it is: that decides which current stream it goes to."""
    own = run.facts.names.get("own_streams", ())
    library = value.type.partition(".")[0]
    if library not in own and call is not None:
        library = call.fact.name.partition(".")[0]
    return library if library in own else ""


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
        gaps=False,
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
    for operand in operands:
        if operand.fetched is not None:
            return operand.fetched
        for part in parts(operand):
            if part.fetched is not None:
                return part.fetched
    return None


# Kinds that carry no array data: a name of a library (a dtype), a place, a text …
_NO_DATA = HOST_KINDS | {Kind.LIBRARY, Kind.PLACE, Kind.SEQUENCE, Kind.MAPPING, Kind.CLASS}


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
            elif part.device is Device.UNKNOWN and part.kind not in _NO_DATA:
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
