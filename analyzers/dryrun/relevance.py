"""Which functions may touch something that lives on a device: only those are walked.

Most functions of a project parse options, build paths or print. A function is relevant when it
names a GPU library or something made from one, uses a method that only device values have, has a
parameter that usually holds one, or calls a relevant function of the file. What its callers hand
in is looked at again when it is walked.

A test is judged only where a mistake makes results wrong: for the order of device work and for its
kernels. Nobody waits for it to be fast.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache

from analyzers.dryrun.run import Run
from analyzers.dryrun.scan import ClassInfo, FunctionInfo
from analyzers.dryrun.values import Kind, Value
from analyzers.knowledge import Facts

_WORDS = (
    "tensor", "loss", "module", "loader", "stream", "event", "criterion",
    "tensor_methods", "device_methods", "optimizer", "scaler", "module_calls", "thread_class",
)  # fmt: skip
_DEVICE_KINDS = frozenset(
    {Kind.TENSOR, Kind.MODULE, Kind.LOADER, Kind.STREAM, Kind.EVENT, Kind.KERNEL, Kind.LAUNCHER}
    | {Kind.PLACE, Kind.OPTIMIZER, Kind.CLOCK}
)


def mark(run: Run, *, known: bool = False) -> None:
    """Decide for every function of the file whether it is worth a walk.

    `known`: for those that are, it is known already.
    """
    if run.only_order:
        for info in run.scan.functions.values():
            info.relevant = info.ordering
        return
    words = _words(run.facts)
    # Whoever starts a thread may start one for the device.
    names = set(run.facts.names.get("thread_class", ())) & run.globals.keys()
    names |= {name for name, value in run.globals.items() if _concerns(run, value)}
    members = words | _attributes(run.scan.classes.values())
    relevant: set[str] = set()
    functions = list(run.scan.functions.values())
    for info in functions:
        info.relevant = (known and info.relevant) or _own(info, names, words, members)
        if info.relevant:
            relevant.add(info.name)
    changed = True
    while changed:
        changed = False
        for info in functions:
            if not info.relevant and not relevant.isdisjoint(info.calls):
                info.relevant = changed = True
                relevant.add(info.name)


def _words(facts: Facts) -> frozenset[str]:
    return _union(tuple(facts.names.get(key, ()) for key in _WORDS))


@cache
def _union(groups: tuple[tuple[str, ...], ...]) -> frozenset[str]:
    return frozenset(word for group in groups for word in group)


def _concerns(run: Run, value: Value) -> bool:
    """Whether a name of the module leads to device code."""
    if value.kind in _DEVICE_KINDS:
        return True
    if value.kind is Kind.CLASS and isinstance(value.ref, ClassInfo):
        return bool(value.ref.base)
    if value.kind is Kind.LIBRARY:
        return str(value.ref).partition(".")[0] in run.facts.modules
    return False


def _attributes(classes: Iterable[ClassInfo]) -> set[str]:
    return {
        name
        for owner in classes
        for name, value in owner.attributes.items()
        if value.kind in _DEVICE_KINDS
    }


def _own(
    info: FunctionInfo, names: set[str], words: frozenset[str], members: frozenset[str] | set[str]
) -> bool:
    if info.imports or info.decorators or info.backward or info.ordering:
        return True
    if not names.isdisjoint(info.names) or not members.isdisjoint(info.members):
        return True
    return any(
        parameter.arg.lower() in words or _promises(parameter.annotation, names)
        for parameter in info.parameters
    )


def _promises(annotation: ast.expr | None, names: set[str]) -> bool:
    """Whether an annotation names a GPU library or something made from one."""
    if annotation is None or isinstance(annotation, ast.Constant):
        return False
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(annotation))


def worth_a_walk(info: FunctionInfo) -> bool:
    """Whether the function may do something on a device, by itself or with what it is given."""
    return info.relevant or any(handed_device_values(site.values()) for site in info.given)


def handed_device_values(given: Iterable[Value]) -> bool:
    """Whether a caller hands in something that may live on a device."""
    return any(
        value.kind in _DEVICE_KINDS
        or (value.element is not None and value.element.kind in _DEVICE_KINDS)
        or (value.items is not None and handed_device_values(value.items))
        for value in given
    )
