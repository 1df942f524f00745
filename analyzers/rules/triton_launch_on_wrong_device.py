"""A kernel is launched on the current device, which need not be the device of its tensors.

## What it does
Finds launches of Triton kernels, and of Numba and CuPy kernels on tensors of PyTorch, in functions
that are given their tensors, where nothing makes the tensors' device current.

## Why it matters
PyTorch's own operators switch to the device of their inputs; a launch from Python does not. With
tensors on `cuda:1` and device 0 current the launch fails with an address that cannot be accessed,
or, where the devices can reach each other's memory, gives wrong numbers.

## Example
Launch within `with torch.cuda.device(x.device):`.

## Fix safety
With one GPU the context does nothing. It is shown with its condition because a tensor that is on
no CUDA device, as with Triton's interpreter, makes `torch.cuda.device` raise.

## When to ignore
In a program that calls `torch.cuda.set_device` once per process.

## References
- Triton source, `runtime/jit.py`: the launcher asks for the current device and stream
- Triton issue 2925, and the device guards that several kernel libraries have added since
"""

import re
from collections.abc import Iterator

from analyzers.dryrun.values import Kind, Value
from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import wrap_statements
from analyzers.judging import shown
from analyzers.places import Function
from analyzers.rule import Bad, rule
from analyzers.timeline import Argument, Call, Launch, Timeline

BAD = [
    Bad(
        """
        import torch
        import triton
        import triton.language as tl

        @triton.jit
        def _double(x, y, n, BLOCK: tl.constexpr):
            offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            values = tl.load(x + offsets, mask=offsets < n)
            tl.store(y + offsets, values * 2, mask=offsets < n)

        def double(x: torch.Tensor):
            y = torch.empty_like(x)
            _double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)  # <-
            return y
        """,
        fixed="""
        import torch
        import triton
        import triton.language as tl

        @triton.jit
        def _double(x, y, n, BLOCK: tl.constexpr):
            offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            values = tl.load(x + offsets, mask=offsets < n)
            tl.store(y + offsets, values * 2, mask=offsets < n)

        def double(x: torch.Tensor):
            y = torch.empty_like(x)
            with torch.cuda.device(x.device):
                _double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
            return y
        """,
    ),
    Bad(
        """
        import cupy as cp
        import torch

        code = r'extern "C" __global__ void fill(float* x) { x[threadIdx.x] = 1; }'
        fill = cp.RawKernel(code, "fill")

        def ones(x: torch.Tensor):
            fill((1,), (x.numel(),), (cp.asarray(x),))  # <-
            return x
        """
    ),
]
GOOD = [
    """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def _double(x, y, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + offsets, mask=offsets < n)
        tl.store(y + offsets, values * 2, mask=offsets < n)

    def double(x: torch.Tensor):
        y = torch.empty_like(x)
        with torch.cuda.device(x.device):
            _double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
    """,
    # A decorator of the project does it.
    """
    import torch
    import triton
    import triton.language as tl
    from project.devices import input_guard

    @triton.jit
    def _double(x, y, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + offsets, mask=offsets < n)
        tl.store(y + offsets, values * 2, mask=offsets < n)

    @input_guard
    def double(x: torch.Tensor):
        y = torch.empty_like(x)
        _double[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
    """,
    # A script with tensors of its own on one GPU.
    """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def _double(x, y, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + offsets, mask=offsets < n)
        tl.store(y + offsets, values * 2, mask=offsets < n)

    def main():
        x = torch.ones(1024, device="cuda")
        y = torch.empty_like(x)
        _double[(4,)](x, y, x.numel(), BLOCK=256)
        print(y.sum().item())
    """,
]

_SAID = 3  # who reads of three launches in a file knows of the others
_ONE_DEVICE = re.compile(r"set_device\(|__main__|do_bench|CUDA_VISIBLE_DEVICES")
_ELSEWHERE = re.compile(r"(^|[/_.])(ascend|npu|xpu|musa|mlu)([/_.]|$)", re.IGNORECASE)
_PASS = re.compile(r"(^|_)(fwd|bwd|forward|backward)(_|$)")
_AWAY = re.compile(r"(^|/)((tests?|bench\w*|tutorials?|examples|scripts)/|(test_|bench)\w*\.py)")


@rule("GPU908", severity=Severity.WARNING, bad=BAD, good=GOOD)
def triton_launch_on_wrong_device(timeline: Timeline) -> Iterator[Finding]:
    launches = list(timeline.of(Launch))
    if not launches or _AWAY.search(timeline.source.path):
        return
    if _ONE_DEVICE.search(timeline.source.text):
        return
    if _ELSEWHERE.search(timeline.source.path):
        return
    shared = _PER_PROCESS.search(timeline.source.text)
    seen: set[str] = set()
    for launch in launches:
        function = launch.place.function
        if function is None or launch.place.device_guarded or "test" in function.roles:
            continue
        given = _handed_in(timeline, launch, function)
        # Autograd runs backward() in a thread whose device is that of the gradients.
        backward = function.name == "backward" and "autograd_function" in function.roles
        if not given or backward or function.qualname in seen:
            continue
        seen.add(function.qualname)
        name = next((g for g in given if g.value.kind is Kind.TENSOR), None)
        where = f"`{timeline.text(name.span)}`" if name is not None else "its tensors"
        yield Finding(
            launch.place.span,
            f"{shown(timeline.text(launch.call.callee))} is launched on the current device, not "
            f"on the one that {where} lives on. With a second GPU that is a bad address or wrong "
            "numbers. Launch it within `torch.cuda.device(…)` of the tensor's device.",
            Confidence.LIKELY
            if name is not None
            and len(seen) <= _SAID
            and not shared
            and not _part_of_another(timeline, function)
            else Confidence.POSSIBLE,
            Severity.WARNING,
            fix=_fix(timeline, launch, name),
        )


# One process for each GPU makes its device current once and for all.
_PER_PROCESS = re.compile(r"\bdistributed\b|process_group|\bset_device\b|local_rank")


def _part_of_another(timeline: Timeline, function: Function) -> bool:
    """One pass of an autograd function of another file, which may choose the device for it."""
    called = timeline.source.text.count(f"{function.name}(") > 1
    return _PASS.search(function.name) is not None and not called


def _handed_in(timeline: Timeline, launch: Launch, function: Function) -> list[Argument]:
    """The arguments of the launch that the function was given: its tensors, or what may be one."""
    parameters = {p for p in function.parameters if p not in ("self", "ctx")}
    triton = launch.kernel.type.startswith("triton")
    found: list[Argument] = []
    for argument in launch.call.arguments:
        if timeline.text(argument.span) in parameters and _may_be_tensor(argument.value, triton):
            found.append(argument)
    if found or triton:
        return found
    return [Argument("", launch.call.span, tensor) for tensor in launch.tensors if _shared(tensor)][
        :1
    ]


def _shared(value: Value) -> bool:
    """Whether it is a tensor of PyTorch, or another library's view of one."""
    made = value.made_by
    if isinstance(made, Call) and made.arguments:
        value = made.arguments[0].value
    return value.kind is Kind.TENSOR and value.type.startswith("torch.")


def _may_be_tensor(value: Value, triton: bool) -> bool:
    if value.kind is Kind.TENSOR:
        return triton or value.type.startswith("torch.")
    return triton and value.kind is Kind.UNKNOWN


def _fix(timeline: Timeline, launch: Launch, name: Argument | None) -> Fix | None:
    if name is None or name.span == launch.call.span or "torch" not in timeline.imports:
        return None
    if not re.search(r"^import torch\b(?! as)", timeline.source.text, re.MULTILINE):
        return None
    header = f"with torch.cuda.device({timeline.text(name.span)}.device):"
    statement = launch.place.statement
    edit = wrap_statements(timeline.source, statement, statement, header)
    if edit is None:
        return None
    condition = (
        "Right for tensors on CUDA devices; Triton's interpreter runs on tensors of the host."
    )
    return Fix("Make the tensor's device current", (edit,), Safety.UNSAFE, condition)
