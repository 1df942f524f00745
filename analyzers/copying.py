"""What the rules about copies ask: is this memory pageable, what was made where, on which turn."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from analyzers.dryrun.results import dtype_name
from analyzers.dryrun.values import Device, Kind, Value
from analyzers.finding import Confidence, Span
from analyzers.places import Loop, LoopKind, Place
from analyzers.source import Source
from analyzers.timeline import Argument, Call, Copy, Direction, PerhapsSent, Timeline

_TURNS = (LoopKind.ITEMS, LoopKind.STEPS)
_SIZES = {
    "bool": 1, "int8": 1, "uint8": 1, "float16": 2, "bfloat16": 2, "int16": 2,
    "float32": 4, "int32": 4, "float64": 8, "int64": 8,
}  # fmt: skip
_OTHER_NAMES = {
    "bool_": "bool", "byte": "uint8", "char": "int8", "half": "float16", "short": "int16",
    "float": "float32", "single": "float32", "int": "int32", "double": "float64", "long": "int64",
}  # fmt: skip


def pageable(value: Value) -> Confidence | None:
    """How sure it is that a host array is not page-locked; None when it is, or is not known."""
    if value.kind is not Kind.TENSOR or value.device is not Device.HOST or value.pinned is True:
        return None
    if value.pinned is False:
        return value.sure
    made = value.made_by
    if not isinstance(made, Call) or made.fact.kind == "loader" or made.fact.pins == "always":
        return None
    if made.fact.view or made.fact.dtype == "argument":
        under = made.receiver if made.receiver is not None else first(made)
        return pageable(under) if under is not None and under.pinned is None else None
    return Confidence.LIKELY.weaker(value.sure) if made.fact.device == "host" else None


def copied_from(value: Value) -> Copy | None:
    """The copy that gave the whole of this host array; None if it is a part or something new."""
    copy, made = value.fetched, value.made_by
    while isinstance(made, Call) and isinstance(copy, Copy):
        if made is copy.call or made == copy.call:
            return copy
        if made.fact.graph != "cut" or not made.fact.view or made.receiver is None:
            return None
        made = made.receiver.made_by
    return None


def sent(timeline: Timeline) -> Iterator[Copy]:
    """The copies to the device, and the moves of host data that may be some."""
    yield from (c for c in timeline.of(Copy) if c.direction is Direction.TO_DEVICE)
    yield from timeline.of(PerhapsSent)


def first(call: Call) -> Value | None:
    """The value of the first argument."""
    return call.arguments[0].value if call.arguments else None


def moved_span(copy: Copy) -> Span | None:
    """The expression whose value is copied."""
    if copy.call.receiver_span is not None:
        return copy.call.receiver_span
    return copy.call.arguments[0].span if copy.call.arguments else None


def inside(inner: Span, outer: Span) -> bool:
    """Whether one piece of text lies within the other."""
    return (outer.line, outer.column) <= (inner.line, inner.column) and (
        inner.end_line,
        inner.end_column,
    ) <= (outer.end_line, outer.end_column)


def turn(place: Place) -> Loop | None:
    """The innermost loop over items or steps around a place."""
    return next((loop for loop in reversed(place.loops) if loop.kind in _TURNS), None)


def same_turn(a: Place, b: Place) -> bool:
    """Whether both places lie in the same innermost loop over items or steps."""
    one, other = turn(a), turn(b)
    return one is not None and other is not None and one.span == other.span


def size_of(dtype: str) -> int:
    """The bytes of one number of that type; 0 when the type is not known."""
    return _SIZES.get(plain(dtype), 0)


def plain(dtype: str) -> str:
    """One name for each type: "float" and "single" are "float32"."""
    return _OTHER_NAMES.get(dtype, dtype)


def module_name(source: Source, module: str) -> str:
    """What the file calls a module ("np"); empty when it does not import it at its top."""
    return next(_names_of(source, module), "")


def _names_of(source: Source, module: str) -> Iterator[str]:
    for statement in source.tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name == module:
                    yield alias.asname or alias.name


def _is_place(argument: Argument, text: str) -> bool:
    """Whether it names a device; what is not known may as well be a tensor."""
    if argument.keyword or argument.value.kind in (Kind.PLACE, Kind.TEXT, Kind.NUMBER):
        return True
    return text.lower().rstrip("\"')]").endswith(("device", "dev", "rank", "gpu"))


def device_keywords(timeline: Timeline, copy: Copy, factory: Call) -> list[tuple[str, str]] | None:
    """What to add to the factory's arguments so that it does what the move did."""
    arguments = copy.call.arguments
    found: list[tuple[str, str]] = []
    if copy.call.fact.moves == "gpu":
        device = next((timeline.text(a.span) for a in arguments if not a.keyword), '"cuda"')
        found.append(("device", device))
        return (
            found
            if all(a.name in ("device", "") or a.name == "non_blocking" for a in arguments)
            else None
        )
    for argument in arguments:
        text = timeline.text(argument.span)
        text = text.partition("=")[2].strip() if argument.keyword else text
        if argument.name == "non_blocking":
            continue
        written = argument.name == "dtype"
        if written or (dtype_name(argument.value) and argument.value.kind is Kind.LIBRARY):
            if factory.has("dtype"):
                return None
            found.append(("dtype", text))
        elif argument.name == "other" or argument.value.kind is Kind.TENSOR:
            if factory.has("dtype") or not text.replace(".", "").isidentifier():
                return None
            found += [("device", f"{text}.device"), ("dtype", f"{text}.dtype")]
        elif argument.name in ("device", "") and not argument.star and _is_place(argument, text):
            found.append(("device", text))
        else:
            return None
    return found
