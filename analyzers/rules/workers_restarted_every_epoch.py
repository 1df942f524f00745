"""The loader's worker processes are started anew for every epoch.

## What it does
Finds a `DataLoader` with workers and without `persistent_workers=True` that is gone through in a
loop over epochs.

## Why it matters
Each time the loader is iterated it starts its processes again: they import everything, open the
files and fill their queues while the GPU has nothing to do. Short epochs are dominated by it.

## Example
Add `persistent_workers=True`.

## Fix safety
Right as long as the main process doesn't change the data set between epochs: the workers keep the
copy they were started with. `set_epoch` on the sampler is fine. With `num_workers=0` the argument
raises `ValueError`.

## When to ignore
For few or very long epochs, on hosts that are short of memory, and for data sets that are changed
between epochs.

## References
- PyTorch documentation, `torch.utils.data.DataLoader`, `persistent_workers`
- PyTorch Lightning documentation, speed guide
"""

from collections.abc import Iterator

from analyzers.call_edits import add_keyword
from analyzers.finding import Confidence, Finding, Fix, Related, Safety, Severity
from analyzers.places import Loop, LoopKind
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, LoaderUsed, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import torch
        from torch.utils.data import DataLoader

        def train(model, dataset):
            loader = DataLoader(dataset, num_workers=8, pin_memory=True)  # <-
            for epoch in range(100):
                for x, y in loader:
                    model(x.cuda(non_blocking=True))
        """,
        fixed="""
        import torch
        from torch.utils.data import DataLoader

        def train(model, dataset):
            loader = DataLoader(dataset, num_workers=8, pin_memory=True, persistent_workers=True)
            for epoch in range(100):
                for x, y in loader:
                    model(x.cuda(non_blocking=True))
        """,
    ),
    Bad(
        """
        import torch
        from torch.utils.data import DataLoader

        def one_epoch(model, batches):
            for x in batches:
                model(x.cuda(non_blocking=True))

        def train(model, dataset, epochs):
            loader = DataLoader(dataset, num_workers=4, pin_memory=True)  # <-
            for epoch in range(epochs):
                one_epoch(model, loader)
        """,
        fixed="""
        import torch
        from torch.utils.data import DataLoader

        def one_epoch(model, batches):
            for x in batches:
                model(x.cuda(non_blocking=True))

        def train(model, dataset, epochs):
            loader = DataLoader(dataset, num_workers=4, pin_memory=True, persistent_workers=True)
            for epoch in range(epochs):
                one_epoch(model, loader)
        """,
    ),
]
GOOD = [
    # One pass.
    """
    import torch
    from torch.utils.data import DataLoader

    def evaluate(model, dataset):
        loader = DataLoader(dataset, num_workers=8, pin_memory=True)
        for x, y in loader:
            model(x.cuda(non_blocking=True))
    """,
    # No workers that could be kept.
    """
    import torch
    from torch.utils.data import DataLoader

    def train(model, dataset, workers):
        first = DataLoader(dataset, pin_memory=True)
        second = DataLoader(dataset, num_workers=workers, pin_memory=True)
        for epoch in range(100):
            for x, y in first:
                model(x.cuda(non_blocking=True))
            for x, y in second:
                model(x.cuda(non_blocking=True))
    """,
    # A new loader for each epoch.
    """
    import torch
    from torch.utils.data import DataLoader

    def train(model, make_dataset):
        for epoch in range(100):
            loader = DataLoader(make_dataset(epoch), num_workers=8, pin_memory=True)
            for x, y in loader:
                model(x.cuda(non_blocking=True))
    """,
]


@rule("GPU703", severity=Severity.INFO, bad=BAD, good=GOOD)
def workers_restarted_every_epoch(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    told: set[object] = set()
    for used in timeline.of(LoaderUsed):
        loader = used.loader
        epochs = _epochs(used)
        if epochs is None or loader.span in told or not _has_workers(loader):
            continue
        told.add(loader.span)
        yield Finding(
            loader.span,
            "The worker processes of this `DataLoader` are started again for every epoch of the "
            f"loop in line {epochs.span.line}. The GPU waits while they import and open everything "
            "anew. Add `persistent_workers=True`.",
            Confidence.LIKELY,
            Severity.INFO,
            related=(Related(epochs.span, "gone through here, once per epoch"),),
            fix=_fix(timeline, loader),
        )


def _epochs(used: LoaderUsed) -> Loop | None:
    """The loop over epochs around the use that isn't around the loader's making."""
    made_in = {loop.span for loop in used.loader.place.loops}
    return next(
        (
            loop
            for loop in used.place.loops
            if loop.kind is LoopKind.EPOCHS
            and loop.span not in made_in
            and _several(loop)
            and not used.place.guarded
        ),
        None,
    )


def _several(loop: Loop) -> bool:
    turns = loop.over.constant
    return not isinstance(turns, int) or turns > 2


def _has_workers(loader: Call) -> bool:
    workers = loader.argument("num_workers")
    if workers is None or loader.has_star or loader.has("persistent_workers"):
        return False
    function = loader.place.function
    if function is not None and "test" in function.roles:
        return False
    count = workers.value.constant
    return isinstance(count, int) and count > 0 and "torch" in loader.fact.gives


def _fix(timeline: Timeline, loader: Call) -> Fix | None:
    edit = add_keyword(timeline.source, loader.span, "persistent_workers", "True")
    if edit is None:
        return None
    condition = "The data set is not changed between epochs: the workers keep their copy of it."
    return Fix("Keep the workers", (edit,), Safety.UNSAFE, condition)
