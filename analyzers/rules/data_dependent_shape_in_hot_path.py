"""The size of a result depends on GPU data.

## What it does
Finds `nonzero`, `argwhere`, one-argument `where`, `masked_select`, `unique`, `bincount` and reads
through a boolean mask on device tensors, in loops and in functions that run once per step.

## Why it matters
The size of the result lies in device memory. The host has to fetch it before it can allocate the
result, so it waits for everything queued before; under graph capture that is an error.

## Example
Keep the shape: multiply by the mask, or fill with a constant. Where several tensors are read
through one mask, turn it into indices once: they fetch one number instead of one each.

## Fix safety
Shapes and sometimes numerics change, so this is advice.

## When to ignore
When the size really is needed and the step is long: non-maximum suppression once per image, the
last filter of a pipeline.

## References
- PyTorch source, test_sync_warning and Nonzero.cu
- NVIDIA TensorRT-LLM, sync-free PyTorch: boolean masks
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Related, Severity
from analyzers.places import Function, LoopKind
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline, Wait
from analyzers.waiting import implicit, remark

BAD = [
    Bad(
        """
        import torch

        class Pool(torch.nn.Module):
            def forward(self, x: torch.Tensor, scores: torch.Tensor):
                x, scores = x.cuda(), scores.cuda()
                mask = scores > 0.5
                kept = x[mask]  # <-
                return kept.mean()
        """
    ),
    Bad(
        """
        import torch

        def dispatch(tokens, choice, experts):
            tokens, choice = tokens.cuda(), choice.cuda()
            out = torch.zeros_like(tokens)
            for number, expert in enumerate(experts):
                rows = torch.where(choice == number)  # <-
                out[rows] = expert(tokens[rows])
            return out
        """
    ),
]
GOOD = [
    # The mask is used where its shape does not matter.
    """
    import torch

    class Pool(torch.nn.Module):
        def forward(self, x: torch.Tensor, scores: torch.Tensor):
            x, scores = x.cuda(), scores.cuda()
            mask = scores > 0.5
            x[mask] = 0.0
            return (torch.where(mask, x, 1.0) * mask).sum() / mask.sum()
    """,
    # Host data.
    """
    import torch

    def rows(tables):
        return [torch.tensor(table).nonzero() for table in tables]
    """,
    # Once, before anything runs.
    """
    import torch

    class Classes(torch.nn.Module):
        def __init__(self, labels):
            super().__init__()
            self.classes = torch.unique(labels.cuda())
    """,
]


@rule("GPU109", severity=Severity.INFO, bad=BAD, good=GOOD, instead_of=("GPU105",))
def data_dependent_shape_in_hot_path(timeline: Timeline) -> Iterator[Finding]:
    found = list(implicit(timeline, "GPU109"))
    reads: dict[tuple[Function | None, str], list[Wait]] = {}
    for wait, _ in found:
        reads.setdefault((wait.place.function, _mask(timeline, wait)), []).append(wait)
    for wait, sure in found:
        mask = _mask(timeline, wait)
        alike = reads[wait.place.function, mask] if mask else [wait]
        yield remark(
            timeline,
            wait,
            sure if wait is alike[0] else Confidence.POSSIBLE,  # the first speaks for all
            _words(wait, mask, len(alike) - 1),
            severity=Severity.WARNING if _in_inner_loop(wait) else Severity.INFO,
            related=tuple(Related(w.place.span, "and here") for w in alike if w is not wait),
        )


_ONCE = (
    "The size of {what} depends on GPU data, so the host fetches it before it can "
    "allocate the result, {when}. It waits for all queued work. "
    "Keep the shape with `torch.where`, `masked_fill` or a product with the mask."
)
_AGAIN = (
    "{{what}} needs the number of set entries of `{mask}`, so the host waits for the GPU {{when}}; "
    "so {more} through that mask. "
)
_INDEX = (
    "Call `{mask}.nonzero(as_tuple=True)` once and index with its result, "
    "or keep the shape with `torch.where`."
)
_SELECT = "Keep the shape: weigh by the mask and divide by its sum, or fill with `torch.where`."


def _words(wait: Wait, mask: str, more: int) -> str:
    if not more:
        return _ONCE
    others = f"do {more} more reads" if more > 1 else "does one more read"
    text = _AGAIN + (_INDEX if wait.call is None else _SELECT)
    return text.format(mask=mask.replace("{", "(").replace("}", ")"), more=others)


def _mask(timeline: Timeline, wait: Wait) -> str:
    """The name of the mask that something is read through; empty for anything else."""
    if wait.call is not None:
        given = wait.call.argument("mask")
        return timeline.text(given.span) if given is not None else ""
    _, _, index = timeline.text(wait.place.span).partition("[")
    name = index.removesuffix("]")
    return name if all(part.isidentifier() for part in name.split(".")) else ""


def _in_inner_loop(wait: Wait) -> bool:
    """Whether it happens several times within one step."""
    return any(loop.kind is LoopKind.ITEMS for loop in wait.place.loops)
