"""What the way of a host tensor to the device tells: made where, kept where, how often."""

from __future__ import annotations

from dataclasses import replace

from analyzers.call_edits import replace_expression, with_keywords
from analyzers.copying import device_keywords, first, moved_span
from analyzers.dryrun.values import Kind
from analyzers.finding import Confidence, Fix, Safety
from analyzers.judging import applies
from analyzers.places import Heat, Place
from analyzers.timeline import Call, Copy, Timeline


def once(copy: Copy) -> bool:
    """Set-up code; a place that only stands behind a loop may run as often as its function."""
    place = copy.place
    if place.heat is not Heat.COLD:
        return False
    function = place.function
    if function is None or place.guarded or "cold" in function.roles:
        return True
    return not (isinstance(copy.source.made_by, Call) and inline(copy, copy.source.made_by))


def left_alone(place: Place) -> bool:
    """Tests, references for the CPU, data sets, and places that hardly ever run."""
    if place.heat is not Heat.COLD:
        return not applies(place)
    return not applies(replace(place, heat=Heat.UNKNOWN))


def all_here(copy: Copy) -> bool:
    """Whether the chain starts in this function, with a factory of the device's own library."""
    value = copy.source
    if value.type != copy.result.type:
        return False  # NumPy has no device to name
    while isinstance(value.made_by, Call):
        made = value.made_by
        if made.place.function != copy.place.function or made.fact.upload:
            return False
        under = made.receiver if made.receiver is not None else first(made)
        if under is None or under.kind is not Kind.TENSOR:
            break
        if under.type != value.type:
            return False
        value = under
    return True


def made_in_constructor(copy: Copy, factory: Call) -> bool:
    """Made once in a constructor, moved in a method that runs per step."""
    made_in, moved_in = factory.place.function, copy.place.function
    if made_in is None or moved_in is None or made_in.class_name != moved_in.class_name:
        return False
    return made_in.name == "__init__" != moved_in.name and copy.place.repeated


def kept(timeline: Timeline, copy: Copy) -> bool:
    """`self.table = self.table.to(device)`: moved when it is first used, and kept there."""
    name = renewed(timeline, copy)
    function = copy.place.function
    # A name of this call is made anew by the next one; what a caller hands in is the caller's.
    own = function is not None and name.isidentifier() and name not in function.parameters
    return bool(name) and not own


def renewed(timeline: Timeline, copy: Copy) -> str:
    """The name that is bound to its own copy, if that is what the statement does."""
    moved = moved_span(copy)
    name = timeline.text(moved) if moved is not None else ""
    return name if timeline.text(copy.place.statement).startswith(f"{name} =") else ""


def may_name_its_device(factory: Call) -> bool:
    """A factory of the device's own library, which makes its numbers itself."""
    fact = factory.fact
    return fact.fresh and bool(fact.filled) and fact.device == "argument" and not fact.upload


def computed_confidence(timeline: Timeline, copy: Copy) -> Confidence:
    """How sure it is that a chain of host arithmetic is in the way, again and again."""
    target = timeline.text(copy.place.statement).partition("=")[0]
    function = copy.place.function
    per_step = function is not None and "per_step" in function.roles
    stays = target.startswith("self.") and (copy.place.heat is Heat.UNKNOWN or not per_step)
    stays |= bool(renewed(timeline, copy))  # … in a table, perhaps, for the next call
    stays |= function is None or "register_buffer(" in timeline.text(copy.place.statement)
    sure = Confidence.POSSIBLE if stays or not all_here(copy) else Confidence.LIKELY
    return sure.weaker(copy.result.sure).weaker(copy.source.sure)


def inline(copy: Copy, factory: Call) -> bool:
    """Whether the move follows the factory in one expression."""
    return copy.call.receiver_span == factory.span


def made_on_device(timeline: Timeline, copy: Copy, factory: Call) -> Fix | None:
    """`torch.zeros(n).to(device)` becomes `torch.zeros(n, device=device)`."""
    if copy.call.receiver_span != factory.span or factory.has_star or factory.has("device"):
        return None
    keywords = device_keywords(timeline, copy, factory)
    if keywords is None:
        return None
    text = with_keywords(timeline.text(factory.span), keywords)
    if text is None:
        return None
    edit = replace_expression(timeline.source, copy.call.span, text)
    if edit is None:
        return None
    safe = factory.fact.filled in ("constant", "undefined", "range") and not factory.has(
        "requires_grad"
    )
    return Fix(
        "Make it on the device",
        (edit,),
        Safety.SAFE if safe else Safety.UNSAFE,
        "" if safe else _CONDITION,
    )


_CONDITION = "The device has its own generator: seeded random numbers will differ."


def makes_nothing(factory: Call) -> bool:
    """`torch.empty(0)`: nothing is filled, and nothing is copied."""
    if factory.fact.filled not in ("undefined", "constant", "random"):
        return False
    sizes = [a.value for a in factory.arguments if a.name in ("size", "") and not a.star]
    sizes = [part for size in sizes for part in size.items or (size,)]
    return any(size.kind is Kind.NUMBER and size.constant == 0 for size in sizes)


def on_purpose(factory: Call) -> bool:
    """Whether the host's memory or its generator is asked for."""
    return any(factory.has(word) for word in ("generator", "out", "pin_memory"))
