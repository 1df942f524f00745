"""A change of type sends a GPU tensor to the host.

## What it does
Finds `.type(torch.LongTensor)` and its like, also written as text, on device tensors.

## Why it matters
`torch.LongTensor` names a type of host tensors: the cast copies everything to the host and waits
for it, and most code then copies it back.

## Example
Cast with `.long()`, `.float()` or `.to(torch.long)`; the tensor stays where it is.

## Fix safety
Where the result is moved back to the device, or meant to be there, the cast alone is the same.
Where it was meant to go to the host, it is not.

## When to ignore
When the tensor was meant to go to the host; `.cpu()` says so more plainly.

## References
- PyTorch documentation, torch.Tensor.type and the list of tensor types
- NVIDIA TensorRT-LLM, sync-free PyTorch: casts
"""

from collections.abc import Iterator

from analyzers.finding import Finding, Fix, Safety, Severity
from analyzers.fixes import replace_expression
from analyzers.judging import applies, device_confidence, shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, Timeline

BAD = [
    Bad(
        """
        import torch

        def labels(model, x, device):
            best = model.cuda()(x.cuda()).argmax(-1)
            return best.type(torch.LongTensor).to(device)  # <-
        """,
        fixed="""
        import torch

        def labels(model, x, device):
            best = model.cuda()(x.cuda()).argmax(-1)
            return best.long().to(device)
        """,
    ),
    Bad(
        """
        import torch

        def accuracy(scores, labels):
            hits = scores.cuda().argmax(1) == labels.cuda()
            return hits.type("torch.FloatTensor").mean()  # <-
        """,
        fixed="""
        import torch

        def accuracy(scores, labels):
            hits = scores.cuda().argmax(1) == labels.cuda()
            return hits.float().mean()
        """,
    ),
]
GOOD = [
    # Types of device tensors, and plain types.
    """
    import torch

    def casts(x):
        x = x.cuda()
        return x.type(torch.cuda.LongTensor), x.type(torch.float16), x.to(torch.long), x.long()
    """,
    # Host data.
    """
    import torch

    def rows(table):
        return torch.tensor(table).type(torch.LongTensor)
    """,
]

_CASTS = {
    "BFloat16Tensor": "bfloat16",
    "BoolTensor": "bool",
    "ByteTensor": "byte",
    "CharTensor": "char",
    "DoubleTensor": "double",
    "FloatTensor": "float",
    "HalfTensor": "half",
    "IntTensor": "int",
    "LongTensor": "long",
    "ShortTensor": "short",
}


@rule("GPU115", severity=Severity.WARNING, bad=BAD, good=GOOD)
def cast_to_cpu_tensor_type(timeline: Timeline) -> Iterator[Finding]:
    for copy in timeline.of(Copy):
        call = copy.call
        if copy.direction is not Direction.TO_HOST or call.method != "type":
            continue
        sure = device_confidence(copy.source)
        if sure is None or not applies(copy.place):
            continue
        cast = _cast(timeline, call)
        way_out = f"`.{cast}()`" if cast else "`.to(dtype)`"
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(call.span))} names a type of host tensors, so the cast copies "
            f"to the host and waits for the GPU. Cast with {way_out}: the tensor stays where "
            "it is.",
            sure,
            Severity.WARNING,
            fix=_fix(timeline, call, cast),
        )


def _cast(timeline: Timeline, call: Call) -> str:
    """The method that casts to the same type in place of the move."""
    argument = call.argument("dtype")
    written = timeline.text(argument.span).strip("\"'") if argument is not None else ""
    return _CASTS.get(written.rpartition(".")[2], "")


def _fix(timeline: Timeline, call: Call, cast: str) -> Fix | None:
    if not cast or call.receiver_span is None:
        return None
    text = f"{timeline.text(call.receiver_span)}.{cast}()"
    edit = replace_expression(timeline.source, call.span, text)
    if edit is None:
        return None
    condition = "Right where the result is wanted on the device that the tensor is on."
    return Fix("Cast without the move", (edit,), Safety.UNSAFE, condition)
