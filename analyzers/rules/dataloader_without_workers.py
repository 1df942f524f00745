"""The training process reads and decodes its own data between the steps.

## What it does
Finds a `DataLoader` without worker processes (`num_workers` missing or 0) whose data set reads
files or decodes images for each item.

## Why it matters
Without workers each batch is loaded in the process that trains, between two steps. The GPU waits
for Python, the disk and the decoder.

## Example
Start with `num_workers=min(8, os.cpu_count() or 1)` and measure.

## Fix safety
None is offered: worker processes change how the data set is started, seeded and pickled, need
memory of their own, and need `if __name__ == "__main__":` where processes are spawned.

## When to ignore
While debugging, in notebooks on systems that spawn processes, and where the items are in memory.

## References
- PyTorch performance tuning guide, "Enable asynchronous data loading and augmentation"
- TorchFix TOR401, torch.profiler's pattern for synchronous loaders
"""

from collections.abc import Iterator

from analyzers.dryrun.scan import ClassInfo
from analyzers.finding import Confidence, Finding, Severity, Span
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import torch
        from PIL import Image
        from torch.utils.data import DataLoader, Dataset

        class Photos(Dataset):
            def __init__(self, paths, transform):
                self.paths, self.transform = paths, transform

            def __len__(self):
                return len(self.paths)

            def __getitem__(self, index):
                return self.transform(Image.open(self.paths[index]))

        def train(model, paths, transform):
            photos = Photos(paths, transform)
            for x in DataLoader(photos, batch_size=64, shuffle=True, pin_memory=True):  # <-
                model(x.cuda(non_blocking=True))
        """
    ),
    Bad(
        """
        import torch
        from torchvision.datasets import ImageFolder

        def train(model, root, transform):
            photos = ImageFolder(root, transform=transform)
            loader = torch.utils.data.DataLoader(  # <-
                photos, batch_size=64, num_workers=0, pin_memory=True
            )
            for x, y in loader:
                model(x.cuda(non_blocking=True))
        """
    ),
]
GOOD = [
    """
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    def train(model, root, workers):
        for x, y in DataLoader(ImageFolder(root), num_workers=workers, pin_memory=True):
            model(x.cuda(non_blocking=True))
    """,
    # The items are in memory.
    """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    def train(model, x, y):
        for x, y in DataLoader(TensorDataset(x, y), batch_size=64, pin_memory=True):
            model(x.cuda(non_blocking=True))
    """,
    # Read once, when the data set is made.
    """
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):
        def __init__(self, path):
            self.rows = np.load(path)

        def __getitem__(self, index):
            return torch.from_numpy(self.rows[index])

    def train(model, path):
        for x in DataLoader(Rows(path), batch_size=64, pin_memory=True):
            model(x.cuda(non_blocking=True))
    """,
]

_PER_ITEM = ("__getitem__", "__iter__", "__getitems__")
_READS = frozenset(
    {"decode_image", "decode_jpeg", "imdecode", "imread", "load_image", "open", "read_image"}
)


@rule("GPU702", severity=Severity.INFO, bad=BAD, good=GOOD)
def dataloader_without_workers(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    files = {
        call.span
        for call in timeline.calls("dataset")
        if call.name.startswith("torchvision.datasets.")
    }
    for call in timeline.calls():
        if call.fact.kind != "loader" or "num_workers" not in call.fact.parameters:
            continue
        if call.has_star or _workers(call) or _in_test(call) or not _reads(call, files):
            continue
        moved = call.span in timeline.loaders_moved
        yield Finding(
            call.span,
            "This `DataLoader` has no workers, and its data set reads and decodes each item. The "
            "GPU waits for that between two steps. Try `num_workers=min(8, os.cpu_count() or 1)`.",
            Confidence.LIKELY if moved else Confidence.POSSIBLE,
            Severity.INFO,
        )


def _workers(call: Call) -> bool:
    given = call.argument("num_workers")
    return given is not None and given.value.constant != 0


def _in_test(call: Call) -> bool:
    function = call.place.function
    return function is not None and "test" in function.roles


def _reads(call: Call, files: set[Span]) -> bool:
    """Whether the data set reads a file or decodes for each item."""
    data = call.argument("dataset")
    if data is None:
        return False
    if isinstance(data.value.made_by, Call):
        return data.value.made_by.span in files
    info = data.value.ref
    if not isinstance(info, ClassInfo):
        return False
    methods = (info.method(name) for name in _PER_ITEM)
    return any(not _READS.isdisjoint(method.calls) for method in methods if method is not None)
