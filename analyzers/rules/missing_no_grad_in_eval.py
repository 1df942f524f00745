"""A network is evaluated while autograd records.

## What it does
Finds loops that call a network after `.eval()`, in a function without `no_grad`,
`inference_mode`, `set_grad_enabled(False)` or anything that needs gradients.

## Why it matters
`eval()` switches dropout and batch statistics, not autograd. Every activation is saved for a
backward pass that never comes: more memory, more work for the allocator, smaller batches.

## Example
Put the loop under `torch.no_grad()`, or `torch.inference_mode()` where nothing of it is
differentiated later.

## Fix safety
Right where no caller differentiates what the loop computes; nothing in this function does.

## When to ignore
When every caller switches autograd off, or for attacks and saliency maps that need gradients.

## References
- PyTorch performance tuning guide, "Disable gradient calculation for validation or inference"
"""

import re
from collections.abc import Iterator

from analyzers.dryrun.values import Kind
from analyzers.finding import Confidence, Finding, Fix, Related, Safety, Severity, Span
from analyzers.fixes import wrap_statements
from analyzers.judging import shown
from analyzers.places import LoopKind, Place
from analyzers.rule import Bad, rule
from analyzers.timeline import Call, Called, Timeline

BAD = [
    Bad(
        """
        import torch

        def evaluate(model, loader, device):
            model.eval()
            correct = 0
            for x, y in loader:
                out = model(x.to(device))  # <-
                correct += (out.argmax(1) == y.to(device)).sum()
            return correct
        """,
        fixed="""
        import torch

        def evaluate(model, loader, device):
            model.eval()
            correct = 0
            with torch.no_grad():
                for x, y in loader:
                    out = model(x.to(device))
                    correct += (out.argmax(1) == y.to(device)).sum()
            return correct
        """,
    ),
    # The batches are counted out.
    Bad(
        """
        import torch

        def evaluate(net, source, size):
            net.eval()
            total = 0
            for start in range(0, source.size(0) - 1, size):
                out = net(source[start : start + size].cuda())  # <-
                total += out.detach().mean()
            return total
        """,
        fixed="""
        import torch

        def evaluate(net, source, size):
            net.eval()
            total = 0
            with torch.no_grad():
                for start in range(0, source.size(0) - 1, size):
                    out = net(source[start : start + size].cuda())
                    total += out.detach().mean()
            return total
        """,
    ),
    Bad(
        """
        import torch

        class Tester:
            def run(self):
                self.net.eval()
                scores = []
                for batch in self.test_loader:
                    scores.append(self.net(batch.cuda()).softmax(1).cpu())  # <-
                return torch.cat(scores)
        """,
        fixed="""
        import torch

        class Tester:
            def run(self):
                self.net.eval()
                scores = []
                with torch.no_grad():
                    for batch in self.test_loader:
                        scores.append(self.net(batch.cuda()).softmax(1).cpu())
                return torch.cat(scores)
        """,
    ),
]
GOOD = [
    """
    import torch

    @torch.no_grad()
    def evaluate(model, loader):
        model.eval()
        return [model(x.cuda()).argmax(1) for x in loader]
    """,
    """
    import torch

    def evaluate(model, loader):
        model.eval()
        hits = 0
        with torch.inference_mode():
            for x, y in loader:
                hits += (model(x.cuda()).argmax(1) == y.cuda()).sum()
        return hits
    """,
    # The gradient is what it is about.
    """
    import torch

    def attack(model, loader, criterion, epsilon):
        model.eval()
        for x, y in loader:
            x = x.cuda().requires_grad_()
            criterion(model(x), y.cuda()).backward()
            yield x + epsilon * x.grad.sign()
    """,
    # Another network is in evaluation mode: the teacher, which the student learns from.
    """
    import torch

    def distil(student, teacher, loader, criterion, optimizer):
        teacher.eval()
        student.train()
        for x in loader:
            x = x.cuda()
            loss = criterion(student(x), teacher(x))
            loss.backward()
            optimizer.step()
    """,
    # The caller switches autograd off.
    """
    import torch

    def evaluate(model, loader):
        model.eval()
        for x, y in loader:
            out = model(x.cuda())
            print(out.shape)

    def main(model, loader):
        with torch.no_grad():
            evaluate(model, loader)
    """,
    # Switched off for good.
    """
    import torch

    torch.set_grad_enabled(False)

    def evaluate(model, loader):
        model.eval()
        for x, y in loader:
            print(model(x.cuda()).shape)
    """,
]

_NEEDS_GRADIENTS = re.compile(
    r"\bbackward\b|autograd\.grad|\bgrad\(|\.grad\b|requires_grad|zero_grad|optimi[sz]er\.step|"
    r"no_grad|inference_mode|set_grad_enabled|enable_grad|GradientTape|functional_call|vjp|jacobian"
    r"|\battack|adversar|saliency|grad_cam|\.step\(\)"
)


@rule("GPU505", severity=Severity.WARNING, bad=BAD, good=GOOD)
def missing_no_grad_in_eval(timeline: Timeline) -> Iterator[Finding]:
    seen: set[object] = set()
    switches = [
        call for event in timeline.of(Called) if (call := event.call).fact.effect in _SWITCHES
    ]
    for event in timeline.of(Called):
        call = event.call
        loop = _data_loop(call.place)
        if loop is None or loop in seen or not _evaluates(timeline, call, switches):
            continue
        seen.add(loop)
        place = call.place
        yield Finding(
            call.span,
            f"{shown(timeline.text(call.span))} runs in evaluation mode while autograd records. "
            "Every activation is saved for a backward pass that never comes. "
            "Put the loop under `torch.no_grad()`.",
            _confidence(place),
            Severity.WARNING,
            related=(Related(loop, "this loop"),),
            fix=_fix(timeline, loop),
        )


_SWITCHES = ("eval_mode", "train_mode")


def _data_loop(place: Place) -> Span | None:
    loops = [loop for loop in place.loops if not loop.comprehension]
    if not loops or not place.in_loop or not place.records_graph:
        return None
    evaluates = place.function is not None and "eval" in place.function.roles
    kinds = {LoopKind.DATA, LoopKind.STEPS} if evaluates else {LoopKind.DATA}
    inner = next((loop for loop in loops if loop.kind in kinds), None)
    return inner.span if inner is not None else None


def _evaluates(timeline: Timeline, call: Call, switches: list[Call]) -> bool:
    """A network that this function put into evaluation mode, and nothing here needs gradients."""
    place, function = call.place, call.place.function
    network = call.receiver
    if network is None or network.kind is not Kind.MODULE or not call.name.endswith("__call__"):
        return False
    if place.contexts & {"grad_on", "no_grad"} or place.guarded or function is None:
        return False
    if function.roles & {"test", "no_grad", "grad_on", "dataset", "kernel"}:
        return False
    name = timeline.text(call.callee)
    mine = [
        s
        for s in switches
        if s.receiver_span is not None
        and timeline.text(s.receiver_span) == name
        and s.place.function == function
        and s.place.span < call.span
    ]
    # Inside the loop itself the mode is a matter of the turn; before it, of the whole loop.
    if not mine or mine[-1].fact.effect != "eval_mode" or mine[-1].place.in_loop:
        return False
    if any(argument.value.constant is False for argument in mine[-1].arguments):
        return False
    return not _NEEDS_GRADIENTS.search(timeline.text(function.span))


def _confidence(place: Place) -> Confidence:
    return Confidence.LIKELY if place.function is not None else Confidence.POSSIBLE


def _fix(timeline: Timeline, loop: Span) -> Fix | None:
    edit = wrap_statements(timeline.source, loop, loop, "with torch.no_grad():")
    if edit is None or "torch" not in timeline.imports:
        return None
    if not re.search(r"^import torch\b(?!\.)", timeline.source.text, re.MULTILINE):
        return None
    return Fix("Evaluate without autograd", (edit,), Safety.UNSAFE, _CONDITION)


_CONDITION = "Right where no caller differentiates what the loop computes."
