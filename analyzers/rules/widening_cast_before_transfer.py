"""Numbers are made wider before they cross the bus.

## What it does
Finds a cast to a wider type (`uint8` to `float32`, `float16` to `float32`) that is followed by the
copy to the device, also through views, and `.to(device, dtype)` on narrower data.

## Why it matters
An image of bytes that is made a `float32` tensor on the host sends four times the bytes over
PCIe, and the host does the conversion. Copy first, and the GPU converts at the bandwidth of its
own memory. A blocking `.to(device, dtype)` converts on the host, too.

## Example
Move first, cast afterwards.

## Fix safety
Safe from bytes, booleans, 16-bit integers and half precision to a wider float: each value has an
exact equal there. For `float64` sources it is the other way round: narrow them before the copy.

## When to ignore
For small tensors.

## References
- PyTorch source, `Copy.cu`: conversions run on the GPU only if the copy does not block
- CUDA C++ Best Practices Guide, "Data transfer between host and device"
"""

from collections.abc import Iterator

from analyzers.call_edits import replace_expression
from analyzers.copying import first, plain, size_of
from analyzers.dryrun.values import Kind, Value
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.judging import applies, shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import cv2
        import torch

        def detect(model, paths):
            for path in paths:
                pixels = cv2.imread(path)
                x = torch.from_numpy(pixels).float().to("cuda")  # <-
                model(x)
        """,
        fixed="""
        import cv2
        import torch

        def detect(model, paths):
            for path in paths:
                pixels = cv2.imread(path)
                x = torch.from_numpy(pixels).to("cuda").float()
                model(x)
        """,
    ),
    Bad(
        """
        import numpy as np
        import torch

        def detect(model, frames, device):
            for frame in frames:
                pixels = np.frombuffer(frame, dtype=np.uint8).reshape(3, 480, 640)
                x = torch.from_numpy(pixels.astype(np.float32)).unsqueeze(0)
                model(x.to(device))  # <-
                y = torch.from_numpy(pixels)
                model(y.to(device, torch.float32))  # <-
        """
    ),
]
GOOD = [
    """
    import cv2
    import torch

    def detect(model, paths):
        for path in paths:
            model(torch.from_numpy(cv2.imread(path)).to("cuda").float())
    """,
    # The type is not known to be narrower.
    """
    import torch

    def detect(model, frames, device):
        for frame in frames:
            model(torch.from_numpy(frame).float().to(device))
    """,
    # Narrowed before the copy: half the bytes.
    """
    import numpy as np
    import torch

    def detect(model, paths, device):
        for path in paths:
            rows = np.zeros((64, 64))
            model(torch.from_numpy(rows).float().to(device))
    """,
]

# Types whose every value a wider float holds exactly.
_EXACT = frozenset({"bool", "uint8", "int8", "int16", "float16", "bfloat16"})


@rule("GPU208", severity=Severity.WARNING, bad=BAD, good=GOOD)
def widening_cast_before_transfer(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    for copy in timeline.of(Copy):
        if copy.direction is not Direction.TO_DEVICE or not applies(copy.place):
            continue
        cast, narrow = _widened(copy.source)
        wide = copy.source.dtype
        if not narrow and copy.blocking and _wider(copy.source.dtype, copy.result.dtype):
            narrow, wide = copy.source.dtype, copy.result.dtype
        if not narrow:
            continue
        factor = size_of(wide) // size_of(narrow)
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(copy.place.span))} sends `{plain(narrow)}` data as "
            f"`{plain(wide)}`, {factor} times the bytes, and the host does the cast. "
            "Copy first and cast on the device.",
            _confidence(copy),
            Severity.WARNING,
            fix=_fix(timeline, copy, cast) if cast is not None else None,
        )


def _widened(value: Value) -> tuple[Call | None, str]:
    """The cast that made the numbers wider on the host, and the type they had."""
    made = value.made_by
    while isinstance(made, Call):
        under = made.receiver if made.receiver is not None else first(made)
        if under is None or under.kind is not Kind.TENSOR or under.on_gpu or under.homemade:
            return None, ""
        if _wider(under.dtype, value.dtype):
            return made, under.dtype
        if not made.fact.view:
            return None, ""
        value, made = under, under.made_by
    return None, ""


def _wider(narrow: str, wide: str) -> bool:
    return (
        plain(narrow) in _EXACT
        and plain(wide).startswith("float")
        and size_of(wide) > size_of(narrow)
    )


def _confidence(copy: Copy) -> Confidence:
    often = Confidence.LIKELY if copy.place.repeated else Confidence.POSSIBLE
    return often.weaker(copy.result.sure)


def _fix(timeline: Timeline, copy: Copy, cast: Call) -> Fix | None:
    """`x.float().to(device)` becomes `x.to(device).float()`."""
    if cast.span != copy.call.receiver_span or cast.receiver_span is None:
        return None
    if copy.result.dtype != copy.source.dtype:
        return None
    narrow, widened = timeline.text(cast.receiver_span), timeline.text(cast.span)
    move = timeline.text(copy.call.span)[len(widened) :]
    text = f"{narrow}{move}{widened[len(narrow) :]}"
    edit = replace_expression(timeline.source, copy.call.span, text)
    return Fix("Cast on the device", (edit,), Safety.SAFE) if edit is not None else None
