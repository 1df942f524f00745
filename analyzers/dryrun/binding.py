"""Binds values to targets: names, tuples, attributes, elements."""

from __future__ import annotations

import ast

from analyzers.dryrun.parameters import from_name
from analyzers.dryrun.run import Run
from analyzers.dryrun.sidework import kept
from analyzers.dryrun.streams import DEFAULT
from analyzers.dryrun.subscripts import stored
from analyzers.dryrun.syntax import dotted
from analyzers.dryrun.values import UNKNOWN, Device, Kind, Value, element_of, join, unpack
from analyzers.finding import Confidence
from analyzers.records import replace
from analyzers.timeline import LoaderUsed


def assign(run: Run, target: ast.expr, value: Value) -> None:
    """`target = value`."""
    if isinstance(target, ast.Name):
        run.bind(target.id, guess_by_use(run, target.id, value))
    elif isinstance(target, ast.Tuple | ast.List):
        _unpacked(run, target.elts, value)
    elif isinstance(target, ast.Attribute):
        _attribute(run, target, value)
    elif isinstance(target, ast.Subscript):
        _element(run, target, value)
    elif isinstance(target, ast.Starred):
        assign(run, target.value, Value(Kind.SEQUENCE, element=element_of(value)))


def guess_by_use(run: Run, name: str, value: Value) -> Value:
    """An unknown value that is sent through backward() later is a loss; a name may tell more."""
    info = run.frame.info
    names = info.backward if info is not None else run.scan.module_backward
    if not name or name not in names:
        return _by_name(run, name, value)
    guessed = value.kind is Kind.TENSOR and value.sure is Confidence.POSSIBLE
    if value.kind is Kind.UNKNOWN or (guessed and value.device is not Device.HOST):
        return run.loss_value()
    return value


def _by_name(run: Run, name: str, value: Value) -> Value:
    """What comes from elsewhere is believed to be what its name says, as a parameter is."""
    if not _comes_from_elsewhere(value) or not run.tensor_class:
        return value
    named = from_name(run, name)
    if named.kind is Kind.LOADER:  # some loaders of other libraries hand out device tensors
        handed = replace(element_of(named), sure=Confidence.POSSIBLE)
        return replace(named, element=handed)
    return named if named.kind in (Kind.INSTANCE, Kind.MODULE, Kind.LIBRARY) else value


def _comes_from_elsewhere(value: Value) -> bool:
    if value.fetched is not None or value.ref is not None or value.type:
        return False
    return value.kind is Kind.UNKNOWN or (
        value.kind is Kind.INSTANCE and value.device is Device.UNKNOWN
    )


def _unpacked(run: Run, targets: list[ast.expr], value: Value) -> None:
    starred = [i for i, t in enumerate(targets) if isinstance(t, ast.Starred)]
    if starred:
        for target in targets:
            assign(run, target, element_of(value) if not isinstance(target, ast.Starred) else value)
        return
    for target, part in zip(targets, unpack(value, len(targets)), strict=True):
        # Views of one tensor share its memory, but `a, b = f()` gives two tensors.
        shared = value.items is None and part.kind is Kind.TENSOR and value.kind is not Kind.TENSOR
        if shared and isinstance(target, ast.Name) and _is_a_setting(run, target.id):
            assign(run, target, UNKNOWN)  # handed through beside the tensors
        else:
            assign(run, target, replace(part, ident=run.new_ident()) if shared else part)


def _is_a_setting(run: Run, name: str) -> bool:
    """Whether a name says that it is a flag, a size or a choice, and no tensor."""
    words = name.lower().strip("_").split("_")
    names = run.facts.names
    first, last = names.get("setting_starts", ()), names.get("setting_ends", ())
    return len(words) > 1 and (words[0] in first or words[-1] in last)


def _attribute(run: Run, target: ast.Attribute, value: Value) -> None:
    base = run.evaluate(target.value)
    path = dotted(target)
    if run.made_aside:
        kept(run, value, target)
    if path:
        run.bind(path, value)
    frame = run.frame
    if frame.self_class is None or not isinstance(target.value, ast.Name):
        return
    if target.value.id == frame.self_name and base.kind in (Kind.INSTANCE, Kind.MODULE):
        known = frame.self_class.attributes
        before = known.get(target.attr)
        stable = _by_name(run, target.attr, replace(value, fresh=False))
        known[target.attr] = stable if before is None else _one_attribute(before, stable)


def _one_attribute(before: Value, value: Value) -> Value:
    """What an attribute holds, seen again: the same memory, the same stream."""
    joined = join(before, value)
    if before.kind is not value.kind or joined.kind is not before.kind:
        return joined
    if before.kind in (Kind.STREAM, Kind.EVENT) and before.type == value.type:
        return value if before.ref == DEFAULT and value.ref else before
    return replace(joined, ident=before.ident)


def _element(run: Run, target: ast.Subscript, value: Value) -> None:
    base = run.evaluate(target.value)
    index = run.evaluate(target.slice)
    stored(run, target, base, index, value)
    path = dotted(target.value)
    if base.kind is Kind.TENSOR:
        used(run, target.value, base, value)
    if not path:
        return
    if run.made_aside and "." in path:
        kept(run, value, target)
    if base.kind in (Kind.SEQUENCE, Kind.MAPPING):
        element = element_of(base)
        joined = value if element is UNKNOWN else join(element, value)
        joined = run.state.collected(joined, value, element)
        run.bind(path, replace(base, items=None, element=replace(joined, fresh=False)))


def loader_used(run: Run, node: ast.expr, value: Value) -> None:
    """A loader that was made in sight is gone through or handed over."""
    if value.kind is Kind.LOADER and value.made_by is not None:
        run.emit(LoaderUsed(run.place(node), value.made_by))


def used(run: Run, node: ast.expr, value: Value, written: Value | None = None) -> None:
    """Something may have written to `value`: no name of its memory is a fresh allocation now."""
    if value.kind is not Kind.TENSOR:
        return
    own = value.homemade and written is not None and written.homemade
    names = run.state.names
    path = dotted(node)
    if path and names.get(path) is value and (value.fresh or value.homemade):
        names[path] = replace(value, fresh=False, homemade=own)
    for name, other in names.items() if value.ident and not value.fresh else ():
        if other.ident == value.ident and (other.fresh or other.homemade):
            names[name] = replace(other, fresh=False, homemade=other.homemade and own)
