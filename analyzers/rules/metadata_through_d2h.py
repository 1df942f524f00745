"""An array is copied to the host to learn its shape.

## What it does
Finds `.cpu()`, `.get()` and `copy_to_host()` whose result is only asked for what the host knows
anyway: `len(x.cpu())`, `x.cpu().numpy().shape`, `d.copy_to_host().size`.

## Why it matters
The whole buffer crosses PCIe, and the host waits for everything queued before the copy. Shape,
type and number of elements are kept on the host side of every device array.

## Example
Ask the device array itself.

## Fix safety
Safe for shapes and lengths. The types of two libraries have different names, so `.dtype` is
rewritten only where the library stays the same.

## When to ignore
Never: the answer is the same.

## References
- PyTorch documentation, tensor attributes
- Numba documentation, `DeviceNDArray.shape`
"""

from collections.abc import Iterator

from analyzers.call_edits import replace_expression
from analyzers.copying import copied_from, inside
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity, Span
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Copy, MetadataRead, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import torch

        def padded_length(x: torch.Tensor):
            x = x.cuda().reshape(-1, 8)
            return len(x.cpu()) + x.cpu().numpy().shape[1]  # <-
        """,
        fixed="""
        import torch

        def padded_length(x: torch.Tensor):
            x = x.cuda().reshape(-1, 8)
            return len(x) + x.shape[1]
        """,
    ),
    Bad(
        """
        from numba import cuda

        def blocks(host, threads):
            device = cuda.to_device(host)
            count = device.copy_to_host().size  # <-
            return (count + threads - 1) // threads
        """,
        fixed="""
        from numba import cuda

        def blocks(host, threads):
            device = cuda.to_device(host)
            count = device.size
            return (count + threads - 1) // threads
        """,
    ),
]
GOOD = [
    """
    import torch

    def padded_length(x: torch.Tensor):
        x = x.cuda().reshape(-1, 8)
        return len(x) + x.shape[1]
    """,
    # The data is used as well.
    """
    import torch

    def saved(x: torch.Tensor, sink):
        rows = x.cuda().cpu().numpy()
        sink.write(rows)
        return rows.shape
    """,
]


@rule(
    "GPU211",
    severity=Severity.WARNING,
    bad=BAD,
    good=GOOD,
    instead_of=("GPU105", "GPU117", "GPU205"),
)
def metadata_through_d2h(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    for copy, base, asked, where in _asked(timeline):
        function = copy.place.function
        if function is not None and "test" in function.roles:
            continue
        if not inside(copy.place.span, base):
            continue
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(where))} copies the whole array to the host to learn its "
            "layout. The host waits for the device, and knew the answer before. "
            "Ask the device array itself.",
            Confidence.LIKELY.weaker(copy.source.sure),
            Severity.WARNING,
            fix=_fix(timeline, copy, base, asked),
        )


def _asked(timeline: Timeline) -> Iterator[tuple[Copy, Span, str, Span]]:
    """The copy, the expression that is asked, for what, and the whole question."""
    for event in timeline.of(MetadataRead):
        copy = copied_from(event.value)
        if copy is not None:
            asked = _name(copy, event.value.type, event.attribute)
            yield copy, event.base, asked, event.place.span
    for call in timeline.calls():
        if not call.fact.metadata:
            continue
        argument = call.arguments[0] if call.arguments else None
        base = call.receiver_span or (argument.span if argument is not None else None)
        value = call.receiver or (argument.value if argument is not None else None)
        copy = copied_from(value) if value is not None else None
        if copy is not None and base is not None:
            yield copy, base, "len" if call.receiver is None else call.method, call.span


def _name(copy: Copy, asked: str, attribute: str) -> str:
    """The attribute as the device array calls it; empty where it has no such thing."""
    same = copy.result.type == asked or not copy.source.type.startswith("torch.")
    return attribute if same or attribute in ("shape", "ndim", "nbytes") else ""


_SAME_EVERYWHERE = frozenset({"dtype", "itemsize", "len", "nbytes", "ndim", "shape", "size"})


def _fix(timeline: Timeline, copy: Copy, base: Span, asked: str) -> Fix | None:
    source = copy.call.receiver_span
    if source is None or asked not in (*_SAME_EVERYWHERE, "dim", "numel"):
        return None
    if asked == "dtype" and copy.result.type != copy.source.type:
        return None
    edit = replace_expression(timeline.source, base, timeline.text(source))
    return Fix("Ask the device array", (edit,), Safety.SAFE) if edit is not None else None
