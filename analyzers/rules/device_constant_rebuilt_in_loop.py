"""A small device tensor is built from host numbers again and again.

## What it does
Finds `torch.tensor(…, device=…)` and `torch.as_tensor(…, device=…)` of Python numbers and lists in
loops and in functions that run once per step.

## Why it matters
The numbers travel from ordinary host memory, so the host waits for the copy and for everything
queued before it: a synchronisation in the place of a constant.

## Example
Build the table once and index it, or fill on the device with `torch.full`.

## Fix safety
`torch.zeros((), device=d)` is the same as `torch.tensor(0.0, device=d)`;
`torch.full((), v, device=d, dtype=t)` is the same as `torch.tensor(v, device=d, dtype=t)` and
waits for nothing; without a `dtype` the two choose their types differently, so then it needs a
look.

## When to ignore
In constructors, and where `torch.compile` folds the constant.

## References
- NVIDIA TensorRT-LLM, sync-free PyTorch: constants
- PyTorch source, test_sync_warning: `torch.tensor(…, device="cuda")` is expected to synchronise
"""

import re
from collections.abc import Iterator

from analyzers.dryrun.values import Kind
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import replace_expression
from analyzers.places import LoopKind
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline, Wait
from analyzers.waiting import busy_loops, implicit, remark, told_to_others

BAD = [
    Bad(
        """
        import torch

        def sample(net, x, timesteps, device):
            for t in timesteps:
                now = torch.tensor([t], device="cuda")  # <-
                x = net(x, now)
            return x
        """
    ),
    Bad(
        """
        import torch

        class Scale(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                x = x.cuda()
                half = torch.tensor(0.5, device=x.device, dtype=torch.float32)  # <-
                return torch.where(x > 0, x, half)
        """,
        fixed="""
        import torch

        class Scale(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                x = x.cuda()
                half = torch.full((), 0.5, device=x.device, dtype=torch.float32)
                return torch.where(x > 0, x, half)
        """,
    ),
]
GOOD = [
    # Once, in the constructor; filled on the device.
    """
    import torch

    class Scale(torch.nn.Module):
        def __init__(self, device):
            super().__init__()
            self.half = torch.tensor(0.5, device="cuda")

        def forward(self, x: torch.Tensor):
            x = x.cuda()
            return torch.where(x > 0, x, self.half) * torch.full((), 2.0, device=x.device)
    """,
    # One table before the loop.
    """
    import torch

    def sample(net, x, timesteps):
        table = torch.tensor(timesteps, device="cuda")
        for number in range(len(timesteps)):
            x = net(x, table[number : number + 1])
        return x
    """,
    # Host tensors.
    """
    import torch

    def rows(tables):
        return [torch.tensor(table) for table in tables]
    """,
]


@rule("GPU116", severity=Severity.WARNING, bad=BAD, good=GOOD)
def device_constant_rebuilt_in_loop(timeline: Timeline) -> Iterator[Finding]:
    for wait, sure in implicit(timeline, "GPU116"):
        if wait.call is None:
            continue
        yield remark(
            timeline,
            wait,
            sure if _often(timeline, wait) and _constant(timeline, wait) else Confidence.POSSIBLE,
            "{what} copies host numbers to the GPU {when}. "
            "The host waits for the copy and for all queued work. "
            "Build it once outside, index a table on the device, or fill with `torch.full`.",
            fix=_fix(timeline, wait.call),
        )


def _often(timeline: Timeline, wait: Wait) -> bool:
    """In a loop over data or steps; one over items may be a few turns of something rare."""
    loops = busy_loops(wait)
    function = wait.place.function
    per_step = function is not None and bool(function.roles & {"per_step", "hot"})
    steps = any(loop.kind in (LoopKind.DATA, LoopKind.STEPS) for loop in loops)
    return bool(loops) and (
        per_step or steps or _STEPS.search(timeline.text(loops[-1].span)) is not None
    )


_STEPS = re.compile(r"step|time|sigma|token|batch|frame|chunk|iter", re.IGNORECASE)


def _constant(timeline: Timeline, wait: Wait) -> bool:
    """Numbers that are written here, not data, and no message for other processes."""
    call = wait.call
    if call is None or told_to_others(timeline, wait.value):
        return False
    given = call.arguments[0].value
    parts = given.items if given.kind is Kind.SEQUENCE else (given,)
    return bool(parts) and all(part.kind in _SINGLE for part in parts)


_SINGLE = frozenset({Kind.NUMBER, Kind.TENSOR, Kind.UNKNOWN})


def _fix(timeline: Timeline, call: Call) -> Fix | None:
    """`torch.tensor(v, …)` with one number is `torch.full((), v, …)`."""
    name = timeline.text(call.callee)
    value = call.argument("data")
    keywords = [a for a in call.arguments if a is not value]
    if not name.endswith(".tensor") or value is None or value.value.kind is not Kind.NUMBER:
        return None
    if value.keyword or not value.value.known or any(not a.name for a in keywords):
        return None
    if not {a.name for a in keywords} <= {"device", "dtype", "requires_grad"}:
        return None
    module, texts = name.removesuffix("tensor"), [timeline.text(a.span) for a in call.arguments]
    typed = any(a.name == "dtype" for a in keywords)
    zero = value.value.constant == 0 and (typed or isinstance(value.value.constant, float))
    text = f"{module}full((), {', '.join(texts)})"
    if zero and texts[1:]:
        text = f"{module}zeros((), {', '.join(texts[1:])})"
    edit = replace_expression(timeline.source, call.span, text)
    if edit is None:
        return None
    return Fix(
        "Fill on the device",
        (edit,),
        Safety.SAFE if typed or zero else Safety.UNSAFE,
        "" if typed or zero else "Right where the default type of `torch.full` is the wanted one.",
    )
