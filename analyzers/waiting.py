"""Which rule speaks about which wait of the host, and how sure it may be.

Every implicit wait belongs to exactly one rule, so that one place never gets two remarks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzers.dryrun.values import Device, Kind, Value
from analyzers.finding import Confidence, Finding, Fix, Related, Severity, Span
from analyzers.judging import (
    device_confidence,
    measured,
    repeated_confidence,
    shown,
    when,
)
from analyzers.off_paths import is_test_or_benchmark
from analyzers.places import Heat, Loop, LoopKind, Place
from analyzers.timeline import Call, Reason, Timeline, Wait

_BY_REASON = {
    Reason.CONDITION: "GPU107",
    Reason.ELEMENT: "GPU114",
    Reason.FORMAT: "GPU108",
    Reason.GATHER: "GPU111",
    Reason.INDEX: "GPU105",
    Reason.ITERATE: "GPU105",
    Reason.SCALAR: "GPU105",
    Reason.STORE: "GPU112",
}
_ON_HOST_ARRAYS = ("cupy.",)  # libraries whose conversions have a rule of their own
_HINTS = frozenset({"output_size", "num_classes"})


_AS_NUMBERS = frozenset({"torch.Tensor.tolist"})
_WORTH_A_GUESS = frozenset({Reason.SCALAR, Reason.ITERATE, Reason.INDEX, Reason.SHAPE})
_ONCE_IS_FINE = frozenset({Reason.COPY, Reason.FORMAT, Reason.GATHER, Reason.STORE})


def measures(timeline: Timeline) -> bool:
    """Whether the file is a benchmark or a test: waits belong there."""
    return is_test_or_benchmark(timeline.source.path)


def rule_for(wait: Wait) -> str:
    """The code of the rule a wait belongs to; empty for those that no rule here speaks about."""
    if wait.explicit:
        return "GPU101"
    if wait.reason is Reason.UPLOAD:
        return "GPU116" if _uploads_numbers(wait) else ""
    if wait.reason is Reason.SHAPE:
        hinted = wait.call is not None and not _HINTS.isdisjoint(wait.call.fact.waits_unless)
        return "GPU110" if hinted else "GPU109"
    if wait.reason is Reason.COPY and not _reads_all(wait):
        return ""
    foreign = wait.value.type.startswith(_ON_HOST_ARRAYS)
    if foreign and wait.reason in (Reason.SCALAR, Reason.CONDITION, Reason.COPY):
        return "GPU117"
    return _BY_REASON.get(wait.reason, "GPU105")


def _uploads_numbers(wait: Wait) -> bool:
    """Numbers written in Python, not arrays, are made into a device tensor."""
    call = wait.call
    if call is None or not call.fact.upload or call.fact.moves or not call.arguments:
        return False
    if wait.value.type.startswith(_ON_HOST_ARRAYS):
        return False  # staged in page-locked memory: nothing waits
    given = call.arguments[0].value
    return given.kind in (Kind.NUMBER, Kind.SEQUENCE) and given.device is not Device.GPU


def _reads_all(wait: Wait) -> bool:
    """The host asks for the numbers; a cast that moves has a rule of its own (GPU115)."""
    return wait.call is not None and wait.call.method != "type"


def implicit(timeline: Timeline, code: str) -> Iterator[tuple[Wait, Confidence]]:
    """The implicit waits that belong to a rule and are worth a remark, one for each place."""
    if measures(timeline):
        return
    outer: frozenset[Span] | None = None
    seen: set[tuple[int, int | str]] = set()
    for wait in timeline.of(Wait):
        if wait.explicit or rule_for(wait) != code:
            continue
        span = wait.place.span
        key = (span.line, span.column)
        said = (wait.place.statement.line, timeline.text(span))
        sure = confidence(wait)
        if sure is None or not seen.isdisjoint((key, said)):
            continue
        seen |= {key, said}
        loops = busy_loops(wait)
        if loops and outer is None:
            outer = outer_loops(timeline)
        if loops and outer is not None and loops[-1].span in outer:
            sure = Confidence.POSSIBLE  # beside the inner loop it is as rare as an epoch's end
        yield wait, sure


def busy_loops(wait: Wait) -> list[Loop]:
    """The loops around a wait that have more than a handful of turns."""
    few = (LoopKind.FEW, LoopKind.EPOCHS)
    return [loop for loop in wait.place.loops if loop.kind not in few]


def outer_loops(timeline: Timeline) -> frozenset[Span]:
    """The loops that hold another loop over steps or data which feeds the device."""
    found: set[Span] = set()
    known: set[int] = set()
    for event in timeline.events:
        loops = event.place.loops
        if len(loops) < 2 or id(loops) in known:
            continue
        known.add(id(loops))
        steps = (LoopKind.DATA, LoopKind.STEPS)
        inner = [n for n, x in enumerate(loops) if x.runs_work and x.kind in steps]
        inner = [n for n in inner if not loops[n].comprehension]
        found.update(loop.span for loop in loops[: max(inner, default=0)])
    return frozenset(found)


def confidence(wait: Wait) -> Confidence | None:
    """How sure it is that an implicit wait costs something; None for silence."""
    on_device, often = device_confidence(wait.value), repeated_confidence(wait.place)
    if on_device is Confidence.POSSIBLE and _in_a_step(wait):
        on_device = Confidence.LIKELY
    if on_device is None or often is None:
        return None
    if wait.reason is Reason.COPY and wait.value.scalar and not measured(wait.place):
        return on_device.weaker(often).weaker(_worth(wait))  # one number, however it is fetched
    if wait.place.heat is Heat.UNKNOWN and on_device is Confidence.POSSIBLE:
        # Neither where the value lives nor how often this runs is known.
        worth = wait.reason in _WORTH_A_GUESS or _asks_all(wait)
        return Confidence.POSSIBLE if worth else None
    if wait.place.heat is Heat.UNKNOWN and wait.reason in _ONCE_IS_FINE:
        return None
    sure = on_device.weaker(often).weaker(_worth(wait))
    return Confidence.POSSIBLE if measured(wait.place) else sure  # a clock may want the wait


_AWAY = re.compile(r"offload|to_cpu|to_host|checkpoint|export|dump|(^|_)save", re.IGNORECASE)


def brings_away(place: Place) -> bool:
    """Whether bringing data to the host is what the function is for."""
    return place.function is not None and _AWAY.search(place.function.name) is not None


def generates(place: Place) -> bool:
    """Whether whole texts or pictures are generated there: beside that, reading one is nothing."""
    return place.function is not None and "generate" in place.function.calls


def told_to_others(timeline: Timeline, value: Value) -> bool:
    """Whether the tensor is a message: a collective sends it to other processes."""
    return any(
        part.value.ident == value.ident
        for call in timeline.calls("collective")
        for part in call.arguments
        if value.ident
    )


def _asks_all(wait: Wait) -> bool:
    """`if mask.any()`: what only arrays are asked, over all of their elements."""
    made = wait.value.made_by
    return wait.reason is Reason.CONDITION and isinstance(made, Call) and made.fact.reduces


def _in_a_step(wait: Wait) -> bool:
    """In a network's own step, what is not known to be host data is on the device.

    Outside of loops that is believed of what asks for a tensor's one number by name.
    """
    function = wait.place.function
    if function is None or function.roles.isdisjoint({"per_step", "in_step"}):
        return False
    if not wait.place.in_loop:
        return wait.reason is Reason.SCALAR and wait.call is not None and wait.call.method == "item"
    tested = wait.reason is Reason.CONDITION and wait.call is None  # min() takes anything
    return wait.reason in _WORTH_A_GUESS or tested


def _worth(wait: Wait) -> Confidence:
    """How sure it is that the author would want to hear of a wait at such a place."""
    place = wait.place
    loops = busy_loops(wait)
    if place.function is not None and "sleep" in place.function.calls:
        return Confidence.POSSIBLE  # it polls: nothing is in a hurry there
    if place.function is not None and place.function.name == "__getitem__":
        return Confidence.POSSIBLE  # whoever asks for that part may have to
    if wait.reason is Reason.COPY and (brings_away(place) or generates(place)):
        return Confidence.POSSIBLE
    made = wait.value.made_by
    if isinstance(made, Call) and made.fact.upload and made.place.in_loop:
        return Confidence.POSSIBLE  # a number of the host's comes back: a message, no result
    roles = place.function.roles if place.function is not None else frozenset[str]()
    if not loops:
        # Once per step as far as the class says, or a loop of this file says; a name says less.
        per_step = place.heat is Heat.HOT or bool(roles & {"per_step", "in_step", "hot"})
        once_is_little = wait.reason in (Reason.COPY, Reason.FORMAT) or not per_step
        return Confidence.POSSIBLE if once_is_little else Confidence.LIKELY
    if wait.reason in (Reason.CONDITION, Reason.FORMAT) and not any(x.runs_work for x in loops):
        return Confidence.POSSIBLE
    if wait.reason is Reason.FORMAT and all(x.kind is LoopKind.ITEMS for x in loops):
        return Confidence.POSSIBLE  # one line for each file or result, beside longer work
    if "stop_test" in place.contexts and loops[-1].kind is LoopKind.STEPS:
        return Confidence.POSSIBLE  # it iterates until something holds: the answer is needed
    if wait.reason is Reason.COPY and not _as_numbers(wait):
        return Confidence.POSSIBLE  # results must leave the device somewhere
    return Confidence.CERTAIN


def _as_numbers(wait: Wait) -> bool:
    """Whether a copy makes Python numbers, or sits in the innermost of several loops."""
    loops = busy_loops(wait)
    nested = len(loops) > 2 and loops[-1].kind is LoopKind.ITEMS
    return nested or (wait.call is not None and wait.call.fact.name in _AS_NUMBERS)


def remark(
    timeline: Timeline,
    wait: Wait,
    sure: Confidence,
    message: str,
    *,
    severity: Severity = Severity.WARNING,
    fix: Fix | None = None,
    related: tuple[Related, ...] = (),
) -> Finding:
    """The finding for a wait; `message` may use {what} and {when}."""
    what = shown(timeline.text(wait.place.span))
    text = message.format(what=what, when=when(wait.place))
    return Finding(wait.place.span, text, sure, severity, related=related, fix=fix)


def fetched_together(timeline: Timeline) -> list[list[tuple[Wait, Confidence]]]:
    """Scalars that are fetched one by one in one statement or in statements that follow closely."""
    groups: list[list[tuple[Wait, Confidence]]] = []
    for wait, sure in _scalars(timeline):
        last = groups[-1][-1][0].place if groups else None
        place = wait.place
        if last is not None and last.block == place.block and place.index - last.index in (0, 1):
            groups[-1].append((wait, sure))
        else:
            groups.append([(wait, sure)])
    return [g for g in groups if len({_subject(timeline, wait) for wait, _ in g}) > 1]


def _scalars(timeline: Timeline) -> Iterator[tuple[Wait, Confidence]]:
    read: frozenset[Span] | None = None
    for code in ("GPU105", "GPU117"):
        for wait, sure in implicit(timeline, code):
            if wait.call is None or any(loop.comprehension for loop in wait.place.loops):
                continue
            if wait.reason is Reason.COPY:
                read = _read_at_once(timeline) if read is None else read
                if wait.call.span in read:
                    yield wait, sure
            elif wait.reason is Reason.SCALAR:
                yield wait, sure


def _read_at_once(timeline: Timeline) -> frozenset[Span]:
    """What a number is made of where it stands, as in `x.cpu().item()` and `float(x.cpu())`."""
    scalars = [call for call in timeline.calls() if call.fact.waits == "scalar"]
    received = {call.receiver_span for call in scalars if call.receiver_span is not None}
    return frozenset(received | {call.arguments[0].span for call in scalars if call.arguments})


def _subject(timeline: Timeline, wait: Wait) -> str:
    """The text of the tensor that is fetched."""
    call = wait.call
    if call is None:
        return ""
    if call.receiver_span is not None:
        return timeline.text(call.receiver_span)
    return timeline.text(call.arguments[0].span) if call.arguments else ""
