"""A numbered GPU is written where the code is given tensors, or the device is read at import.

## What it does
Finds tensors sent to `"cuda:0"` in functions that are handed their tensors, and devices or streams
that are asked for when the file is imported: as a default argument or as a constant of the module.

## Why it matters
With a second GPU the tensors no longer meet on one device, or all processes share the first one.
A default argument is computed once, before `set_device` has run, and stays that device or stream.

## Example
Use the device of a tensor that is at hand, and ask for the current device inside of the function.

## Fix safety
Which tensor is the right one to ask is the author's to say, so no edit is proposed.

## When to ignore
In a script for one GPU.

## References
- PyTorch, "CUDA semantics", device-agnostic code
- Python reference, function definitions: defaults are evaluated when the definition is executed
"""

import re
from collections.abc import Iterator

from analyzers.dryrun.values import Kind
from analyzers.finding import Confidence, Finding, Severity
from analyzers.judging import shown
from analyzers.places import Function
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline

BAD = [
    Bad(
        """
        import torch
        from torch import nn

        class Encoder(nn.Module):
            def forward(self, x):
                positions = torch.arange(x.shape[1], device="cuda:0")  # <-
                return x + positions
        """
    ),
    # Computed once, at import.
    Bad(
        """
        import torch

        def scratch(n, device=torch.cuda.current_device()):  # <-
            return torch.empty(n, device=device)
        """
    ),
    Bad(
        """
        import torch

        CUDA_STREAM = torch.cuda.current_stream("cuda:0")  # <-

        def launch(kernel, x: torch.Tensor):
            kernel(x.data_ptr(), CUDA_STREAM.cuda_stream)
        """
    ),
]
GOOD = [
    """
    import torch
    from torch import nn

    class Encoder(nn.Module):
        def forward(self, x):
            return x + torch.arange(x.shape[1], device=x.device)
    """,
    # A program chooses its GPU.
    """
    import torch

    def main():
        model = torch.nn.Linear(8, 8).to("cuda:0")
        return model(torch.ones(8, device="cuda:0"))

    if __name__ == "__main__":
        main()
    """,
    """
    import torch

    def scratch(n, device=None):
        return torch.empty(n, device=device or torch.cuda.current_device())
    """,
    # A default that the caller may change.
    """
    import torch

    def scratch(n, device="cuda:0"):
        return torch.empty(n, device=device)
    """,
]

_NUMBERED = re.compile(r"\(\s*['\"]cuda: ?\d['\"]|=\s*['\"]cuda: ?\d['\"]")
_AWAY = re.compile(
    r"(^|/)((tests?|testing|bench\w*|examples?|tutorials?|scripts?|docs)/|(test_|bench|conftest)\w*\.py)"
    r"|_test\.py$"
)


@rule("GPU804", severity=Severity.WARNING, bad=BAD, good=GOOD)
def hard_coded_device(timeline: Timeline) -> Iterator[Finding]:
    if _AWAY.search(timeline.source.path):
        return
    program = "__main__" in timeline.source.text
    numbered = not program and "cuda:" in timeline.source.text
    said: set[tuple[str, Function | None]] = set()
    for call in timeline.calls():
        function = call.place.function
        if function is None:
            yield from _at_import(timeline, call, program=program)
        elif numbered and call.result.kind is Kind.TENSOR and _numbered(timeline, call):
            if (function.qualname, None) in said or not _is_given_tensors(function):
                continue
            said.add((function.qualname, None))
            yield Finding(
                call.span,
                f"{shown(timeline.text(call.span))} names one GPU, and `{function.name}` is given "
                "tensors that may be on another. With a second GPU they no longer meet. "
                "Take the device of one of them.",
                Confidence.LIKELY if "forward" in function.roles else Confidence.POSSIBLE,
                Severity.WARNING,
            )


def _numbered(timeline: Timeline, call: Call) -> bool:
    text = timeline.text(call.span)[len(timeline.text(call.callee)) :]
    return bool(_NUMBERED.match(text) or re.search(r"device\s*=\s*['\"]cuda: ?\d['\"]", text))


def _is_given_tensors(function: Function) -> bool:
    """Called with what the caller has: not a start of a program, not a test."""
    if function.roles & {"test", "set_up"} or function.name in ("main", "run", "train"):
        return False
    return any(name not in ("self", "cls", "args", "cfg", "config") for name in function.parameters)


def _at_import(timeline: Timeline, call: Call, *, program: bool) -> Iterator[Finding]:
    kind = call.fact.effect
    if kind not in ("current_stream", "current_device") or call.place.guarded:
        return
    header = timeline.text(call.place.statement).lstrip()
    default = header.startswith(("def ", "async def "))
    if not default and (program or kind == "current_device"):
        return
    what = "stream" if kind == "current_stream" else "device"
    yield Finding(
        call.span,
        f"{shown(timeline.text(call.span))} is asked for once, when the file is imported. Every "
        f"later call uses that {what}, whichever is current by then. Ask inside of the function.",
        Confidence.LIKELY,
        Severity.WARNING,
    )
