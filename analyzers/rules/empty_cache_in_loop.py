"""The allocator's cache is emptied again and again.

## What it does
Finds `torch.cuda.empty_cache()` and CuPy's `free_all_blocks()` in loops over data or steps, and
in functions that run once per step or per request.

## Why it matters
Emptying the cache returns blocks to the driver with `cudaFree`, which waits for the whole device.
The next step asks for the same blocks again and pays `cudaMalloc`. PyTorch gains no memory by it:
cached blocks were free for it all along.

## Example
Drop the call, or keep one where a phase ends (training to evaluation, a model unloaded).

## Fix safety
Peak memory as other processes see it can rise. Where they share the GPU, keep the call.

## When to ignore
When another process or another library needs the memory at once, or when a model was just deleted.
For fragmentation, `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` does more.

## References
- PyTorch, `torch.cuda.empty_cache`: it "doesn't increase the amount of GPU memory available"
- PyTorch Lightning speed guide: every GPU waits for the call
"""

import re
from collections.abc import Iterator

from analyzers.finding import Confidence, Finding, Fix, Safety, Severity
from analyzers.fixes import delete_statement
from analyzers.judging import shown, when
from analyzers.places import Function, Guard, Heat, LoopKind, Place
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Timeline
from analyzers.waiting import measures

BAD = [
    Bad(
        """
        import torch

        def train(model, loader, optimizer):
            model = model.cuda()
            for x, y in loader:
                loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
                loss.backward()
                optimizer.step()
                torch.cuda.empty_cache()  # <-
        """,
        fixed="""
        import torch

        def train(model, loader, optimizer):
            model = model.cuda()
            for x, y in loader:
                loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
                loss.backward()
                optimizer.step()
        """,
    ),
    Bad(
        """
        import torch
        from torch import nn

        class Decoder(nn.Module):
            def forward(self, x):
                x = self.layers(x)
                torch.cuda.empty_cache()  # <-
                return x
        """,
        fixed="""
        import torch
        from torch import nn

        class Decoder(nn.Module):
            def forward(self, x):
                x = self.layers(x)
                return x
        """,
    ),
    # Called by a server for each request: not certain how often.
    Bad(
        """
        import torch

        class Service:
            async def filter_batch(self, request):
                batch = self.cache.pop(request.batch_id)
                kept = batch.filter(request.keep)
                torch.cuda.empty_cache()  # <-
                return kept
        """,
        fixed="""
        import torch

        class Service:
            async def filter_batch(self, request):
                batch = self.cache.pop(request.batch_id)
                kept = batch.filter(request.keep)
                return kept
        """,
    ),
    # By a helper of the project.
    Bad(
        """
        import torch
        from project.devices import torch_empty_cache

        def train(model, loader):
            model = model.cuda()
            for x in loader:
                model(x.cuda()).mean().backward()
                torch_empty_cache()  # <-
        """,
        fixed="""
        import torch
        from project.devices import torch_empty_cache

        def train(model, loader):
            model = model.cuda()
            for x in loader:
                model(x.cuda()).mean().backward()
        """,
    ),
]
GOOD = [
    # A phase ends.
    """
    import gc
    import torch

    def run(models, loader):
        for model in models:
            model = model.cuda()
            for x in loader:
                model(x.cuda())
            del model
            gc.collect()
            torch.cuda.empty_cache()
    """,
    # Out of memory: try again with less.
    """
    import torch

    def train(model, loader):
        for x in loader:
            try:
                model(x.cuda()).sum().backward()
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
    """,
    # Memory is measured, one case after the other.
    """
    import torch

    def peaks(cases):
        found = []
        for case in cases:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            case(torch.ones(8, device="cuda"))
            found.append(torch.cuda.max_memory_allocated())
        return found
    """,
    # The memory of one layer's work is the point: layers are worked on one after the other.
    """
    import torch

    def quantise(layers, inputs):
        for layer in layers:
            layer.cuda()
            layer.quantise(inputs.cuda())
            layer.cpu()
            torch.cuda.empty_cache()
    """,
    # Every hundredth step, and after training.
    """
    import torch

    def train(model, loader, trainer):
        for step, x in enumerate(loader):
            trainer.step(model, x.cuda())
            if step % 100 == 0:
                torch.cuda.empty_cache()
        torch.cuda.empty_cache()
    """,
]

_MEASURES = re.compile(r"memory_(allocated|reserved|stats|summary|cached)|mem_get_info|reset_peak")
_PARTS = re.compile(
    r"layer|block|model|module|expert|pipe|shard|checkpoint|weight|param|tensor_name|state_dict"
    r"|stage|component|method|config|case|size|trial|seed|fold|backend|task|chunk",
    re.IGNORECASE,
)
_DROPS = re.compile(r"\s*del\s")
_ABOUT_MEMORY = re.compile(
    r"cache|clean|clear|free|release|unload|offload|onload|gc|memory|flush|reset|close|shutdown"
    r"|load|save|init|setup|main|quanti|convert|merge|export|del|destroy|teardown|exit|prune|calib"
    r"|warm|profile|wake|sleep|restore|switch|compile|build|move|swap",
    re.IGNORECASE,
)


@rule("GPU501", severity=Severity.WARNING, bad=BAD, good=GOOD)
def empty_cache_in_loop(timeline: Timeline) -> Iterator[Finding]:
    for call in () if measures(timeline) else timeline.calls("empty_cache"):
        sure = _confidence(timeline, call)
        if sure is None:
            continue
        if call.method != call.fact.name.rpartition(".")[2]:
            sure = Confidence.POSSIBLE  # a helper of the project, known by its name
        tail = "" if sure is not Confidence.POSSIBLE else " if this runs per step or per request"
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} gives the cached memory back to the driver "
            f"{when(call.place)}. That waits for the whole GPU, and the next allocations ask the "
            f"driver again{tail and ', which may cost'}{tail}. "
            "Leave it out, or keep it where a phase ends.",
            sure,
            Severity.WARNING,
            fix=_fix(timeline, call),
        )


def _confidence(timeline: Timeline, call: Call) -> Confidence | None:
    place, function = call.place, call.place.function
    if place.guarded or Guard.RANK in place.guards:
        return None
    text = timeline.text(function.span) if function is not None else timeline.source.text
    if _MEASURES.search(text) or (function is not None and function.roles & _OFF):
        return None
    if place.in_loop:
        return _in_loop(timeline, call)
    if function is None or _to_save_memory(timeline, call):
        return None
    return _in_function(place, function)


def _in_function(place: Place, function: Function) -> Confidence | None:
    """Outside of loops: how often the function runs decides."""
    if "request" in function.parameters:  # a server calls it, however it is named
        return Confidence.POSSIBLE
    if _ABOUT_MEMORY.search(function.name) or "cold" in function.roles:
        return None
    if place.heat in (Heat.HOT, Heat.WARM):
        return Confidence.LIKELY if "per_step" in function.roles else Confidence.POSSIBLE
    # Of a method nobody here calls, nothing tells how often it runs.
    return Confidence.POSSIBLE if function.class_name else None


_OFF = frozenset({"test", "timing", "on_cpu"})


def _in_loop(timeline: Timeline, call: Call) -> Confidence | None:
    many = [loop for loop in call.place.loops if loop.kind not in _SEVERAL]
    inner = many[-1]
    header = timeline.text(inner.span)
    lines = timeline.source.lines[inner.span.line : call.place.span.line]
    dropped = inner.kind is LoopKind.ITEMS and any(_DROPS.match(line) for line in lines)
    if _PARTS.search(header) or dropped or _to_save_memory(timeline, call):
        return None
    if call.place.loops[-1].kind in _SEVERAL:
        return None  # once per model or device within the loop
    function = call.place.function
    if function is not None and _ABOUT_MEMORY.search(function.name):
        return Confidence.POSSIBLE
    working = inner.kind is LoopKind.STEPS and inner.runs_work
    return Confidence.LIKELY if working or inner.kind is LoopKind.DATA else Confidence.POSSIBLE


def _to_save_memory(timeline: Timeline, call: Call) -> bool:
    """`if self.cpu_cache:` around it: whoever asks for that would rather wait than run out."""
    own = call.place.span.column
    first = call.place.function.span.line if call.place.function is not None else 0
    for line in reversed(timeline.source.lines[first : call.place.span.line - 1]):
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent < own:
            own = indent
            if _SAVES.match(line):
                return True
    return False


_SAVES = re.compile(r"\s*(el)?if\b.*(cpu|offload|v?ram|memory|cache|clear)", re.IGNORECASE)
_SEVERAL = frozenset({LoopKind.FEW, LoopKind.EPOCHS})


def _fix(timeline: Timeline, call: Call) -> Fix | None:
    if call.place.statement != call.span:
        return None
    edit = delete_statement(timeline.source, call.place.statement)
    if edit is None or edit.text:  # a block would be left with nothing but `pass`
        return None
    return Fix("Leave the cache alone", (edit,), Safety.UNSAFE, _CONDITION)


_CONDITION = "Peak memory can rise where another process or library shares the GPU."
