"""An array is copied on the host once more before it goes to the device.

## What it does
Finds `torch.tensor(array).to(device)` and `.cuda()` where the argument is a NumPy array.

## Why it matters
`torch.tensor` always copies its argument. The copy is made by the host, in pageable memory, and is
read once: by the copy to the device, for which the driver stages it again.

## Example
`torch.as_tensor(array, device=device)` reads the array where it is.

## Fix safety
Safe where the target is surely a GPU. On a CPU device the tensor would share the array's memory,
and a change to one would show in the other.

## When to ignore
When the array is changed while the copy may still be under way, or when the code must run on the
CPU with a tensor of its own.

## References
- PyTorch documentation, `torch.tensor` and `torch.as_tensor`
"""

from collections.abc import Iterator

from analyzers.call_edits import replace_expression, with_keywords
from analyzers.copying import device_keywords, plain
from analyzers.dryrun.results import dtype_name
from analyzers.dryrun.values import Device, Kind
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.judging import repeated_confidence, shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import numpy as np
        import torch

        def batches(model, paths):
            for path in paths:
                pixels = np.load(path)
                model(torch.tensor(pixels).cuda())  # <-
        """,
        fixed="""
        import numpy as np
        import torch

        def batches(model, paths):
            for path in paths:
                pixels = np.load(path)
                model(torch.as_tensor(pixels, device="cuda"))
        """,
    ),
    # Where the device is a variable, it may be the CPU.
    Bad(
        """
        import numpy as np
        import torch

        def act(policy, frames, device):
            for frame in frames:
                state = np.asarray(frame, dtype=np.float32)
                policy(torch.tensor(state, dtype=torch.float32).to(device))  # <-
        """,
        fixed="""
        import numpy as np
        import torch

        def act(policy, frames, device):
            for frame in frames:
                state = np.asarray(frame, dtype=np.float32)
                policy(torch.as_tensor(state, dtype=torch.float32, device=device))
        """,
    ),
    Bad(
        """
        import numpy as np
        import torch

        def act(policy, frames, device):
            for frame in frames:
                state = np.asarray(frame)
                policy(torch.FloatTensor(state).to(device))  # <-
        """
    ),
]
GOOD = [
    # A list has no memory to share.
    """
    import torch

    def batches(model, rows):
        for row in rows:
            model(torch.tensor([row.left, row.right]).cuda())
    """,
    """
    import numpy as np
    import torch

    def batches(model, paths):
        for path in paths:
            model(torch.as_tensor(np.load(path), device="cuda"))
    """,
    # The tensor is used on the host as well.
    """
    import numpy as np
    import torch

    def batches(model, paths, seen):
        for path in paths:
            host = torch.tensor(np.load(path))
            seen.append(host)
            model(host.cuda())
    """,
]


@rule("GPU206", severity=Severity.INFO, bad=BAD, good=GOOD)
def numpy_tensor_cuda_chain(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    for copy in timeline.of(Copy):
        made = copy.source.made_by
        if copy.direction is not Direction.TO_DEVICE or not isinstance(made, Call):
            continue
        often = repeated_confidence(copy.place)
        if often is None or copy.call.receiver_span != made.span or not _copies_an_array(made):
            continue
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(made.span))} copies the array in host memory first, and that "
            "copy is read only once. `torch.as_tensor(…, device=…)` sends the array itself.",
            _confidence(made).weaker(often).weaker(copy.result.sure),
            Severity.INFO,
            fix=_fix(timeline, copy, made),
        )


def _copies_an_array(made: Call) -> bool:
    fact = made.fact
    # `torch.FloatTensor(array)` names its place by its class: the host's.
    if not fact.upload or fact.view or not made.arguments or fact.device not in _PLACED:
        return False
    data = made.arguments[0].value
    foreign = data.type not in ("", fact.gives)
    known = data.kind is Kind.TENSOR and data.device is Device.HOST and not data.scalar
    return known and foreign and _same_type(made) is not False


def _same_type(made: Call) -> bool | None:
    """Whether no other type is asked for, which would need a converted copy anyway."""
    wanted, fixed = made.argument("dtype"), made.fact.dtype
    if wanted is None and fixed in ("", "argument"):
        return True
    asked = plain(dtype_name(wanted.value) if wanted is not None else fixed)
    given = plain(made.arguments[0].value.dtype)
    return given == asked if given and asked else None


_PLACED = ("argument", "host")


def _confidence(made: Call) -> Confidence:
    """Who makes an array that is handed in, and of what, is another file's secret."""
    # A class that names a type of numbers converts them as well, which the copy cannot be spared.
    in_sight = made.arguments[0].value.made_by is not None and made.fact.device != "host"
    return Confidence.LIKELY if in_sight and _same_type(made) else Confidence.POSSIBLE


def _fix(timeline: Timeline, copy: Copy, made: Call) -> Fix | None:
    """`torch.tensor(a).to(device)` becomes `torch.as_tensor(a, device=device)`."""
    module, _, name = timeline.text(made.callee).rpartition(".")
    if name != "tensor" or not module or made.has_star or copy.call.has("non_blocking"):
        return None
    if any(made.has(word) for word in ("device", "pin_memory", "requires_grad")):
        return None
    keywords = device_keywords(timeline, copy, made)
    text = with_keywords(timeline.text(made.span), keywords) if keywords else None
    if text is None:
        return None
    callee = timeline.text(made.callee)
    edit = replace_expression(
        timeline.source, copy.call.span, f"{module}.as_tensor{text[len(callee) :]}"
    )
    if edit is None:
        return None
    if _surely_cuda(copy):
        return Fix("Send the array itself", (edit,), Safety.SAFE)
    condition = "On a CPU device the tensor then shares the array's memory."
    return Fix("Send the array itself", (edit,), Safety.UNSAFE, condition)


def _surely_cuda(copy: Copy) -> bool:
    if copy.call.fact.moves == "gpu":
        return True
    texts = (argument.value.constant for argument in copy.call.arguments)
    return any(isinstance(text, str) and text.startswith("cuda") for text in texts)
