"""Every item of a collection makes its own trip to the device.

## What it does
Finds uploads of one host array at a time in a loop over a collection, and the copies back to the
host of what was made of them in the same turn.

## Why it matters
A copy has a fixed cost: a call into the driver, the start of a transfer, and for pageable memory a
wait. Small copies never fill the bus, and with a kernel and a copy back in each turn the host, the
copy engine and the GPU take turns instead of working at the same time.

## Example
Stack the items, copy them once, launch once over the whole batch, and copy the result back once.
Where the shapes differ, concatenate the flattened items and pass offsets, counted in elements.

## Fix safety
A sketch only: the batch must fit into memory, and the kernel's indices change.

## When to ignore
When the data is streamed because it does not fit, or the loop is a pipeline with several streams
and pinned buffers.

## References
- CUDA C++ Best Practices Guide, "Data transfer between host and device": batch small transfers
- Numba documentation, "Memory management"
"""

from collections.abc import Iterator

from analyzers.copying import inside, same_turn, turn
from analyzers.dryrun.values import Device, Kind
from analyzers.finding import Confidence, Finding, Severity, Span
from analyzers.judging import applies, measured, shown
from analyzers.places import Loop, LoopKind
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Direction, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import numpy as np
        from numba import cuda

        @cuda.jit
        def scale(values, factor):
            i = cuda.grid(1)
            if i < values.size:
                values[i] *= factor

        def scaled(images):
            results = []
            for image in images:
                flat = image.reshape(-1).astype(np.float32)
                device = cuda.to_device(flat)  # <-
                scale[(flat.size + 255) // 256, 256](device, 2.0)
                results.append(device.copy_to_host())  # <-
            return results
        """
    ),
    Bad(
        """
        import torch

        def embed(model, rows):
            model.cuda()
            x = torch.stack([torch.tensor(row).cuda() for row in rows])  # <-
            return model(x)
        """
    ),
]
GOOD = [
    # One copy each way.
    """
    import numpy as np
    from numba import cuda

    def scaled(kernel, images):
        batch = cuda.to_device(np.stack(images))
        kernel[batch.size // 256 + 1, 256](batch, 2.0)
        return batch.copy_to_host()
    """,
    # A batch is a mapping of a few tensors.
    """
    import torch

    def train(model, loader, device):
        for batch in loader:
            batch = {name: value.to(device) for name, value in batch.items()}
            model(**batch)
    """,
    # Each turn sends what it has gathered.
    """
    import cupy as cp
    import numpy as np

    def corrected(parts, trained, out):
        for part in parts:
            found = np.concatenate([model.predict(part) for model in trained])
            out.append(cp.fft.fft(cp.asarray(found)).get())
    """,
    # A pipeline: the copies are asynchronous, on a stream of their own.
    """
    from numba import cuda

    def pipeline(kernel, chunks, buffers, streams):
        for chunk, buffer, stream in zip(chunks, buffers, streams):
            buffer[:] = chunk
            device = cuda.to_device(buffer, stream=stream)
            kernel[64, 256, stream](device)
            device.copy_to_host(buffer, stream=stream)
        cuda.synchronize()
    """,
]


@rule(
    "GPU205",
    severity=Severity.WARNING,
    bad=BAD,
    good=GOOD,
    instead_of=("GPU105", "GPU116"),
)
def per_item_transfer_in_loop(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    copies = [c for c in timeline.of(Copy) if c.blocking and applies(c.place)]
    for copy in copies:
        if measured(copy.place):
            continue
        sure = _stacked(timeline, copy) or _there_and_back(timeline, copy, copies)
        loop = copy.place.loops[-1] if copy.place.loops else None
        if sure is None or loop is None or _spoken_for(copy):
            continue
        way = "to the device" if copy.direction is Direction.TO_DEVICE else "back to the host"
        yield Finding(
            copy.place.span,
            f"{shown(timeline.text(copy.place.span))} copies one item {way} for each turn of the "
            f"loop in line {loop.span.line}. Each copy pays its own start and its own wait, and "
            "none is large enough to fill the bus. Gather the items and copy them at once.",
            sure.weaker(copy.result.sure if copy.direction is Direction.TO_DEVICE else sure),
            Severity.WARNING,
        )


def _stacked(timeline: Timeline, copy: Copy) -> Confidence | None:
    """`torch.stack([row.cuda() for row in rows])`: stack first, move once."""
    loop = copy.place.loops[-1] if copy.place.loops else None
    if copy.direction is not Direction.TO_DEVICE or loop is None or not loop.comprehension:
        return None
    if loop.kind is LoopKind.FEW or _is_on_device(loop):
        return None
    joins = (call for call in timeline.calls() if call.method in _JOINS)
    joined = any(inside(copy.place.span, a.span) for call in joins for a in call.arguments)
    return Confidence.LIKELY if joined else None


_JOINS = frozenset({"cat", "concat", "concatenate", "hstack", "stack", "vstack"})


def _is_on_device(loop: Loop) -> bool:
    return loop.over.on_gpu or loop.over.kind is Kind.MAPPING


def _there_and_back(timeline: Timeline, copy: Copy, copies: list[Copy]) -> Confidence | None:
    """An item goes up, work is done with it, and the result comes back: all in one turn."""
    loop = turn(copy.place)
    if loop is None or _is_on_device(loop) or not _by_hand(copy):
        return None
    partners = [
        other
        for other in copies
        if other.direction is not copy.direction
        and _by_hand(other)
        and same_turn(other.place, copy.place)
    ]
    if not partners:
        return None
    if copy.direction is Direction.TO_HOST and not _made_this_turn(copy):
        return None
    if copy.direction is Direction.TO_DEVICE and not any(_made_this_turn(p) for p in partners):
        return None
    if _reads_files(timeline, loop.span):
        return Confidence.POSSIBLE
    return Confidence.LIKELY if loop.kind is LoopKind.ITEMS else Confidence.POSSIBLE


def _by_hand(copy: Copy) -> bool:
    """A copy of an array library, not of a framework whose batches are moved once per step."""
    if copy.direction is Direction.TO_HOST:
        return not copy.source.type.startswith("torch.")
    made = copy.source.made_by
    gathered = isinstance(made, Call) and made.method in _JOINS
    changing = copy.source.device is not Device.GPU and not copy.source.homemade and not gathered
    return changing and not copy.result.type.startswith("torch.")


def _spoken_for(copy: Copy) -> bool:
    """CuPy's way back has a rule of its own (GPU117)."""
    return copy.direction is Direction.TO_HOST and copy.source.type.startswith("cupy.")


def _made_this_turn(copy: Copy) -> bool:
    made = copy.source.made_by
    return isinstance(made, Call) and same_turn(made.place, copy.place)


def _reads_files(timeline: Timeline, loop: Span) -> bool:
    """The items are read from files in the loop: they may be too many for the memory."""
    return any(
        call.fact.effect in ("load", "file", "save")
        and any(around.span == loop for around in call.place.loops)
        for call in timeline.calls()
    )
