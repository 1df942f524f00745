"""A parameter is moved after it was wrapped, so that what is kept is no parameter any more.

## What it does
Finds `nn.Parameter(…).cuda()`, `.to(device)` and casts of a parameter, and the same on a tensor
made with `requires_grad=True`.

## Why it matters
A move gives a new tensor that was computed from the parameter: it is no leaf, a module does not
register it, no optimizer sees it, and its `.grad` stays empty. The weight is silently never
trained. On a machine where the move is a no-op everything works.

## Example
Make the data on the device first, then wrap it.

## Fix safety
Safe for constants. Random numbers come from another generator on the device, so seeded values
change.

## When to ignore
When only the moved value is wanted, and never its gradient.

## References
- PyTorch, `torch.nn.Module`: registration of attributes that are parameters
- PyTorch, autograd mechanics: leaf tensors
"""

from collections.abc import Iterator

from analyzers.copying import first, plain
from analyzers.dryrun.results import dtype_name
from analyzers.dryrun.values import Device, Kind, Value, place_of
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import replace_expression
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline

BAD = [
    Bad(
        """
        import torch
        from torch import nn

        class Gate(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(width)).cuda()  # <-
        """,
        fixed="""
        import torch
        from torch import nn

        class Gate(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(width, device="cuda"))
        """,
    ),
    Bad(
        """
        import torch

        def codes(count, width, device):
            codes = torch.zeros(count, width, requires_grad=True).to(device)  # <-
            return codes, torch.optim.Adam([codes])
        """,
        fixed="""
        import torch

        def codes(count, width, device):
            codes = torch.zeros(count, width, requires_grad=True, device=device)
            return codes, torch.optim.Adam([codes])
        """,
    ),
    Bad(
        """
        import torch
        from torch import nn

        class Table(nn.Module):
            def __init__(self, table, device):
                super().__init__()
                self.table = nn.Parameter(table).to(device)  # <-
        """,
        fixed="""
        import torch
        from torch import nn

        class Table(nn.Module):
            def __init__(self, table, device):
                super().__init__()
                self.table = nn.Parameter(table.to(device))
        """,
    ),
]
GOOD = [
    """
    import torch
    from torch import nn

    class Gate(nn.Module):
        def __init__(self, width, device):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(width, device=device))
    """,
    # A module moves its parameters in place.
    """
    import torch
    from torch import nn

    class Gate(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(width))

    def build(width):
        return Gate(width).cuda()
    """,
    # The gradient is asked for after the move.
    """
    import torch

    def codes(count, width, device):
        return torch.zeros(count, width).to(device).requires_grad_()
    """,
]


@rule("GPU910", severity=Severity.ERROR, bad=BAD, good=GOOD)
def parameter_moved_after_wrapping(timeline: Timeline) -> Iterator[Finding]:
    for call in timeline.calls():
        if call.receiver is None or not (call.fact.moves or call.fact.effect == "cast"):
            continue
        made = call.receiver.made_by
        if not isinstance(made, Call) or not _inline(call, made):
            continue
        wrapped = made.fact.effect == "parameter"
        if not (wrapped or _asks_for_gradient(made)) or _goes_to_host(call) or _is_same(call):
            continue
        sure = _confidence(call, wrapped)
        end = "may never be trained" if sure is Confidence.POSSIBLE else "is never trained"
        what = "parameter" if wrapped else "tensor with `requires_grad`"
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} keeps the result of the move and not the {what} "
            f"itself. It is no leaf: no optimizer finds it, its `.grad` stays empty, and it {end}. "
            "Move the data first, then wrap it.",
            sure,
            Severity.ERROR,
            fix=_fix(timeline, call, made, wrapped),
        )


def _inline(call: Call, made: Call) -> bool:
    return call.receiver_span is not None and made.span == call.receiver_span


def _asks_for_gradient(made: Call) -> bool:
    asked = made.argument("requires_grad")
    return made.fact.fresh and asked is not None and asked.value.constant is True


def _is_same(call: Call) -> bool:
    """`.to(torch.float32)` of what has that type already gives the parameter itself."""
    given = [plain(dtype_name(a.value)) for a in call.arguments]
    made = call.receiver.made_by if call.receiver is not None else None
    inner = first(made) if isinstance(made, Call) else None
    asked = inner.made_by.argument("dtype") if inner and isinstance(inner.made_by, Call) else None
    has = dtype_name(asked.value) if asked is not None else inner.dtype if inner else ""
    return len(given) == 1 and bool(given[0]) and plain(has) == given[0]


def _goes_to_host(call: Call) -> bool:
    target = _target(call)
    return call.fact.moves == "host" or (target is not None and place_of(target)[0] is Device.HOST)


def _target(call: Call) -> Value | None:
    return next((a.value for a in call.arguments if a.name in ("device", "")), None)


def _confidence(call: Call, wrapped: bool) -> Confidence:
    function = call.place.function
    if function is not None and "test" in function.roles:
        return Confidence.POSSIBLE
    if not wrapped or not call.place.records_graph:
        return Confidence.POSSIBLE  # perhaps only the moved value is wanted
    return Confidence.CERTAIN if call.fact.moves == "gpu" else Confidence.LIKELY


def _fix(timeline: Timeline, call: Call, made: Call, wrapped: bool) -> Fix | None:
    device = _device(timeline, call)
    if not device:
        return None
    whole = timeline.text(made.span)
    if not wrapped:
        text = _with_device(whole, device)
    else:
        first = made.arguments[0] if made.arguments else None
        if first is None or first.star or first.keyword:
            return None
        inner = timeline.text(first.span)
        source = first.value.made_by
        if isinstance(source, Call) and source.fact.fresh and source.span == first.span:
            made, moved = source, _with_device(inner, device)
        else:
            moved = f"{inner}.to({device})" if inner.replace(".", "").isidentifier() else ""
        text = whole.replace(inner, moved, 1) if moved else ""
    edit = replace_expression(timeline.source, call.span, text) if text else None
    if edit is None:
        return None
    if made.fact.filled == "random":
        condition = "Seeded values change: the device has a generator of its own."
        return Fix("Make it on the device", (edit,), Safety.UNSAFE, condition)
    return Fix("Make it on the device", (edit,), Safety.SAFE)


def _with_device(text: str, device: str) -> str:
    if "device=" in text or not text.endswith(")") or text.endswith("()"):
        return ""
    return f"{text[:-1].rstrip().rstrip(',')}, device={device})"


def _device(timeline: Timeline, call: Call) -> str:
    """The device of the move as an argument; empty where the move is more than that."""
    if call.fact.moves == "gpu" and not call.arguments:
        return '"cuda"'
    if len(call.arguments) != 1 or call.fact.moves != "argument":
        return ""
    given = call.arguments[0]
    named = given.keyword and given.name == "device"
    if given.value.kind not in (Kind.PLACE, Kind.TEXT) and not named:
        return ""
    text = timeline.text(given.span)
    return "" if given.value.kind is Kind.LIBRARY else text.removeprefix("device=")
