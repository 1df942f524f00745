"""A tensor is built from a Python list of arrays.

## What it does
Finds `torch.tensor([array, …])`, `torch.as_tensor(…)` and `torch.FloatTensor(…)` on a list whose
entries are NumPy arrays.

## Why it matters
PyTorch walks the list as nested sequences and converts number by number through Python objects.
Joining the arrays first is one block copy for each; for a few images that is milliseconds instead
of seconds. PyTorch prints a warning about it at run time.

## Example
Join the arrays with `np.stack`, and give that to PyTorch.

## Fix safety
`np.stack` wants arrays of one shape, as `torch.tensor` does, but refuses an empty list, and gives
mixed types NumPy's common type.

## When to ignore
When the list has a handful of tiny arrays.

## References
- PyTorch's own warning: "Creating a tensor from a list of numpy.ndarrays is extremely slow"
"""

from collections.abc import Iterator

from analyzers.call_edits import replace_expression
from analyzers.copying import module_name
from analyzers.dryrun.values import Device, Kind, Value, element_of
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Argument, Call, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import numpy as np
        import torch

        def batch(frames):
            arrays = [np.asarray(frame, dtype=np.float32) for frame in frames]
            return torch.tensor(arrays).cuda()  # <-
        """,
        fixed="""
        import numpy as np
        import torch

        def batch(frames):
            arrays = [np.asarray(frame, dtype=np.float32) for frame in frames]
            return torch.tensor(np.stack(arrays)).cuda()
        """,
    ),
    Bad(
        """
        import numpy as np
        import torch

        def replay(memory):
            states = []
            for step in memory:
                states.append(step.state.astype(np.float32))
            return torch.FloatTensor(states)  # <-
        """,
        fixed="""
        import numpy as np
        import torch

        def replay(memory):
            states = []
            for step in memory:
                states.append(step.state.astype(np.float32))
            return torch.FloatTensor(np.stack(states))
        """,
    ),
]
GOOD = [
    """
    import numpy as np
    import torch

    def batch(frames):
        return torch.from_numpy(np.stack([np.asarray(frame) for frame in frames]))
    """,
    # Numbers, not arrays.
    """
    import numpy as np
    import torch

    def summary(rows):
        return torch.tensor([np.mean(row) for row in rows] + [np.log(2.0)])
    """,
    # CuPy joins such a list in one pinned buffer.
    """
    import cupy as cp
    import numpy as np

    def batch(frames):
        return cp.array([np.asarray(frame) for frame in frames])
    """,
]


@rule("GPU207", severity=Severity.WARNING, bad=BAD, good=GOOD)
def tensor_from_list_of_arrays(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    for call in timeline.calls():
        if not call.fact.upload or not call.fact.gives.startswith("torch.") or not call.arguments:
            continue
        data = call.arguments[0]
        function = call.place.function
        if data.star or (function is not None and "test" in function.roles):
            continue
        sure = _arrays(data.value)
        if sure is None:
            continue
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} converts a list of arrays number by number through "
            "Python objects. One block copy for each array does the same. "
            "Join them first with `np.stack`.",
            sure,
            Severity.WARNING,
            fix=_fix(timeline, call, data),
        )


def _arrays(value: Value) -> Confidence | None:
    """How sure it is that this is a list of arrays with dimensions."""
    if value.kind is not Kind.SEQUENCE or value.type == "range":
        return None
    parts = value.items or (element_of(value),)
    found = [_array(part) for part in parts]
    if not found or any(sure is None for sure in found):
        return None
    return Confidence.LIKELY if value.items is None else Confidence.CERTAIN


def _array(part: Value) -> Confidence | None:
    made = part.made_by
    plain = part.kind is Kind.TENSOR and part.device is Device.HOST and not part.scalar
    if not plain or not part.type.startswith("numpy."):
        return None
    if made is None:  # computed from an array whose type is known
        return Confidence.LIKELY if part.dtype else None
    if not isinstance(made, Call) or made.fact.filled == "random" or made.fact.reduces:
        return None
    whole = made.fact.fresh or made.fact.effect == "load" or bool(made.fact.dtype)
    return Confidence.CERTAIN if whole else None


def _fix(timeline: Timeline, call: Call, data: Argument) -> Fix | None:
    numpy = module_name(timeline.source, "numpy")
    if not numpy or data.keyword:
        return None
    text = f"{numpy}.stack({timeline.text(data.span)})"
    edit = replace_expression(timeline.source, data.span, text)
    if edit is None:
        return None
    condition = "The arrays have one shape and one type, and there is at least one."
    return Fix("Join the arrays first", (edit,), Safety.UNSAFE, condition)
