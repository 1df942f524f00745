"""A tensor is made in host memory and then copied to the device.

## What it does
Finds `torch.<factory>(…).to(device)` and `.cuda()`: an allocation filled on the host whose only
use is the copy.

## Why it matters
The host fills the memory, the driver stages it, it crosses PCIe, and the host waits for the
stream. The same factory with `device=` is one kernel that fills device memory at its own
bandwidth.

## Example
Say where the tensor should live when it is made.

## Fix safety
Safe for constants (`zeros`, `ones`, `full`, `empty`, `eye`) and ranges of integers. For random
numbers the device has its own generator, so seeded results change; a `linspace` may differ in its
last digits. Where `requires_grad=True` was given, the moved tensor was not a leaf: see GPU910.

## When to ignore
When the numbers must come from the CPU generator so that a seed gives the same result on every
GPU.

## References
- PyTorch performance tuning guide, "Create tensors directly on the target device"
- torch.profiler's own pattern for extra copies to the device
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from analyzers.call_edits import replace_expression, with_keywords
from analyzers.copying import device_keywords, first, moved_span
from analyzers.dryrun.values import Kind
from analyzers.finding import Confidence, Finding, Fix, Related, Safety, Severity
from analyzers.judging import applies, shown, when
from analyzers.places import Heat
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import torch

        def initial_state(batch, width, device):
            h = torch.zeros(batch, width).to(device)  # <-
            return h
        """,
        fixed="""
        import torch

        def initial_state(batch, width, device):
            h = torch.zeros(batch, width, device=device)
            return h
        """,
    ),
    Bad(
        """
        import torch

        def noise(batch, width):
            return torch.randn(batch, width).cuda()  # <-
        """
    ),
    # The whole chain could run on the device.
    Bad(
        """
        import math
        import torch

        def frequencies(t, half):
            steps = torch.arange(half, dtype=torch.float32)
            return torch.exp(-math.log(1e4) * steps / half).to(t.device)  # <-
        """
    ),
]
GOOD = [
    """
    import torch

    def initial_state(batch, width, device):
        return torch.zeros(batch, width, device=device)
    """,
    # A CPU generator: the numbers come from the host on purpose.
    """
    import torch

    def noise(shape, generator, device):
        return torch.randn(shape, generator=generator).to(device)
    """,
    # Filled before it is moved: a staging buffer.
    """
    import torch

    def staged(rows, device):
        host = torch.empty(len(rows), 3)
        for i, row in enumerate(rows):
            host[i] = row
        return host.to(device)
    """,
]


@rule("GPU201", severity=Severity.WARNING, bad=BAD, good=GOOD)
def create_on_cpu_then_move(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    listed: set[object] = set()  # functions in which a tensor made of a list was remarked on
    for copy in timeline.of(Copy):
        factory = copy.source.made_by
        if copy.direction is not Direction.TO_DEVICE or _left_alone(copy):
            continue
        if isinstance(factory, Call) and any(factory.has(word) for word in _ON_PURPOSE):
            continue
        found = _finding(timeline, copy, factory if isinstance(factory, Call) else None)
        if found is None:
            continue
        if isinstance(factory, Call) and factory.fact.upload:
            if copy.place.function in listed:
                continue
            listed.add(copy.place.function)
        sure = Confidence.POSSIBLE if _once(copy) else found.confidence
        yield replace(found, confidence=found.confidence.weaker(sure))


def _finding(timeline: Timeline, copy: Copy, factory: Call | None) -> Finding | None:
    if factory is not None and factory.fact.upload:
        return _made_of_a_list(timeline, copy, factory) if _inline(copy, factory) else None
    if factory is not None and _may_name_its_device(factory):
        if copy.source.fresh:
            return _made_here(timeline, copy, factory)
        if _made_elsewhere(copy, factory) and not _kept(timeline, copy):
            return _moved_on_every_call(timeline, copy, factory)
    meant = _ON_HOST.search(timeline.text(copy.place.statement))
    if copy.source.homemade and not meant and not _kept(timeline, copy):
        return _computed_here(timeline, copy)
    return None


def _once(copy: Copy) -> bool:
    """Set-up code; a place that only stands behind a loop may run as often as its function."""
    place = copy.place
    if place.heat is not Heat.COLD:
        return False
    function = place.function
    if function is None or place.guarded or "cold" in function.roles:
        return True
    return not (isinstance(copy.source.made_by, Call) and _inline(copy, copy.source.made_by))


def _left_alone(copy: Copy) -> bool:
    """Tests, references for the CPU, data sets, and places that hardly ever run."""
    place = copy.place
    if place.heat is not Heat.COLD:
        return not applies(place)
    return not applies(replace(place, heat=Heat.UNKNOWN))


def _inline(copy: Copy, factory: Call) -> bool:
    return copy.call.receiver_span == factory.span


def _made_of_a_list(timeline: Timeline, copy: Copy, factory: Call) -> Finding | None:
    data = factory.arguments[0].value if factory.arguments else None
    array = data is None or (data.kind is Kind.TENSOR and data.type != factory.fact.gives)
    if array or factory.has("device"):
        return None  # an array has a better way: see GPU206
    return Finding(
        copy.place.span,
        f"{shown(timeline.text(factory.span))} is made in host memory first and copied in a "
        "second step. That may cost an allocation and a call for each. Name the `device` at once.",
        Confidence.POSSIBLE,
        Severity.WARNING,
    )


def _may_name_its_device(factory: Call) -> bool:
    """A factory of the device's own library, which makes its numbers itself."""
    fact = factory.fact
    return fact.fresh and bool(fact.filled) and fact.device == "argument" and not fact.upload


_ON_PURPOSE = ("generator", "out", "pin_memory")
_ON_HOST = re.compile(r"""device\s*=\s*["']cpu["']""")  # written out: it is meant so


def _made_here(timeline: Timeline, copy: Copy, factory: Call) -> Finding:
    return Finding(
        copy.place.span,
        f"{shown(timeline.text(factory.span))} is filled in host memory and then copied to "
        "the device. The host pays the fill, a staged copy over PCIe and a wait for the "
        "stream. Make it on the device with `device=`.",
        _confidence(copy, factory),
        Severity.WARNING,
        fix=_fix(timeline, copy, factory),
    )


def _computed_here(timeline: Timeline, copy: Copy) -> Finding:
    what = copy.call.receiver_span or copy.place.span
    return Finding(
        copy.place.span,
        f"{shown(timeline.text(what))} is computed in host memory from nothing but constants and "
        "then copied to the device. The host does the arithmetic, stages the copy over PCIe and "
        "waits for it. Make the first tensor on the device, and the whole chain runs there.",
        _computed_confidence(timeline, copy),
        Severity.WARNING,
    )


def _computed_confidence(timeline: Timeline, copy: Copy) -> Confidence:
    target = timeline.text(copy.place.statement).partition("=")[0]
    once = copy.place.heat is Heat.UNKNOWN and target.startswith("self.")
    sure = Confidence.POSSIBLE if once or not _all_here(copy) else Confidence.LIKELY
    return sure.weaker(copy.result.sure).weaker(copy.source.sure)


def _all_here(copy: Copy) -> bool:
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


def _made_elsewhere(copy: Copy, factory: Call) -> bool:
    """Made once in a constructor, moved in a method that runs per step."""
    made_in, moved_in = factory.place.function, copy.place.function
    if made_in is None or moved_in is None or made_in.class_name != moved_in.class_name:
        return False
    return made_in.name == "__init__" != moved_in.name and copy.place.repeated


def _kept(timeline: Timeline, copy: Copy) -> bool:
    """`self.table = self.table.to(device)`: moved when it is first used, and kept there."""
    moved = moved_span(copy)
    if moved is None:
        return False
    return timeline.text(copy.place.statement).startswith(f"{timeline.text(moved)} =")


def _moved_on_every_call(timeline: Timeline, copy: Copy, factory: Call) -> Finding:
    return Finding(
        copy.place.span,
        f"{shown(timeline.text(copy.place.span))} copies a host tensor that never changes "
        f"{when(copy.place)}. Each copy is staged over PCIe and makes the host wait. "
        "Register it as a buffer, or move it once when the object is made.",
        Confidence.LIKELY.weaker(copy.result.sure),
        Severity.WARNING,
        related=(Related(factory.span, "made here, in host memory"),),
    )


def _confidence(copy: Copy, factory: Call) -> Confidence:
    # Made in this very expression: there is no other use that could want it on the host, and
    # naming the device at once is right wherever the device is.
    if not _inline(copy, factory):
        return Confidence.LIKELY.weaker(copy.result.sure)
    return Confidence.CERTAIN if copy.result.sure is Confidence.CERTAIN else Confidence.LIKELY


def _fix(timeline: Timeline, copy: Copy, factory: Call) -> Fix | None:
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
