"""What the rules about two streams share: which rule a crossing belongs to, words and fixes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzers.aside import KeptAside
from analyzers.dryrun.streams import DEFAULT
from analyzers.finding import Confidence, Finding, Fix, Related, Safety, Severity, Span
from analyzers.fixes import insert_before, replace_expression
from analyzers.judging import shown
from analyzers.timeline import Call, CrossStream, Timeline

_PATH = re.compile(r"[A-Za-z_][\w.]*\Z")
_ENTERS = re.compile(r"([A-Za-z_][\w.]*)\.[A-Za-z_]\w*\(\s*\Z")


def of_tensors(cross: CrossStream) -> bool:
    """Whether both uses follow the tensor library's current stream."""
    return not cross.library and not cross.producer_library


def foreign(cross: CrossStream) -> bool:
    """Whether two libraries meet that do not know each other's streams."""
    return cross.library != cross.producer_library


def confidence(cross: CrossStream) -> Confidence:
    """How sure it is that two streams meet and that nothing orders them."""
    function = cross.place.function
    if function is not None and "test" in function.roles:
        return Confidence.POSSIBLE
    return cross.sure.weaker(Confidence.LIKELY) if cross.overwrites else cross.sure


def side(timeline: Timeline, cross: CrossStream) -> str:
    """The side stream in words: its name where one is known."""
    return named(timeline, cross.stream) if cross.stream is not None else "a side stream"


def named(timeline: Timeline, stream: Span) -> str:
    """The stream that an expression gives, in words."""
    text = timeline.text(stream)
    return f"the stream `{text}`" if _PATH.match(text) else "a side stream"


def finding(
    timeline: Timeline, cross: CrossStream, message: str, severity: Severity, fix: Fix | None
) -> Finding:
    """The finding; `message` may use {what}, {line}, {side}, {uses} and {made}."""
    uses = "overwrites data" if cross.overwrites else "uses data"
    text = message.format(
        what=shown(timeline.text(cross.place.span)),
        line=cross.producer_span.line,
        side=side(timeline, cross),
        uses=uses,
        made="still reads" if cross.overwrites else "is still producing",
    )
    if confidence(cross) is Confidence.POSSIBLE:
        text = text.replace("so it works on", "so it may work on")
    verb = "read" if cross.overwrites else "made"
    related = Related(cross.producer_span, f"the data is {verb} here, on the other stream")
    return Finding(cross.place.span, text, confidence(cross), severity, related=(related,), fix=fix)


def side_waits_first(timeline: Timeline, cross: CrossStream) -> Fix | None:
    """Before the with-statement, the side stream waits for the current one."""
    names = _names(timeline, cross)
    if names is None or cross.context is None or cross.producer != DEFAULT:
        return None
    module, stream = names
    line = f"{stream}.wait_stream({module}.current_stream())"
    return _inserted(timeline, cross.context, line)


def current_waits_first(timeline: Timeline, cross: CrossStream) -> Fix | None:
    """Before the use, the current stream waits for the side stream."""
    names, function, statement = (
        _names(timeline, cross),
        cross.place.function,
        cross.place.statement,
    )
    if names is None or cross.context is None or cross.place.stream != DEFAULT:
        return None
    module, stream = names
    inside = function is None or _within(cross.context, function.span)
    if _within(cross.context, statement) or not (inside or stream.startswith("self.")):
        return None
    return _inserted(timeline, statement, f"{module}.current_stream().wait_stream({stream})")


def default_stream_waits(timeline: Timeline, *, joins: bool) -> Iterator[Finding]:
    """Waits that name the default stream, in a function that any stream may call.

    With `joins` those of the default stream for another one, else those of another one for it.
    """
    named = {call.span for call in timeline.calls("default_stream")}
    for call in timeline.calls("wait_stream") if named else ():
        place, argument = call.place, call.arguments[0].span if call.arguments else None
        default = call.receiver_span if joins else argument
        if default not in named or default is None or place.function is None or place.stream:
            continue
        if place.function.roles & {"test"} or "capture" in place.contexts:
            continue
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} names the default stream, whatever stream the "
            "caller is on. Where another one is current (a capture, a hook of autograd, a caller "
            "with a stream of its own), nothing is ordered. Name the current stream.",
            Confidence.LIKELY,
            Severity.WARNING,
            fix=_current_instead(timeline, default),
        )


def has_waited(timeline: Timeline, stream: Span) -> bool:
    """Whether the file lets that stream wait for anything, wherever it does."""
    return _about(timeline, stream, r"\b{0}\s*\.wait_(?:stream|event)\(") is not None


def is_joined(timeline: Timeline, stream: Span) -> bool:
    """Whether the file waits for that stream, or marks its work with an event, wherever it does."""
    return _about(timeline, stream, _JOINS) is not None


_JOINS = (
    r"(?:wait|sync|join|record)\w*\([^()]*\b{0}\b"
    r"|\b{0}\s*\.(?:synchronize|record_event|query)\("
    r"|\b{0}\)?\.(?:sync|wait)\w*\("
)


def joins_in(timeline: Timeline, stream: Span) -> Iterator[Call]:
    """The calls that let a stream wait for that one, by the name it has there."""
    name = _last(timeline, stream)
    for call in timeline.calls("wait_stream"):
        given = call.arguments[0].span if call.arguments else None
        if given is not None and _last(timeline, given) == name:
            yield call


def made_at(kept: KeptAside) -> Span:
    """Where to speak of a tensor that is kept: where it is made, if that is the same function."""
    function = kept.place.function
    return kept.made if function is None or _within(kept.made, function.span) else kept.place.span


def makes_the_next(kept: KeptAside, join: Call) -> bool:
    """Whether the function that waits also starts the next tensor: once for each use."""
    maker, user = kept.place.function, join.place.function
    return maker is not None and user is not None and maker.name in user.calls


def _about(timeline: Timeline, stream: Span, pattern: str) -> re.Match[str] | None:
    name = re.escape(_last(timeline, stream))
    return re.search(pattern.replace("{0}", name), timeline.source.text)


def _last(timeline: Timeline, stream: Span) -> str:
    return timeline.text(stream).rpartition(".")[2]


def _current_instead(timeline: Timeline, default: Span) -> Fix | None:
    text = timeline.text(default)
    edit = replace_expression(timeline.source, default, text.replace("default_", "current_", 1))
    if edit is None or "default_stream" not in text:
        return None
    return Fix("Name the current stream", (edit,), Safety.UNSAFE, _MEANT)


_MEANT = "Right unless the work that is meant is always enqueued on the default stream."


def _inserted(timeline: Timeline, statement: Span, line: str) -> Fix | None:
    edit = insert_before(timeline.source, statement, line)
    return Fix(f"Insert `{line}`", (edit,), Safety.SAFE) if edit is not None else None


def _names(timeline: Timeline, cross: CrossStream) -> tuple[str, str] | None:
    """The module of the streams and the side stream, as the file writes them."""
    if cross.stream is None or cross.context is None:
        return None
    stream = timeline.text(cross.stream)
    head = Span(cross.context.line, cross.context.column, cross.stream.line, cross.stream.column)
    enters = _ENTERS.search(timeline.text(head))
    return (enters[1], stream) if enters is not None and _PATH.match(stream) else None


def _within(inner: Span, outer: Span) -> bool:
    start, end = (inner.line, inner.column), (inner.end_line, inner.end_column)
    return (outer.line, outer.column) <= start and end <= (outer.end_line, outer.end_column)
