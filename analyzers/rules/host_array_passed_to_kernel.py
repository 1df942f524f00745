"""A kernel is launched on a host array again and again.

## What it does
Finds Numba kernels that are launched on NumPy arrays in a loop, or several times on the same array.

## Why it matters
Numba accepts a host array, and pays for it at each launch: it allocates device memory, copies the
array there, waits for the kernel, and copies the array back, whether or not the kernel changed
it. All of that is synchronous.

## Example
Copy the array once with `cuda.to_device`, launch on the device array, and call `copy_to_host` when
the host needs the result.

## Fix safety
A sketch only: the host sees results no earlier than the explicit copy. `cuda.In(a)` and
`cuda.Out(a)` at least halve the copies of a single launch.

## When to ignore
In scripts that launch once, and for mapped or managed arrays.

## References
- Numba documentation, "Writing CUDA Kernels": note on implicit copies
- `NUMBA_CUDA_WARN_ON_IMPLICIT_COPY`, the same remark at run time
"""

from collections import Counter
from collections.abc import Iterator

from analyzers.dryrun.values import Device, Kind, Value
from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import applies, measured, shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Argument, Call, Launch, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import numpy as np
        from numba import cuda

        @cuda.jit
        def relax(grid):
            i = cuda.grid(1)
            if i < grid.size:
                grid[i] *= 0.5

        def run(count, turns):
            grid = np.zeros(count, np.float32)
            for _ in range(turns):
                relax[(count + 255) // 256, 256](grid)  # <-
            return grid
        """
    ),
    Bad(
        """
        import numpy as np
        from numba import cuda

        @cuda.jit
        def relax(grid):
            i = cuda.grid(1)
            if i < grid.size:
                grid[i] *= 0.5

        def run(count):
            grid = np.ones(count, np.float32)
            relax[(count + 255) // 256, 256](grid)  # <-
            relax[(count + 255) // 256, 256](grid)  # <-
            return grid
        """
    ),
]
GOOD = [
    """
    import numpy as np
    from numba import cuda

    @cuda.jit
    def relax(grid):
        i = cuda.grid(1)
        if i < grid.size:
            grid[i] *= 0.5

    def run(count, turns):
        grid = cuda.to_device(np.zeros(count, np.float32))
        for _ in range(turns):
            relax[(count + 255) // 256, 256](grid)
        return grid.copy_to_host()
    """,
    # Mapped memory is read where it is.
    """
    import numpy as np
    from numba import cuda

    @cuda.jit
    def relax(grid):
        i = cuda.grid(1)
        if i < grid.size:
            grid[i] *= 0.5

    def run(count, turns):
        grid = cuda.mapped_array(count, np.float32)
        for _ in range(turns):
            relax[(count + 255) // 256, 256](grid)
        cuda.synchronize()
        return grid
    """,
    # A script that launches once.
    """
    import numpy as np
    from numba import cuda

    @cuda.jit
    def relax(grid):
        i = cuda.grid(1)
        if i < grid.size:
            grid[i] *= 0.5

    grid = np.zeros(1024, np.float32)
    relax[4, 256](grid)
    print(grid)
    """,
]


@rule(
    "GPU214",
    severity=Severity.WARNING,
    bad=BAD,
    good=GOOD,
    instead_of=("GPU105",),
)
def host_array_passed_to_kernel(timeline: Timeline) -> Iterator[Finding]:
    if measures(timeline):
        return
    launches = [
        launch
        for launch in timeline.of(Launch)
        if launch.call.fact.waits == "copy" and applies(launch.place) and not measured(launch.place)
    ]
    uses = Counter(
        (launch.place.function, argument.value.ident)
        for launch in launches
        for argument in _on_host(launch)
    )
    for launch in launches:
        arrays = _on_host(launch)
        often = any(uses[launch.place.function, a.value.ident] > 1 for a in arrays)
        if not arrays or not (launch.place.in_loop or often):
            continue
        names = ", ".join(shown(timeline.text(a.span), 20) for a in arrays[:3])
        each = "copies" if len(arrays) == 1 else "each copy"
        yield Finding(
            launch.place.span,
            f"This launch {each.replace('each copy', 'copies')} {names} from the host to the "
            "device and back, every time, and waits for it. Copy once with `cuda.to_device`, "
            "launch on that, and fetch the result at the end.",
            _confidence(arrays),
            Severity.WARNING,
        )


def _on_host(launch: Launch) -> list[Argument]:
    """The arguments that are host arrays without a hint about their use."""
    return [argument for argument in launch.call.arguments if _is_host(argument.value)]


def _is_host(value: Value) -> bool:
    if value.kind is not Kind.TENSOR or value.device is not Device.HOST or value.scalar:
        return False
    made = value.made_by
    given = made.fact.effect if isinstance(made, Call) else ""
    return given not in ("kernel_argument", "managed")


def _confidence(arrays: list[Argument]) -> Confidence:
    best = min((argument.value.sure for argument in arrays), key=lambda sure: sure.rank)
    return Confidence.LIKELY.weaker(best)
