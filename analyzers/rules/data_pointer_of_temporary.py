"""The address of a tensor is taken that nothing keeps alive.

## What it does
Finds `.data_ptr()` on a call that makes a new tensor, such as `x.contiguous()` or `x.float()`,
where the address is handed to another call.

## Why it matters
The new tensor is dropped as soon as its address has been taken. The caching allocator may give the
block to the next tensor before the kernel that got the address has run: it reads or writes memory
that belongs to something else by then.

## Example
Bind the tensor to a name that lives until the launch has been queued.

## Fix safety
A sketch: a name has to be found, and it has to live long enough.

## When to ignore
When the call returns a view of a tensor that lives on.

## References
- PyTorch, "CUDA semantics", memory management
"""

from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline

BAD = [
    Bad(
        """
        import torch
        from project import library

        def scale(x: torch.Tensor, out: torch.Tensor):
            library.scale(x.contiguous().data_ptr(), out.data_ptr(), x.numel())  # <-
        """
    ),
    Bad(
        """
        import ctypes
        import torch

        def run(kernel, x: torch.Tensor):
            address = ctypes.c_void_p(x.clone().data_ptr())  # <-
            kernel(address, x.numel())
        """
    ),
]
GOOD = [
    """
    import torch
    from project import library

    def scale(x: torch.Tensor, out: torch.Tensor):
        x = x.contiguous()
        library.scale(x.data_ptr(), out.data_ptr(), x.numel())
    """,
    # Views share the memory of a tensor that lives on, and identity needs no memory.
    """
    import torch
    from project import library

    def scale(x: torch.Tensor, y: torch.Tensor):
        if x.contiguous().data_ptr() == y.data_ptr():
            return
        library.scale(x.view(-1).data_ptr(), y.detach().data_ptr(), x.untyped_storage().data_ptr())
    """,
]


@rule("GPU903", severity=Severity.ERROR, bad=BAD, good=GOOD)
def data_pointer_of_temporary(timeline: Timeline) -> Iterator[Finding]:
    for call in timeline.calls():
        made = call.receiver.made_by if call.receiver is not None else None
        if call.method != "data_ptr" or not isinstance(made, Call) or made.fact.view:
            continue
        if made.span != call.receiver_span or not (made.fact.fresh or made.fact.moves):
            continue
        around = timeline.text(call.place.statement)[:600]
        if any(mark in around for mark in ("==", "!=", " is ", "assert", "print(", "% ")):
            continue  # compared or shown: nobody follows the address
        function = call.place.function
        tested = function is not None and "test" in function.roles
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} takes the address of a tensor that nothing keeps. "
            "Its block can be given to the next tensor before the kernel has used it. "
            "Bind the tensor to a name that lives until the launch has been queued.",
            Confidence.POSSIBLE if tested else Confidence.LIKELY,
            Severity.ERROR,
        )
