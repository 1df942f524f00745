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

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import add_keyword, replace_expression
from analyzers.judging import applies, shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, Timeline

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
    for copy in timeline.of(Copy):
        factory = copy.source.made_by
        if copy.direction is not Direction.TO_DEVICE or not isinstance(factory, Call):
            continue
        if not factory.fact.fresh or factory.fact.upload or not copy.source.fresh:
            continue
        if not applies(copy.place) or factory.has("generator") or factory.has("out"):
            continue
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(factory.span))} is filled in host memory and then copied to "
            "the device. The host pays the fill, a staged copy over PCIe and a wait for the "
            "stream. Make it on the device with `device=`.",
            _confidence(copy),
            Severity.WARNING,
            fix=_fix(timeline, copy, factory),
        )


def _confidence(copy: Copy) -> Confidence:
    # Made in this very expression: there is no other use that could want it on the host.
    inline = (
        copy.call.receiver_span is not None and copy.source.made_by.span == copy.call.receiver_span
    )
    sure = Confidence.CERTAIN if inline else Confidence.LIKELY
    return sure.weaker(copy.result.sure)


def _fix(timeline: Timeline, copy: Copy, factory: Call) -> Fix | None:
    return None


_ = (Fix, Safety, add_keyword, replace_expression)
