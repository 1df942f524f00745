"""A kernel of another library is launched on data of a side stream that it knows nothing of.

## What it does
Finds launches of Numba and calls of CuPy, PyCUDA or Warp on a tensor that was made on a side
stream of PyTorch, where the other library uses its own default stream.

## Why it matters
Every library keeps its own current stream. `with torch.cuda.stream(s):` moves PyTorch's work only;
the other library goes on using the default stream, which does not wait for a non-blocking stream.
The kernel reads what is not there yet.

## Example
Hand the stream over: `cuda.external_stream(s.cuda_stream)` in Numba,
`cp.cuda.ExternalStream(s.cuda_stream)` in CuPy.

## Fix safety
A sketch: how a stream is handed over depends on the versions of the two libraries.

## When to ignore
When the other library was told of the stream in a way that the analysis cannot see.

## References
- CuPy documentation, "Interoperability", PyTorch
- Numba source, the dispatcher's default stream is 0; Triton asks PyTorch for its current stream
"""

from collections.abc import Iterator

from analyzers import crossing
from analyzers.finding import Confidence, Finding, Severity
from analyzers.rule import Bad, rule
from analyzers.timeline import CrossStream, Timeline

BAD = [
    Bad(
        """
        import torch
        from numba import cuda

        @cuda.jit
        def shift(values):
            i = cuda.grid(1)
            if i < values.size:
                values[i] += 1

        def run(net, batch, grid, threads):
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                x = net(batch.cuda(non_blocking=True))
                shift[grid, threads](cuda.as_cuda_array(x))  # <-
            side.synchronize()
            return x
        """
    ),
    Bad(
        """
        import cupy as cp
        import torch

        def run(net, batch):
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                x = net(batch.cuda(non_blocking=True))
                y = cp.multiply(cp.asarray(x), 2)  # <-
            torch.cuda.synchronize()
            return y
        """
    ),
]
GOOD = [
    # The stream is handed over.
    """
    import torch
    from numba import cuda

    @cuda.jit
    def shift(values):
        i = cuda.grid(1)
        if i < values.size:
            values[i] += 1

    def run(net, batch, grid, threads):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = net(batch.cuda(non_blocking=True))
            stream = cuda.external_stream(side.cuda_stream)
            shift[grid, threads, stream](cuda.as_cuda_array(x))
        side.synchronize()
        return x
    """,
    # A kernel of Triton follows PyTorch's current stream.
    """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def shift(values, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(values + offsets, mask=offsets < n)
        tl.store(values + offsets, x + 1, mask=offsets < n)

    def run(net, batch):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = net(batch.cuda(non_blocking=True))
            with torch.cuda.device(x.device):
                shift[(triton.cdiv(x.numel(), 256),)](x, x.numel(), BLOCK=256)
        torch.cuda.current_stream().wait_stream(side)
        return x
    """,
]

MESSAGE = (
    "{what} uses the default stream of its library, but its data is made in line {line} on {side}. "
    "Each library keeps a current stream of its own, so nothing orders the two. "
    "Hand the stream over, or wait for it first."
)


@rule("GPU306", severity=Severity.ERROR, bad=BAD, good=GOOD)
def foreign_launch_inside_torch_stream(timeline: Timeline) -> Iterator[Finding]:
    for cross in timeline.of(CrossStream):
        if not crossing.foreign(cross) or cross.producer_library or not cross.producer:
            continue
        found = crossing.finding(timeline, cross, MESSAGE, Severity.ERROR, None)
        if found.confidence is not Confidence.POSSIBLE or cross.place.stream == cross.producer:
            yield found
