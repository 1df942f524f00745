"""A tensor grows by one concatenation per turn.

## What it does
Finds `out = torch.cat([out, part])` (and `hstack`, `vstack`, CuPy's `concatenate`) in a loop over
data or steps, where the loop does not read the result.

## Why it matters
Each turn allocates a new tensor and copies everything gathered so far: n turns move n²/2 parts
through device memory, and allocations of growing size fragment it.

## Example
Append the parts to a list and concatenate once after the loop.

## Fix safety
Two places change, so no edit is proposed.

## When to ignore
When every turn needs the whole (a growing prompt, a cache), or for two or three turns.

## References
- PyTorch performance tuning guide, "Preallocate memory in case of variable input length"
"""

from collections.abc import Iterator

from analyzers.dryrun.values import Device
from analyzers.finding import Confidence, Finding, Related, Severity, Span
from analyzers.judging import applies, shown, when
from analyzers.places import LoopKind
from analyzers.rule import Bad, rule
from analyzers.timeline import Accumulated, Timeline

BAD = [
    Bad(
        """
        import torch

        def features(model, chunks, d):
            out = torch.empty(0, d, device="cuda")
            for x in chunks:
                out = torch.cat([out, model(x.cuda())])  # <-
            return out
        """
    ),
    Bad(
        """
        import cupy as cp

        def gather(n, part):
            found = cp.zeros((0, 4))
            for i in range(n):
                found = cp.concatenate((found, part(i)))  # <-
            return found
        """
    ),
]
GOOD = [
    """
    import torch

    def features(model, chunks):
        parts = []
        for x in chunks:
            parts.append(model(x.cuda()))
        return torch.cat(parts)
    """,
    # Every turn needs the whole.
    """
    import torch

    def generate(model, tokens, steps):
        tokens = tokens.cuda()
        for _ in range(steps):
            following = model(tokens).argmax(-1)
            tokens = torch.cat([tokens, following], dim=1)
        return tokens
    """,
    # Starts anew on each turn.
    """
    import torch

    def both(model, loader):
        for x, y in loader:
            x, y = x.cuda(), y.cuda()
            x = torch.cat([x, y])
            model(x)
    """,
]


@rule("GPU508", severity=Severity.WARNING, bad=BAD, good=GOOD)
def cat_in_loop(timeline: Timeline) -> Iterator[Finding]:
    together: dict[Span, list[Accumulated]] = {}  # one remark for each loop
    for event in timeline.of(Accumulated):
        if event.how == "cat" and _grows(event):
            together.setdefault(event.place.loops[-1].span, []).append(event)
    for events in together.values():
        first, *others = events
        yield Finding(
            first.value_span,
            f"{shown(first.target)} is copied as a whole {when(first.place)} to append one part. "
            "The copies grow with the square of the number of turns. "
            "Collect the parts in a list and concatenate once after the loop.",
            _confidence(first),
            Severity.WARNING,
            related=tuple(Related(e.value_span, f"{e.target} as well") for e in others[:5]),
        )


def _grows(event: Accumulated) -> bool:
    place = event.place
    if event.read_in_loop or not event.target_outside or event.value.device is Device.HOST:
        return False
    return place.in_loop and applies(place)


def _confidence(event: Accumulated) -> Confidence:
    innermost = event.place.loops[-1].kind
    if event.value.device is not Device.GPU or innermost in (LoopKind.FEW, LoopKind.ITEMS):
        return Confidence.POSSIBLE
    return Confidence.LIKELY.weaker(event.value.sure)
