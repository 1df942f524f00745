"""A data set or collate function works on the GPU.

## What it does
Finds copies to the device in `__getitem__` and `__iter__` of a data set and in functions that are
given to a `DataLoader` as `collate_fn` or `worker_init_fn`.

## Why it matters
This code belongs to the worker processes. A forked worker cannot initialise CUDA again and raises
`RuntimeError`; without workers every sample is a small copy that the host waits for, and batches
that are on the device already cannot be pinned.

## Example
Return host tensors, and move the whole batch in the training loop with `non_blocking=True`.

## Fix safety
None is offered: whoever goes through the loader has to move the batches from then on.

## When to ignore
Where decoding on the GPU is the point, with `num_workers=0` or spawned workers.

## References
- PyTorch source, `torch/cuda/__init__.py`: "Cannot re-initialize CUDA in forked subprocess"
- PyTorch documentation, `torch.utils.data`, "Multi-process data loading"
"""

from collections.abc import Iterator

from analyzers.dryrun.scan import ClassInfo, FunctionInfo
from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import shown
from analyzers.places import Function
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, Timeline

BAD = [
    Bad(
        """
        import numpy as np
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Rows(Dataset):
            def __init__(self, paths):
                self.paths = paths

            def __getitem__(self, index):
                return torch.from_numpy(np.load(self.paths[index])).cuda()  # <-

        def loader(paths):
            return DataLoader(Rows(paths), num_workers=4)
        """
    ),
    Bad(
        """
        import torch
        from torch.utils.data import DataLoader

        def collate(items):
            return torch.stack(items).to("cuda")  # <-

        def train(model, dataset):
            for x in DataLoader(dataset, batch_size=64, collate_fn=collate, num_workers=2):
                model(x)
        """
    ),
]
GOOD = [
    """
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):
        def __init__(self, paths):
            self.paths = paths

        def __getitem__(self, index):
            return torch.from_numpy(np.load(self.paths[index]))

    def train(model, paths):
        for x in DataLoader(Rows(paths), num_workers=4, pin_memory=True):
            model(x.cuda(non_blocking=True))
    """,
    # Everything is on the device from the start.
    """
    import torch
    from torch.utils.data import Dataset

    class Rows(Dataset):
        def __init__(self, rows):
            self.rows = torch.as_tensor(rows).cuda()

        def __getitem__(self, index):
            return self.rows[index]
    """,
]

_PER_ITEM = frozenset({"__getitem__", "__getitems__", "__iter__", "__next__"})


@rule("GPU704", severity=Severity.ERROR, bad=BAD, good=GOOD)
def cuda_work_in_dataset_or_collate(timeline: Timeline) -> Iterator[Finding]:
    loaders = [c for c in timeline.calls() if c.fact.kind == "loader"]
    for copy in timeline.of(Copy):
        function = copy.place.function
        if copy.direction is not Direction.TO_DEVICE or function is None:
            continue
        item = "dataset" in function.roles and function.name in _PER_ITEM
        using = [loader for loader in loaders if _runs(loader, function, item=item)]
        if not item and not using:
            continue
        counts = {_workers(loader) for loader in using}
        parallel = "some" in counts
        sure = _confidence(function, counts, item=item)
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(copy.place.span))} runs on the GPU for each item or batch "
            f"that is loaded. {_consequence(parallel)} Return host tensors, and move the batch "
            "in the training loop.",
            sure.weaker(copy.result.sure),
            Severity.ERROR if parallel else Severity.WARNING,
        )


def _consequence(parallel: bool) -> str:
    if parallel:
        return "The loader's forked workers cannot use CUDA and raise RuntimeError."
    return "Each is a copy of its own that the host waits for, and workers cannot do it."


def _confidence(function: Function, counts: set[str], *, item: bool) -> Confidence:
    if "some" in counts:
        return Confidence.CERTAIN
    if "none" in counts:  # by design, perhaps
        return Confidence.POSSIBLE
    return Confidence.LIKELY if item and function.name != "__iter__" else Confidence.POSSIBLE


def _runs(loader: Call, function: Function, *, item: bool) -> bool:
    """Whether this loader's workers run the function."""
    if item:
        data = loader.argument("dataset")
        info = data.value.ref if data is not None else None
        return isinstance(info, ClassInfo) and info.name == function.class_name
    for name in ("collate_fn", "worker_init_fn"):
        given = loader.argument(name)
        ref = given.value.ref if given is not None else None
        if isinstance(ref, FunctionInfo) and ref.qualname == function.qualname:
            return True
    return False


def _workers(loader: Call) -> str:
    """How many workers the loader has: "some", "none", or "" when that cannot be seen."""
    given = loader.argument("num_workers")
    if given is None:
        return "" if loader.has_star else "none"
    count = given.value.constant
    if not isinstance(count, int) or loader.has("multiprocessing_context"):
        return ""
    return "some" if count > 0 else "none"
