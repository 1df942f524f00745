"""What calls do beside giving a value: streams, events, autograd, clocks, containers."""

from __future__ import annotations

import ast
from collections.abc import Callable

from analyzers.dryrun import accumulate, iteration, launches, moves, ordering, sidework, waits
from analyzers.dryrun.contexts import context
from analyzers.dryrun.parameters import tensor
from analyzers.dryrun.run import Run
from analyzers.dryrun.syntax import dotted
from analyzers.dryrun.values import NONE, UNKNOWN, Device, Kind, Value, element_of, join
from analyzers.dryrun.work import enqueue, parts
from analyzers.finding import Confidence
from analyzers.records import replace
from analyzers.timeline import Call

# Effects whose call does not read the data of its operands.
KEEPS_ALIVE = frozenset(
    {"append", "record_stream", "event_record", "stream_record", "wait_event", "clock", "copy_into"}
)


Effect = Callable[[Run, ast.Call, Call, Value], Value | None]


def effect(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """Carry out the effect of a call; a value when it changes what the call gives."""
    if call.fact.kind == "stream":  # its effect is that of a with-statement over the instance
        return ordering.new_stream(run, call, result)
    handler = _EFFECTS.get(call.fact.effect)
    return handler(run, node, call, result) if handler is not None else None


def _first(call: Call) -> Value:
    return call.arguments[0].value if call.arguments else UNKNOWN


def _receiver_name(node: ast.Call) -> str:
    return dotted(node.func.value) if isinstance(node.func, ast.Attribute) else ""


def _context(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    # One call may be a context and a decorator; as a decorator roles.py reads its type.
    first = _first(call)
    if call.fact.effect == "no_grad" and first.kind is Kind.FUNCTION:
        return first
    if (
        call.fact.effect in ("no_grad", "grad_on")
        and first.constant in (True, False)
        and call.arguments
    ):
        recording = first.constant if call.fact.effect == "grad_on" else not first.constant
        return context("grad_on" if recording else "no_grad", first)
    return context(call.fact.effect, first)


def _clock(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    return waits.reading(run, node)


def _append(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    name = _receiver_name(node)
    value = call.arguments[-1].value if call.arguments else UNKNOWN
    if call.method == "extend":
        value = element_of(value)
    if run.made_aside and "." in name:
        sidework.kept(run, value, node)
    if not name:
        accumulate.kept(run, node, value)  # history["loss"].append(…)
    if name and node.args:
        accumulate.appended(run, name, value, node.args[-1], node)
        before = (
            run.lookup(name)
            if "." not in name
            else run.state.names.get(name, call.receiver or UNKNOWN)
        )
        element = before.element if before.items in (None, ()) else element_of(before)
        joined = value if element is None else join(element, value)
        joined = run.state.collected(joined, value, element)
        run.bind(name, Value(Kind.SEQUENCE, type=before.type, element=replace(joined, fresh=False)))
    return NONE


def _added_into(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    accumulate.added_into(run, _first(call), node)


def _round_down(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """`int(n / b)` is `n // b`."""
    derived = _first(call).ref
    if getattr(derived, "operator", "") == "/":
        return replace(result, ref=replace(derived, operator="//"))
    return None


def _backward(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    loss = call.receiver if call.receiver is not None else _first(call)
    target = loss if loss.device is Device.GPU else run.loss_value()
    enqueue(run, node, (), replace(target, ident=0), call)
    return NONE


def _optimizer_step(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    enqueue(run, node, (), replace(run.loss_value(), ident=0), call)
    return None


def _mode(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    first = _first(call)
    off = call.fact.effect == "eval_mode" or first.constant is False
    run.state.evaluating = off
    return call.receiver


def _copy_into(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """`destination.copy_(source, non_blocking=…)`, and functions that are given both."""
    destination, source = moves.ends(call)
    moves.copied_into(run, node, call, destination, source)
    name = _receiver_name(node)
    if destination is call.receiver and destination.fresh and name:
        run.bind(name, replace(destination, fresh=False))
    return replace(destination, fresh=False)


def _handoff(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    """Another library takes over: what it does to the order is not known, so believe it."""
    for argument in call.arguments:
        for part in parts(argument.value):
            run.state.to_host.pop(part.ident, None)
            run.state.to_device.pop(part.ident, None)
    run.state.order.host_waits()


def _kernel_decorator(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    return Value(Kind.KERNEL, ref=call.name)


def _device_module(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    """The module of whichever device there is: code for a GPU gets that of the GPU."""
    return Value(Kind.LIBRARY, ref=call.fact.is_a)


def _parameter(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """A parameter of a network lives where the network is moved to later."""
    if result.kind is not Kind.TENSOR or result.device is not Device.HOST:
        return None
    return replace(result, device=Device.UNKNOWN, homemade=False, fresh=False)


def _set_stream(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    stream = _first(call)
    if stream.kind is Kind.STREAM:
        run.streams = (*run.streams, stream)


def _set_device(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    run.guarded_device = True


def _collective(run: Run, node: ast.Call, call: Call, result: Value) -> Value | None:
    """What the processes of a training exchange by this call is on their devices."""
    sent = _first(call)
    if call.fact.device != "gpu" or sent.on_host or sent.kind not in (Kind.TENSOR, Kind.UNKNOWN):
        return None
    if sent.on_gpu and sent.sure is not Confidence.POSSIBLE:
        return replace(sent, scalar=False)
    received = tensor(run, Confidence.LIKELY)
    return replace(received, device=Device.GPU, graph=sent.graph, dtype=sent.dtype)


_EFFECTS: dict[str, Effect] = {
    "round_down": _round_down,
    "add_into": _added_into,
    "append": _append,
    "autocast": _context,
    "backward": _backward,
    "bind_stream": ordering.bind_stream,
    "capture": _context,
    "clock": _clock,
    "collective": _collective,
    "copy_into": _copy_into,
    "current_stream": ordering.current_stream,
    "default_stream": ordering.current_stream,
    "device_guard": _context,
    "device_module": _device_module,
    "dimension": iteration.dimension,
    "elapsed": ordering.elapsed,
    "enumerate": iteration.enumerated,
    "eval_mode": _mode,
    "event_record": ordering.record,
    "event_wait": ordering.wait_event,
    "extremum": iteration.extremum,
    "forall": launches.over_elements,
    "grad_on": _context,
    "handoff": _handoff,
    "kernel_decorator": _kernel_decorator,
    "map": iteration.mapped,
    "no_grad": _context,
    "optimizer_step": _optimizer_step,
    "parameter": _parameter,
    "profiler": _context,
    "process_group": _handoff,
    "progress": iteration.progress,
    "range": iteration.counted,
    "record_stream": ordering.told_allocator,
    "set_device": _set_device,
    "set_stream": _set_stream,
    "stream_context": _context,
    "stream_record": ordering.stream_record,
    "total": iteration.totalled,
    "train_mode": _mode,
    "wait_event": ordering.wait_event,
    "wait_stream": ordering.wait_stream,
    "zip": iteration.zipped,
}
