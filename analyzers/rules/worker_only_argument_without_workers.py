"""A loader without workers is told how its workers should behave.

## What it does
Finds `prefetch_factor=` and `persistent_workers=True` on a `DataLoader` whose `num_workers` is
missing or 0.

## Why it matters
PyTorch raises a ValueError when the loader is made.

## Example
Add `num_workers=` with a number above 0, or drop the argument.

## Fix safety
How many workers suit the machine is not known here, so no edit is proposed.

## When to ignore
Never; where the number is a variable, the rule says nothing.

## References
- PyTorch source, `torch/utils/data/dataloader.py`, checks in `__init__`
"""

from collections.abc import Iterator

from analyzers.dryrun.values import Kind
from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import shown
from analyzers.places import Guard
from analyzers.rule import Bad, rule
from analyzers.timeline import Argument, Call, Called, Timeline

BAD = [
    Bad(
        """
        from torch.utils.data import DataLoader

        def loaders(train, test):
            a = DataLoader(train, batch_size=32, prefetch_factor=4)  # <-
            b = DataLoader(test, persistent_workers=True)  # <-
            return a, b
        """
    ),
    Bad(
        """
        import torch

        def loader(data):
            return torch.utils.data.DataLoader(data, num_workers=0, persistent_workers=True)  # <-
        """
    ),
]
GOOD = [
    """
    from torch.utils.data import DataLoader

    def loader(data):
        return DataLoader(data, num_workers=4, prefetch_factor=4, persistent_workers=True)
    """,
    # Not known how many.
    """
    from torch.utils.data import DataLoader

    def loader(data, workers, **options):
        a = DataLoader(data, num_workers=workers, persistent_workers=True)
        b = DataLoader(data, prefetch_factor=2, **options)
        return a, b
    """,
    # Nothing is asked of workers.
    """
    from torch.utils.data import DataLoader

    def loader(data):
        return DataLoader(data, num_workers=0, prefetch_factor=None, persistent_workers=False)
    """,
]


@rule("GPU705", severity=Severity.ERROR, bad=BAD, good=GOOD)
def worker_only_argument_without_workers(timeline: Timeline) -> Iterator[Finding]:
    for event in timeline.of(Called):
        call = event.call
        if call.fact.kind != "loader" or not call.name.startswith("torch.") or call.has_star:
            continue
        asked = _asked(call)
        if asked is None or not _without_workers(call) or Guard.ERROR in call.place.guards:
            continue
        yield Finding(
            call.span,
            f"{shown(timeline.text(asked.span))} is for workers, and this loader has none. "
            "PyTorch raises a ValueError here. Add `num_workers=`, or drop the argument.",
            Confidence.CERTAIN,
            Severity.ERROR,
        )


def _asked(call: Call) -> Argument | None:
    """What only workers can follow."""
    prefetch, persistent = call.argument("prefetch_factor"), call.argument("persistent_workers")
    if persistent is not None and persistent.value.constant is True:
        return persistent
    number = prefetch.value if prefetch is not None else None
    return prefetch if number is not None and isinstance(number.constant, int) else None


def _without_workers(call: Call) -> bool:
    given = call.argument("num_workers")
    if given is None:
        return True
    return given.value.kind is Kind.NUMBER and given.value.constant == 0
