"""Processes of a group are not told which GPU is theirs.

## What it does
Finds NCCL process groups, and devices made from a rank, in files where the rank's GPU is never made
the current one, or only after a collective has run.

## Why it matters
Each process starts with GPU 0 as its current device. NCCL's first collective, pinned memory, plain
`"cuda"` and every library that asks for the current device then use GPU 0 in all processes: it runs
out of memory first, and a barrier may hang.

## Example
Call `torch.cuda.set_device(local_rank)` before the group is made.

## Fix safety
The name of the local rank is the program's, so no edit is proposed.

## When to ignore
When another file makes the device current first, or the launcher shows each process one GPU only.

## References
- PyTorch documentation, `torch.distributed`: with NCCL each process must have exclusive GPUs
- PyTorch, `torch.distributed.all_gather_object`: the caller has to set the current device
"""

import re
from collections.abc import Iterator

from analyzers.dryrun.values import Kind
from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import shown
from analyzers.off_paths import is_tried_out
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline

BAD = [
    Bad(
        """
        import os
        import torch
        import torch.distributed as dist
        import torch.multiprocessing as mp

        def worker(rank, world_size):
            dist.init_process_group(backend="nccl", rank=rank, world_size=world_size)  # <-
            model = torch.nn.Linear(8, 8).to(rank)
            dist.barrier()

        if __name__ == "__main__":
            mp.spawn(worker, args=(4,), nprocs=4)
        """
    ),
    # The barrier runs while GPU 0 is still everybody's.
    Bad(
        """
        import torch
        import torch.distributed as dist

        def setup(local_rank):
            dist.init_process_group("nccl")
            dist.barrier()
            torch.cuda.set_device(local_rank)  # <-
        """
    ),
    # The rank's device has a name and is not the current one.
    Bad(
        """
        import os
        import torch

        class Engine:
            def __init__(self):
                self.local_rank = int(os.environ["LOCAL_RANK"])
                self.device = torch.device("cuda", self.local_rank)  # <-
        """
    ),
]
GOOD = [
    """
    import torch
    import torch.distributed as dist

    def worker(rank, world_size):
        torch.cuda.set_device(rank)
        dist.init_process_group(backend="nccl", rank=rank, world_size=world_size)
        model = torch.nn.Linear(8, 8).cuda()
    """,
    # Nothing runs between the two.
    """
    import torch
    import torch.distributed as dist

    def worker(rank, world_size):
        dist.init_process_group(backend="nccl", rank=rank, world_size=world_size)
        torch.cuda.set_device(rank)
        dist.barrier()
    """,
    # The group knows the device.
    """
    import torch
    import torch.distributed as dist

    def worker(rank):
        dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    """,
    # On the host.
    """
    import torch
    import torch.distributed as dist

    def worker(rank, world_size):
        dist.init_process_group("gloo", rank=rank, world_size=world_size)
        return torch.ones(8)
    """,
    # Another file sets up the process.
    """
    import torch
    from project.dist import setup_dist

    def run(rank, world_size):
        setup_dist(rank, world_size)
        device = torch.device("cuda", rank)
        return torch.ones(8, device=device)
    """,
    # Not a rank: the user chose this GPU.
    """
    import torch

    def build(args):
        return torch.device(f"cuda:{args.gpu}")
    """,
]

# What makes a GPU current, or leaves each process only one to see.
_CURRENT = re.compile(
    r"set_device|device_id\b|VISIBLE_DEVICES|cuda\.device\(|select_device|PartialState"
    r"|^ *\w+ = Accelerator\(",
    re.MULTILINE,
)
_RANKED = re.compile(
    r"cuda:\{[^}]*rank|['\"]cuda['\"], *[\w.]*rank|cuda:(%d|%s|\{\})['\"].*rank", re.IGNORECASE
)
# A helper of the project sets up the process; it may make the GPU current as well.
_ELSEWHERE = re.compile(
    r"\b(setup|init|initiali[sz]e|launch)\w*_(dist\w*|ddp|parallel\w*|environment)\(|get_world_group\("
)
_COLLECTIVE = re.compile(r"\b(barrier|all_reduce|all_gather\w*|broadcast\w*|synchronize)\(")


@rule("GPU914", severity=Severity.WARNING, bad=BAD, good=GOOD)
def process_group_before_set_device(timeline: Timeline) -> Iterator[Finding]:
    source = timeline.source
    if is_tried_out(source.path):
        return
    groups = [call for call in timeline.calls("process_group") if _for_gpus(timeline, call)]
    named = None if groups else _rank_device(timeline)
    if not groups and named is None:
        return
    if _CURRENT.search(source.text):
        yield from _too_late(timeline, groups)
        return
    for group in groups[:1]:
        yield Finding(
            group.span,
            f"{shown(timeline.text(group.span))} joins a group of GPUs, and no GPU was made "
            "current before. All processes then meet on GPU 0. "
            "Call `torch.cuda.set_device(local_rank)` first.",
            Confidence.LIKELY if _whole_program(timeline) else Confidence.POSSIBLE,
            Severity.WARNING,
        )
    if named is not None and not _ELSEWHERE.search(source.text):
        yield Finding(
            named.span,
            f"{shown(timeline.text(named.span))} is this rank's GPU, and nothing here makes it "
            "the current one. What asks for the current device may get GPU 0. "
            "Call `torch.cuda.set_device` with it.",
            Confidence.POSSIBLE,
            Severity.WARNING,
        )


def _for_gpus(timeline: Timeline, call: Call) -> bool:
    if call.has_star or (call.place.function and "test" in call.place.function.roles):
        return False
    backend = call.argument("backend")
    if backend is not None and backend.value.known:
        return "nccl" in str(backend.value.constant).lower()
    named = backend is None or "'nccl'" in timeline.source.text.replace('"', "'")
    return named and bool(_RANKED.search(timeline.source.text))


def _whole_program(timeline: Timeline) -> bool:
    """Whether the file starts the processes itself and names each one's device."""
    text = timeline.source.text
    return bool(re.search(r"\bspawn\(", text) and "__main__" in text and ".to(rank" in text)


def _too_late(timeline: Timeline, groups: list[Call]) -> Iterator[Finding]:
    """The device is made current in the same function, behind a collective."""
    for group in groups:
        if group.has("device_id"):
            continue
        later = [
            call
            for call in timeline.calls("set_device")
            if call.place.function == group.place.function
        ]
        if not later or later[0].place.order < group.place.order:
            continue
        lines = timeline.source.text.splitlines()
        between = "\n".join(lines[group.span.end_line : later[0].span.line - 1])
        if _COLLECTIVE.search(between):
            yield Finding(
                later[0].span,
                "A collective of the group runs before this process has made its GPU current. "
                "All processes then meet on GPU 0. "
                f"Move {shown(timeline.text(later[0].span))} in front of `init_process_group`.",
                Confidence.LIKELY,
                Severity.WARNING,
            )


def _rank_device(timeline: Timeline) -> Call | None:
    """The first device that is named by the rank of a process."""
    places = (call for call in timeline.calls() if call.result.kind is Kind.PLACE)
    return next((call for call in places if _RANKED.search(timeline.text(call.span))), None)
