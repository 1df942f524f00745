"""What is made on a side stream and then kept, and what a side stream takes from outside.

The clock of `streams.py` orders two uses that are both in sight. Much of a race lies between two
calls: a field that is filled aside and read later, a buffer that somebody else still reads.
"""

from __future__ import annotations

import ast

from analyzers.aside import KeptAside, Refilled, ToldOwner
from analyzers.dryrun.hazards import GIVEN, MAYBE, handed_out, parts
from analyzers.dryrun.run import Run
from analyzers.dryrun.state import Made
from analyzers.dryrun.streams import ANY, DEFAULT
from analyzers.dryrun.values import Device, Kind, Value
from analyzers.finding import Confidence
from analyzers.records import replace
from analyzers.timeline import Call


def noted(run: Run, node: ast.Call, call: Call, result: Value) -> None:
    """A known call inside of a stream's context: what it makes there, what it changes there."""
    stream = run.stream_name
    if stream in (DEFAULT, ANY):
        return
    if call.name.startswith(run.facts.names.get("collectives", ())):
        given = call.argument("tensor") or next(iter(call.arguments), None)
        if given is not None:
            _changed(run, node, call, given.value, stream)
    elif result.kind is Kind.TENSOR and call.receiver is not None and call.fact.inplace:
        if result.device is Device.GPU:
            _changed(run, node, call, call.receiver, stream)
    elif result.kind is Kind.TENSOR and result.ident and not call.fact.view:
        own = call.receiver.ident if call.receiver is not None else 0
        if result.ident != own and result.device is not Device.HOST:
            waited = _has_waited(run, stream)
            run.made_aside[result.ident] = Made(stream, call.span, _sure(stream), waited)


def _changed(run: Run, node: ast.Call, call: Call, target: Value, stream: str) -> None:
    """Memory from before is overwritten on a side stream that has waited for nobody."""
    if target.kind not in (Kind.TENSOR, Kind.UNKNOWN) or target.device is Device.HOST:
        return
    written, context = run.state.written.get(target.ident), run.entered.get(stream)
    if target.ident in run.made_aside or target.fresh or context is None:
        return
    if (written is not None and written.span != call.span) or _has_waited(run, stream):
        return  # for the clock to judge
    sure = target.sure.weaker(_sure(stream)) if target.on_gpu else Confidence.POSSIBLE
    if not run.recording and (run.site is None or run.site.stream != stream):
        return  # the called function enters the stream itself: said there
    _emit(run, Refilled(run.place(node), target, context[1], context[0], sure))


def leaves(run: Run, value: Value, node: ast.AST) -> None:
    """The function gives a value away."""
    handed_out(run, value, node)
    kept(run, value, node, returned=True)


def kept(run: Run, value: Value, node: ast.AST, *, returned: bool = False) -> None:
    """A value outlives the statement: a field, a container or the caller has it."""
    if not run.made_aside or not run.recording:
        return
    for part in parts(value):
        made = run.made_aside.get(part.ident)
        context = run.entered.get(made.stream) if made is not None else None
        if made is None or context is None or part.ident in run.state.told:
            continue
        sure = part.sure.weaker(made.sure) if part.on_gpu else Confidence.POSSIBLE
        run.emit(
            KeptAside(
                run.place(node),
                part,
                made.span,
                context[1],
                context[0],
                sure,
                made.waited,
                returned,
            )
        )


def told(run: Run, node: ast.Call, call: Call, value: Value, stream: str) -> None:
    """`record_stream` names a stream: the allocator knows the one that owns the memory."""
    made = run.made_aside.get(value.ident)
    if made is not None and made.stream == stream and not stream.startswith((MAYBE, GIVEN)):
        _emit(run, ToldOwner(run.place(node), value, made.span))


def _has_waited(run: Run, stream: str) -> bool:
    state = run.state
    return bool((stream, DEFAULT) in state.order.seen or state.order.host or state.waited)


def _sure(stream: str) -> Confidence:
    return Confidence.POSSIBLE if stream.startswith((MAYBE, GIVEN)) else Confidence.LIKELY


def _emit(run: Run, event: Refilled | ToldOwner) -> None:
    """Record it; what a called function does counts at the call."""
    if run.recording:
        run.events.append(event)
    elif run.site is not None and run.learning == run.site_learning:
        run.events.append(replace(event, place=run.site))
