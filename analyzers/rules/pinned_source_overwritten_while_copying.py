"""Page-locked memory is refilled while an asynchronous copy to the device still reads it.

## What it does
Finds page-locked buffers that are written again (`copy_`, an element or slice assignment, `fill_`)
after an asynchronous copy from them, with nothing that waits for that copy: on the next turn of a
loop, later in the function, or at the next call of the same method.

## Why it matters
`non_blocking=True` from page-locked memory only queues the transfer. The copy engine reads the
pages after the call has returned; what the host writes meanwhile ends up on the device in part.
With pageable memory the driver takes its own copy first, so pinning a buffer can bring this to
light.

## Example
Keep two buffers with an event each and wait for the event before refilling, or pin a fresh tensor
per step: PyTorch's host allocator keeps it until the copy has ended.

## Fix safety
A sketch: where to wait, or how many buffers there should be, is a decision.

## When to ignore
When the caller waits between two calls, for example because it reads a result of every step.

## References
- PyTorch tutorial on pinned memory and `non_blocking`: changing the original while it is copied
- PyTorch source, `Copy.cu`: the event that the host allocator records protects freeing, not writing
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Related, Severity
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import HostWrite, Timeline

BAD = [
    Bad(
        """
        import torch

        def batches(arrays, shape, device):
            staging = torch.empty(shape, pin_memory=True)
            for array in arrays:
                staging.copy_(torch.from_numpy(array))  # <-
                yield staging.to(device, non_blocking=True)
        """
    ),
    Bad(
        """
        import torch

        def upload(first, second, device):
            staging = torch.empty(1024, pin_memory=True)
            staging[:] = first
            a = staging.to(device, non_blocking=True)
            staging[:] = second  # <-
            b = staging.to(device, non_blocking=True)
            return a, b
        """
    ),
    # From one call to the next.
    Bad(
        """
        import torch

        class Lengths:
            def __init__(self, slots):
                self.host = torch.zeros(slots, dtype=torch.int32, pin_memory=True)
                self.device = torch.zeros(slots, dtype=torch.int32, device="cuda")

            def send(self, lengths):
                for slot, length in enumerate(lengths):
                    self.host[slot] = length
                self.device.copy_(self.host, non_blocking=True)  # <-
                return self.device
        """
    ),
    # Filled by one method, through an array's view, and sent by another.
    Bad(
        """
        import torch

        class Table:
            def __init__(self, rows, device):
                self.host = torch.zeros((rows, rows), dtype=torch.int32, pin_memory=True)
                self.host_np = self.host.numpy()
                self.device = torch.zeros((rows, rows), dtype=torch.int32, device=device)

            def append(self, row, ids):
                self.host_np[row, : len(ids)] = ids

            def commit(self, rows):
                self.device[:rows].copy_(self.host[:rows], non_blocking=True)  # <-
        """
    ),
    Bad(
        """
        import numpy as np
        import torch

        class Positions:
            def __init__(self, n, device):
                self.host = torch.zeros(n, dtype=torch.int64, pin_memory=True)
                self.host_np = self.host.numpy()
                self.device = torch.zeros(n, dtype=torch.int64, device=device)

            def prepare(self, starts, steps, n):
                np.add(starts, steps, out=self.host_np[:n])
                self.device[:n].copy_(self.host[:n], non_blocking=True)  # <-
        """
    ),
]
GOOD = [
    # The event of the last copy is waited for before the buffer is refilled.
    """
    import torch

    def batches(arrays, shape, device):
        staging = torch.empty(shape, pin_memory=True)
        copied = torch.cuda.Event()
        for array in arrays:
            copied.synchronize()
            staging.copy_(torch.from_numpy(array))
            batch = staging.to(device, non_blocking=True)
            copied.record()
            yield batch
    """,
    # Pageable memory: the driver has taken its own copy when the call returns.
    """
    import torch

    def batches(arrays, shape, device):
        staging = torch.empty(shape)
        for array in arrays:
            staging.copy_(torch.from_numpy(array))
            yield staging.to(device, non_blocking=True)
    """,
    # A fresh tensor per step.
    """
    import torch

    def batches(arrays, device):
        for array in arrays:
            staging = torch.from_numpy(array).pin_memory()
            yield staging.to(device, non_blocking=True)
    """,
    # The copy waits.
    """
    import torch

    class Lengths:
        def __init__(self, slots):
            self.host = torch.zeros(slots, dtype=torch.int32, pin_memory=True)
            self.device = torch.zeros(slots, dtype=torch.int32, device="cuda")

        def send(self, lengths):
            for slot, length in enumerate(lengths):
                self.host[slot] = length
            self.device.copy_(self.host)
            return self.device
    """,
    # Another method of the class waits.
    """
    import torch

    class Table:
        def __init__(self, rows, device):
            self.host = torch.zeros((rows, rows), dtype=torch.int32, pin_memory=True)
            self.host_np = self.host.numpy()
            self.device = torch.zeros((rows, rows), dtype=torch.int32, device=device)
            self.sent = torch.cuda.Event()

        def begin(self):
            self.sent.synchronize()

        def append(self, row, ids):
            self.host_np[row, : len(ids)] = ids

        def commit(self, rows):
            self.device[:rows].copy_(self.host[:rows], non_blocking=True)
            self.sent.record()
    """,
]


@rule("GPU309", severity=Severity.ERROR, bad=BAD, good=GOOD)
def pinned_source_overwritten_while_copying(timeline: Timeline) -> Iterator[Finding]:
    for write in timeline.of(HostWrite):
        copy = write.copy
        sure = write.sure.weaker(Confidence.LIKELY)
        function = write.place.function
        if function is not None and "test" in function.roles:
            sure = Confidence.POSSIBLE
        if write.by_next_call:
            yield _from_call_to_call(timeline, write, sure)
            continue
        verb = "may still be reading" if sure is Confidence.POSSIBLE else "is still reading"
        yield Finding(
            write.place.span,
            f"{shown(timeline.text(write.place.span))} refills page-locked memory while the "
            f"asynchronous copy in line {copy.call.span.line} {verb} it. The device gets a mix of "
            "old and new bytes. Wait for an event recorded after the copy, or use one buffer per "
            "copy under way.",
            sure,
            Severity.ERROR,
            related=(Related(copy.call.span, "this copy returns before the bytes are read"),),
        )


def _from_call_to_call(timeline: Timeline, write: HostWrite, sure: Confidence) -> Finding:
    copy = write.copy
    verb = "may still be reading" if sure is Confidence.POSSIBLE else "is still reading"
    return Finding(
        copy.call.span,
        f"{shown(timeline.text(copy.call.span))} {verb} page-locked memory when the next call "
        f"refills it in line {write.place.span.line}. The device gets a mix of old and new bytes. "
        "Let the copy wait, wait for its event before refilling, or alternate between two buffers.",
        sure,
        Severity.ERROR,
        related=(Related(write.place.span, "the next call writes here"),),
    )
