"""The status of a call of the CUDA bindings is thrown away.

## What it does
Finds calls of `cuda.bindings` whose result is discarded.

## Why it matters
These functions return a tuple that starts with a status and never raise. A copy or a launch that
failed looks like one that worked, and the error shows up somewhere else, or never.

## Example
Unpack the status and check it.

## Fix safety
A sketch: how a failure is to be handled, and which helper does it, is up to the project.

## When to ignore
While tearing down, when there is nothing left to do about a failure.

## References
- NVIDIA cuda-python, discussion 1035, and "Migrating to the _v2 Bindings"
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import shown
from analyzers.places import Guard
from analyzers.rule import Bad, rule
from analyzers.timeline import Timeline

BAD = [
    Bad(
        """
        from cuda.bindings import runtime as cudart

        def upload(device, host, size, stream):
            kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
            cudart.cudaMemcpyAsync(device, host.ctypes.data, size, kind, stream)  # <-
        """
    ),
    Bad(
        """
        from cuda import cuda

        def launch(kernel, grid, block, stream, arguments):
            cuda.cuLaunchKernel(kernel, *grid, *block, 0, stream, arguments, 0)  # <-
            cuda.cuStreamSynchronize(stream)  # <-
        """
    ),
]
GOOD = [
    """
    from cuda.bindings import runtime as cudart

    def check(result):
        if result[0]:
            raise RuntimeError(result[0])
        return result[1:]

    def upload(device, host, size, stream):
        kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        check(cudart.cudaMemcpyAsync(device, host.ctypes.data, size, kind, stream))
        (status,) = cudart.cudaStreamSynchronize(stream)
        return status
    """,
    # cuda.core raises.
    """
    from cuda.core import Device

    def wait():
        device = Device()
        device.set_current()
        device.sync()
    """,
    # Freed on the way out: a failure changes nothing any more.
    """
    from cuda.bindings import runtime as cudart

    class Buffer:
        def __init__(self, size):
            status, self.pointer = cudart.cudaMalloc(size)
            if status:
                raise MemoryError(size)

        def __del__(self):
            cudart.cudaFree(self.pointer)
    """,
]

_LEAVING = frozenset({"__del__", "__exit__", "close", "free", "release", "destroy", "shutdown"})
_EFFECTS = frozenset({"status", "raw_handle", "allocate"})


@rule("GPU907", severity=Severity.ERROR, bad=BAD, good=GOOD)
def cuda_python_status_ignored(timeline: Timeline) -> Iterator[Finding]:
    for call in timeline.calls():
        if call.fact.effect not in _EFFECTS or call.fact.gives != "list":
            continue
        function = call.place.function
        leaving = function is not None and function.name in _LEAVING
        if call.span != call.place.statement or leaving or Guard.ERROR in call.place.guards:
            continue
        if call.method[:1].isupper() or call.method.endswith(("Free", "Destroy")):
            continue  # an enumeration or a structure, or the end of something
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} returns a status that nobody looks at. "
            "These bindings never raise, so a failure goes unnoticed. "
            "Unpack the status and check it.",
            Confidence.LIKELY,
            Severity.ERROR,
        )
