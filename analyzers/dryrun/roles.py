"""What a function is for, and how often it runs."""

from __future__ import annotations

from analyzers.dryrun.run import Run
from analyzers.dryrun.scan import ClassInfo, FunctionInfo
from analyzers.dryrun.values import Kind, Value
from analyzers.off_paths import is_test
from analyzers.places import Function, Heat

_PER_STEP = {
    "module": frozenset({"forward", "__call__", "training_step", "compute_loss"}),
    "autograd_function": frozenset({"forward", "backward"}),
    "optimizer": frozenset({"step"}),
    "metric": frozenset({"update", "forward"}),
    "trainer": frozenset({"training_step", "compute_loss"}),
}
_STEPS = frozenset({"per_step", "in_step", "hot"})
_DECORATOR_ROLES = {
    "no_grad": "no_grad",
    "device_guard": "device_guard",
    "grad_on": "grad_on",
    "profiler": "timing",
}


def decorated(run: Run, info: FunctionInfo) -> Value:
    """The value a definition binds: a kernel when a decorator makes it one."""
    found = set(_owner_roles(info.owner))
    kernel_type = ""
    for decorator in info.decorators:
        effect, name = _effect(run, decorator)
        if effect == "kernel_decorator":
            kernel_type = name
        elif effect in _DECORATOR_ROLES:
            found.add(_DECORATOR_ROLES[effect])
        if name.endswith(".staticmethod"):
            found.add("static")
        if _guards_device(run, decorator, name):
            found.add("device_guard")
    info.roles = frozenset(found | _own_roles(run, info))
    if kernel_type:
        kernel = Value(Kind.KERNEL, type=kernel_type, ref=info)
        if not info.kernel:
            run.kernels.append(kernel)
        info.kernel = True
        return kernel
    return Value(Kind.FUNCTION, ref=info)


def _guards_device(run: Run, decorator: Value, name: str) -> bool:
    """A decorator of the project whose name says that it makes the tensors' device current."""
    own = decorator.ref.name if isinstance(decorator.ref, FunctionInfo) else name
    last = own.rpartition(".")[2].lower()
    return any(word in last for word in run.facts.names.get("device_guards", ()))


def _effect(run: Run, decorator: Value) -> tuple[str, str]:
    if decorator.kind is Kind.CONTEXT:
        return decorator.type, decorator.type
    if decorator.kind is Kind.KERNEL and isinstance(decorator.ref, str):
        return "kernel_decorator", decorator.ref
    name = decorator.ref if isinstance(decorator.ref, str) else ""
    fact = run.facts.find(name) if name else None
    return (fact.effect if fact is not None else ""), name


def _owner_roles(owner: ClassInfo | None) -> frozenset[str]:
    return owner.roles if owner is not None else frozenset()


def _own_roles(run: Run, info: FunctionInfo) -> set[str]:
    name = info.name.lower()
    found: set[str] = set()
    for kind, methods in _PER_STEP.items():
        if kind in _owner_roles(info.owner) and info.name in methods:
            found.add("per_step")
    parts = set(name.strip("_").split("_"))
    names = run.facts.names
    if info.name in run.hints.hot_functions or info.qualname in run.hints.hot_functions:
        found.add("hot")
    if name in names.get("hot_functions", ()):
        found.add("hot_name")
    if parts & set(names.get("cold_functions", ())) or name in names.get("cold_functions", ()):
        found.add("cold")
    if parts & set(names.get("eval_functions", ())):
        found.add("eval")
    if info.name == "__init__":
        found.add("cold")
    if parts & set(names.get("text_functions", ())):
        found.add("text")
    if parts & set(names.get("set_up_functions", ())) or "warm_up" in name:
        found.add("set_up")
    found |= {"cold", "set_up"} if info.name in names.get("once_functions", ()) else set()
    if _is_a_test(run, info, parts):
        found.add("test")
    if name.endswith("_cpu") or name.startswith("cpu_"):
        found.add("on_cpu")
    return found


def _is_a_test(run: Run, info: FunctionInfo, parts: set[str]) -> bool:
    """Whether it measures or checks something, rather than evaluating a network on test data."""
    if parts & {"bench", "benchmark", "profile"}:
        return True
    if parts & {"check", "demo", "sanity", "verify"}:  # with random numbers of its own
        return not info.calls.isdisjoint(run.facts.names.get("random_makers", ()))
    if "test" not in parts:
        return False
    if is_test(run.source.path) or not run.imports.isdisjoint(_TEST_LIBRARIES):
        return True
    own = [p.arg for p in info.parameters if p.arg not in ("self", "cls")]
    return info.name.startswith("test_") and len(own) < 2


_TEST_LIBRARIES = frozenset({"pytest", "unittest", "absl", "hypothesis"})


def heat_of(run: Run, info: FunctionInfo) -> Heat:
    """How often its body runs, from what it is and from where it is called."""
    if "hot" in info.roles:
        return Heat.HOT
    if info.roles & {"test", "text"}:
        return Heat.COLD
    if Heat.HOT in info.called_at:
        return Heat.HOT
    if "per_step" in info.roles or Heat.WARM in info.called_at:
        return Heat.WARM
    if "cold" in info.roles:
        return Heat.COLD
    if "hot_name" in info.roles:
        return Heat.WARM
    if info.called_at and all(heat is Heat.COLD for heat in info.called_at):
        return Heat.COLD
    return Heat.UNKNOWN


def called(run: Run, info: FunctionInfo) -> None:
    """Remember that a step calls the function: it is a part of that step."""
    caller = run.frame.info
    if caller is None or _STEPS.isdisjoint(caller.roles) or "in_step" in info.roles:
        return
    if run.heat() in (Heat.WARM, Heat.HOT):
        info.roles |= {"in_step"}
        info.described = None


def describe(run: Run, info: FunctionInfo) -> Function:
    """The function as rules see it."""
    if info.described is None:
        a = info.node.args
        parameters = tuple(p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs))
        info.described = Function(
            name=info.name,
            qualname=info.qualname,
            span=run.span(info.node),
            class_name=info.owner.name if info.owner is not None else "",
            roles=info.roles,
            parameters=parameters,
            reads_clock=_reads_clock(run, info),
            calls=frozenset(info.calls),
            ordering=info.ordering,
        )
    return info.described


def _reads_clock(run: Run, info: FunctionInfo) -> bool:
    clocks = set(run.facts.names.get("clock_functions", ()))
    return bool(info.calls & clocks)
