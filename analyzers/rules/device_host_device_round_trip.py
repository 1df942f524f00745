"""Data goes from the device to the host and back.

## What it does
Follows what was fetched from the device (`.cpu()`, `.get()`, `.copy_to_host()`, `asnumpy`)
through host code, and reports it when the result is sent to the device again.

## Why it matters
Two crossings of PCIe and two waits for work that device memory would have done at its own
bandwidth, 30 to 120 times that of the host link.

## Example
Use the operation of the library that holds the data, or hand the memory over with DLPack.

## Fix safety
There is no mechanical fix: which operation replaces the host code is for the author to choose.
A zero-copy exchange shares memory, so both sides must keep it alive.

## When to ignore
When the library has no such operation on the device and the data is small.

## References
- CuPy user guide, "Interoperability"
- PyTorch source, `Tensor.__dlpack__(stream=…)`
"""

from collections.abc import Iterator

from analyzers.copying import moved_span, sent
from analyzers.dryrun.values import Device, Kind
from analyzers.dryrun.work import fetched_from
from analyzers.finding import Confidence, Finding, Related, Severity, Span
from analyzers.judging import shown
from analyzers.making import left_alone
from analyzers.places import Heat
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Copy, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import numpy as np
        import torch

        def sort(rows: torch.Tensor, columns: torch.Tensor):
            keys = rows.cuda()
            order = np.lexsort([keys.cpu().numpy()])  # <-
            return torch.from_numpy(order).to(keys.device)
        """
    ),
    Bad(
        """
        import cupy as cp
        import numpy as np

        def offsets(counts):
            d_counts = cp.asarray(counts)
            for _ in range(10):
                d_counts = d_counts * 2
                host = d_counts.get()  # <-
                d_counts = cp.asarray(np.cumsum(host))
            return d_counts
        """
    ),
    # Through a helper, and whatever the tensor's place is called.
    Bad(
        """
        import numpy as np
        import torch

        class Noise:
            def add(self, frames: np.ndarray) -> np.ndarray:
                return frames + np.random.randn(*frames.shape)

            def process(self, frames: torch.Tensor) -> torch.Tensor:
                host = frames.cpu().detach().numpy()  # <-
                return torch.from_numpy(self.add(host)).to(dtype=frames.dtype, device=frames.device)
        """
    ),
    Bad(
        """
        import torch
        from .audio import stft

        def features(batches, settings):
            for batch in batches:
                spectrum = stft(batch["wave"].cpu().numpy(), 512)  # <-
                yield torch.from_numpy(abs(spectrum)).to(settings["device"])
        """
    ),
    Bad(
        """
        import numpy as np
        from numba import cuda

        def starts(d_counts):
            counts = d_counts.copy_to_host()  # <-
            return cuda.to_device(np.cumsum(counts))
        """
    ),
    # A Python list is a way over the host as well.
    Bad(
        """
        import torch

        def relabelled(labels: torch.Tensor, table):
            names = labels.cuda().tolist()  # <-
            return torch.tensor(names, device="cuda")
        """
    ),
    # The library that holds the data has the function too.
    Bad(
        """
        import numpy as np
        import torch

        def factor(sigma: torch.Tensor):
            lower = np.linalg.cholesky(sigma.cpu().numpy())  # <-
            return torch.from_numpy(lower)
        """
    ),
]
GOOD = [
    # The state of an object is parked on the host, and fetched back by another method.
    """
    import cupy as cp

    class Particles:
        def to_gpu(self):
            self.z = cp.asarray(self.z)

        def to_cpu(self):
            self.z = self.z.get()
    """,
    # Fetched for the host alone.
    """
    import numpy as np
    import torch

    def sort(keys: torch.Tensor):
        return np.lexsort([keys.cuda().cpu().numpy()])
    """,
    # Another array goes up.
    """
    import cupy as cp
    import numpy as np

    def step(x, table):
        shown = cp.asarray(x).get()
        print(shown)
        return cp.asarray(np.cumsum(table))
    """,
    # Sizes are needed on the host.
    """
    import torch

    def parts(x: torch.Tensor, lengths: torch.Tensor):
        sizes = lengths.tolist()
        masks = [torch.zeros(n, device=x.device) for n in sizes]
        return torch.split(x, sizes), masks
    """,
    # Not data, only its shape.
    """
    import numpy as np
    import torch

    def blank(target: torch.Tensor, shown):
        shown.append(target.cpu().numpy())
        return torch.from_numpy(np.zeros(target.shape)).to(target.device)
    """,
]


@rule(
    "GPU209",
    severity=Severity.WARNING,
    bad=BAD,
    good=GOOD,
    instead_of=("GPU105", "GPU117"),
)
def device_host_device_round_trip(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    spoken: set[Span] = set()
    for copy in sent(timeline):
        fetched = fetched_from((copy.source,))
        if not isinstance(fetched, Copy):
            continue
        if left_alone(copy.place) or left_alone(fetched.place):
            continue
        if _parked(timeline, fetched) and _parked(timeline, copy) and _one_state(fetched, copy):
            continue
        spoken.add(fetched.place.span)
        yield Finding(
            fetched.place.span,
            f"{shown(timeline.text(fetched.place.span))} brings data to the host that goes back to "
            f"the device in line {copy.place.span.line}. That is two copies over PCIe and two "
            "waits. Keep the step between them on the device.",
            _confidence(fetched, copy),
            Severity.WARNING,
            related=(Related(copy.place.span, "sent back here"),),
        )
    yield from _detours(timeline, spoken)


def _detours(timeline: Timeline, spoken: set[Span]) -> Iterator[Finding]:
    """A tensor is fetched for one function of another library, and made a tensor again."""
    for call in timeline.calls():
        fetched = call.result.fetched
        if not isinstance(fetched, Copy) or not _comes_back(call, fetched):
            continue
        if fetched.place.span in spoken or left_alone(fetched.place) or left_alone(call.place):
            continue
        spoken.add(fetched.place.span)
        made = call.arguments[0].value.made_by
        yield Finding(
            fetched.place.span,
            f"{shown(timeline.text(fetched.place.span))} may bring data to the host only for "
            f"{shown(timeline.text(made.callee))}, whose result is made a tensor again. That is a "
            "wait and two copies. Use the function of the library that holds the data.",
            Confidence.POSSIBLE,
            Severity.WARNING,
            related=(Related(call.span, "a tensor again here"),),
        )


def _comes_back(call: Call, fetched: Copy) -> bool:
    """Whether the call wraps an array that a function of another library has computed."""
    result, data = call.result, call.arguments[0].value if call.arguments else None
    if result.kind is not Kind.TENSOR or result.device is not Device.HOST or data is None:
        return False
    if fetched.source.type != result.type or data.type in ("", result.type):
        return False
    made = data.made_by
    return isinstance(made, Call) and made.receiver is None and not made.fact.view


def _parked(timeline: Timeline, copy: Copy) -> bool:
    """`self.z = self.z.get()`: the whole state of an object changes sides."""
    moved = moved_span(copy)
    statement = timeline.text(copy.place.statement)
    return moved is not None and statement.startswith(f"{timeline.text(moved)} =")


def _one_state(fetched: Copy, copy: Copy) -> bool:
    """Whether both copies may be about the same thing, and not about a step of a computation."""
    one, other = moved_span(fetched), moved_span(copy)
    return one == other or fetched.place.function != copy.place.function


def _confidence(fetched: Copy, copy: Copy) -> Confidence:
    cold = Heat.COLD in (fetched.place.heat, copy.place.heat)
    if cold or not fetched.source.on_gpu or _may_be_parked(fetched, copy):
        # A tensor that comes back as a tensor may only have been parked to free device memory.
        return Confidence.POSSIBLE
    sure = Confidence.LIKELY.weaker(fetched.source.sure).weaker(copy.result.sure)
    if fetched.place.function != copy.place.function:
        return Confidence.POSSIBLE  # a helper, which others may use for what stays on the host
    rare = fetched.place.heat is Heat.UNKNOWN and fetched.source.sure is not Confidence.CERTAIN
    return Confidence.POSSIBLE if rare else sure


def _may_be_parked(fetched: Copy, copy: Copy) -> bool:
    """No other library has touched the data on its way."""
    made_by = copy.source.made_by
    given = [a.value.type for a in made_by.arguments] if isinstance(made_by, Call) else []
    return all(name in ("", fetched.source.type) for name in (copy.source.type, *given))
