"""Work is handed to the default stream, whichever stream the caller is on.

## What it does
Finds functions that fetch the default stream and give it to a launcher, another library or a field,
where the current stream is meant.

## Why it matters
The caller may be on a stream of its own: a graph capture, a prefetch, a server with a stream per
request. PyTorch's kernels then run there, this work runs on the default stream, and nothing orders
the two.

## Example
Pass the current stream.

## Fix safety
Right unless the work that is meant is always enqueued on the default stream.

## When to ignore
When the default stream is what all the other work uses.

## References
- PyTorch, "CUDA semantics", CUDA streams: a side stream is not ordered with the default stream
"""

import re
from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import replace_expression
from analyzers.judging import shown
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline

BAD = [
    Bad(
        """
        import torch

        def launch(kernel, x: torch.Tensor, out: torch.Tensor):
            kernel(x.data_ptr(), out.data_ptr(), torch.cuda.default_stream().cuda_stream)  # <-
        """,
        fixed="""
        import torch

        def launch(kernel, x: torch.Tensor, out: torch.Tensor):
            kernel(x.data_ptr(), out.data_ptr(), torch.cuda.current_stream().cuda_stream)
        """,
    ),
    Bad(
        """
        import torch

        class Offload:
            def __init__(self):
                self.compute = torch.cuda.default_stream()  # <-
                self.copies = torch.cuda.Stream()
        """,
        fixed="""
        import torch

        class Offload:
            def __init__(self):
                self.compute = torch.cuda.current_stream()
                self.copies = torch.cuda.Stream()
        """,
    ),
]
GOOD = [
    """
    import torch

    def launch(kernel, x: torch.Tensor, out: torch.Tensor):
        kernel(x.data_ptr(), out.data_ptr(), torch.cuda.current_stream().cuda_stream)
    """,
    # It is asked which one is current.
    """
    import torch

    def on_side_stream():
        return torch.cuda.current_stream() != torch.cuda.default_stream()
    """,
    # The work is put there, and waited for there.
    """
    import torch

    def finish(model, x):
        with torch.cuda.stream(torch.cuda.default_stream()):
            y = model(x.cuda())
        torch.cuda.default_stream().synchronize()
        return y
    """,
]

_COMPARED = re.compile(r"==|!=|\bis\b|\bin\b")


@rule("GPU314", severity=Severity.WARNING, bad=BAD, good=GOOD)
def default_stream_for_current(timeline: Timeline) -> Iterator[Finding]:
    waits = {
        span
        for wait in timeline.calls("wait_stream")
        for span in (wait.receiver_span, wait.arguments[0].span if wait.arguments else None)
    }  # GPU301 and GPU302 speak of those
    for call in timeline.calls("default_stream"):
        function, raw = call.place.function, _raw(timeline, call)
        if function is None or "test" in function.roles or call.span in waits:
            continue
        if not raw and not _kept(timeline, call):
            continue
        text = timeline.text(call.span)
        edit = replace_expression(
            timeline.source, call.span, text.replace("default_stream", "current_stream", 1)
        )
        condition = "Right unless the other work is always enqueued on the default stream."
        yield Finding(
            call.span,
            f"{shown(text)} is the default stream, whatever stream the caller is on. Where another "
            "one is current, this work and PyTorch's own are not ordered. "
            "Take the current stream.",
            Confidence.LIKELY if raw else Confidence.POSSIBLE,
            Severity.WARNING,
            fix=Fix("Take the current stream", (edit,), Safety.UNSAFE, condition)
            if edit is not None and "default_stream" in text
            else None,
        )


def _raw(timeline: Timeline, call: Call) -> bool:
    """Its handle is handed to a launcher."""
    statement = timeline.text(call.place.statement)
    handle = rf"{re.escape(timeline.text(call.span))}\s*\.(cuda_stream|ptr|handle)\b"
    return re.search(handle, statement) is not None and _COMPARED.search(statement) is None


def _kept(timeline: Timeline, call: Call) -> bool:
    """A name or field stands for it from here on."""
    statement = timeline.text(call.place.statement).rstrip()
    head, equals, rest = statement.partition("=")
    return bool(equals) and rest.strip() == timeline.text(call.span) and "(" not in head
