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
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from analyzers.copying import sent
from analyzers.dryrun.values import Kind
from analyzers.finding import Confidence, Finding, Related, Severity
from analyzers.judging import shown, when
from analyzers.making import (
    computed_confidence,
    inline,
    kept,
    left_alone,
    made_in_constructor,
    made_on_device,
    makes_nothing,
    may_name_its_device,
    on_purpose,
    once,
)
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, PerhapsSent, Timeline
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
    # Wherever the other tensor lives: the new one could have been made there.
    Bad(
        """
        import torch

        def regularised(kernel, jitter):
            k = kernel.evaluate()
            return k + jitter * torch.eye(k.size(-1)).type_as(k)  # <-
        """,
        fixed="""
        import torch

        def regularised(kernel, jitter):
            k = kernel.evaluate()
            return k + jitter * torch.eye(k.size(-1), device=k.device, dtype=k.dtype)
        """,
    ),
    Bad(
        """
        import torch
        from torch import nn

        class Reward(nn.Module):
            def masks(self, batch, width):
                device = next(self.parameters()).device
                return torch.ones(batch, 1, width).to(device)  # <-
        """,
        fixed="""
        import torch
        from torch import nn

        class Reward(nn.Module):
            def masks(self, batch, width):
                device = next(self.parameters()).device
                return torch.ones(batch, 1, width, device=device)
        """,
    ),
    Bad(
        """
        import torch

        def coordinates(h, w, image):
            grid = torch.stack([torch.arange(h), torch.arange(w)])
            grid = grid.to(image.device)  # <-
            return grid / image.shape[-1]
        """
    ),
]
GOOD = [
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
    # It is told where.
    """
    import torch
    from .grids import create_grid

    def sampled(h, w, image):
        return create_grid(8, 8, image.device).to(image)
    """,
    # What is compared may be data.
    """
    import torch

    def wrong(criterion, found, labels, device):
        return criterion(found, torch.from_numpy(labels[:, 0] > 0.5).to(device).float())
    """,
    # Another type, not another place.
    """
    import torch

    def weights(batch, model, dtype):
        return torch.ones(batch).to(dtype), torch.zeros(batch).to(model.dtype)
    """,
    # Whether the device answers at all: what comes of it is thrown away.
    """
    import torch

    def usable(name):
        try:
            _ = torch.zeros(1).to(torch.device(name))
        except RuntimeError:
            return False
        return True
    """,
    # What a caller hands in may live anywhere.
    """
    import torch

    def encode(model, sound, lengths):
        lengths = lengths.to(sound.device)
        return model(sound, lengths)

    def encode_one(model, sound):
        return encode(model, sound, torch.tensor([1.0]))
    """,
]


@rule("GPU201", severity=Severity.WARNING, bad=BAD, good=GOOD)
def create_on_cpu_then_move(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    listed: Counter[object] = Counter()  # by function: tensors made of lists
    for copy in sent(timeline):
        factory = copy.source.made_by
        if left_alone(copy.place) or timeline.text(copy.place.statement).startswith("_ ="):
            continue
        if isinstance(factory, Call) and (makes_nothing(factory) or on_purpose(factory)):
            continue
        found = _finding(timeline, copy, factory if isinstance(factory, Call) else None)
        if found is None:
            continue
        if isinstance(factory, Call) and factory.fact.upload:
            listed[copy.place.function] += 1
            if listed[copy.place.function] > _ENOUGH:
                continue
        sure = Confidence.POSSIBLE if once(copy) else found.confidence
        yield replace(found, confidence=found.confidence.weaker(sure))


_ENOUGH = 2


def _finding(timeline: Timeline, copy: Copy, factory: Call | None) -> Finding | None:
    if factory is not None and factory.fact.upload:
        return _made_of_a_list(timeline, copy, factory) if inline(copy, factory) else None
    if factory is not None and may_name_its_device(factory):
        if copy.source.fresh:
            return _made_here(timeline, copy, factory)
        if made_in_constructor(copy, factory) and not kept(timeline, copy):
            return _moved_on_every_call(timeline, copy, factory)
    meant = _ON_HOST.search(timeline.text(copy.place.statement))
    if copy.source.homemade and not meant and not kept(timeline, copy):
        return _computed_here(timeline, copy)
    return None


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


_ON_HOST = re.compile(r"""device\s*=\s*["']cpu["']""")  # written out: it is meant so


def _made_here(timeline: Timeline, copy: Copy, factory: Call) -> Finding:
    return Finding(
        copy.place.span,
        f"{shown(timeline.text(factory.span))} is filled in host memory and then copied to "
        "the device. The host pays the fill, a staged copy over PCIe and a wait for the "
        "stream. Make it on the device with `device=`.",
        _confidence(copy, factory),
        Severity.WARNING,
        fix=made_on_device(timeline, copy, factory),
    )


def _computed_here(timeline: Timeline, copy: Copy) -> Finding:
    what = copy.call.receiver_span or copy.place.span
    return Finding(
        copy.place.span,
        f"{shown(timeline.text(what))} is computed in host memory from nothing but constants and "
        "then copied to the device. The host does the arithmetic, stages the copy over PCIe and "
        "waits for it. Make the first tensor on the device, and the whole chain runs there.",
        computed_confidence(timeline, copy),
        Severity.WARNING,
    )


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
    if not inline(copy, factory) or isinstance(copy, PerhapsSent):
        return Confidence.LIKELY.weaker(copy.result.sure)
    return Confidence.CERTAIN if copy.result.sure is Confidence.CERTAIN else Confidence.LIKELY
