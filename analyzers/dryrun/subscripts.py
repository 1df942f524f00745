"""Indexing: views, gathers, and the indices that live on the wrong side."""

from __future__ import annotations

import ast

from analyzers.dryrun import waits
from analyzers.dryrun.run import Run
from analyzers.dryrun.values import (
    MISSING,
    NUMBER,
    UNKNOWN,
    Device,
    Kind,
    Value,
    element_of,
    weaken,
)
from analyzers.dryrun.work import enqueue, host_reads
from analyzers.finding import Confidence
from analyzers.records import replace
from analyzers.timeline import Reason, SizedIndex


def subscript(run: Run, node: ast.Subscript, base: Value) -> Value:
    """The value of `base[index]`, read."""
    index = run.evaluate(node.slice)
    _counts_bytes(run, node, base, index)
    if base.kind is Kind.TENSOR:
        return _tensor(run, node, base, index)
    if base.kind is Kind.KERNEL:
        return Value(Kind.LAUNCHER, ref=(base, index, node.slice), made_by=base.made_by)
    item = _known_item(base, index)
    if item is not None:
        return item
    if base.kind in (Kind.SEQUENCE, Kind.MAPPING):
        if index.on_gpu and base.kind is Kind.SEQUENCE:  # as a key, a tensor is only an object
            waits.wait(run, Reason.INDEX, index, node)
        if index.type == "slice":
            return replace(base, items=None, element=element_of(base))
        return element_of(base)
    if base.kind is Kind.TEXT:
        return base if index.type == "slice" else replace(base, constant=MISSING)
    part = base.fetched is not None and index.kind is not Kind.NUMBER
    return Value(fetched=base.fetched) if part else UNKNOWN


KEY_END = "\0"  # between the keys of a mapping whose entries are known, in its `ref`


def _known_item(base: Value, index: Value) -> Value | None:
    """The entry of a sequence or mapping that was written out in sight."""
    if base.items is None:
        return None
    if base.kind is not Kind.MAPPING:
        position = index.constant
        if isinstance(position, int) and -len(base.items) <= position < len(base.items):
            return base.items[position]
        return None
    keys = base.ref.split(KEY_END) if isinstance(base.ref, str) else []
    return base.items[keys.index(index.constant)] if index.constant in keys else None


def _counts_bytes(run: Run, node: ast.AST, base: Value, index: Value) -> None:
    """An index, or a bound of a slice, is a number of bytes."""
    bounds = (b for part in indices(index) for b in (part.ref if part.type == "slice" else (part,)))
    if base.kind is Kind.TENSOR and any(bound.bytes for bound in bounds):
        run.emit(SizedIndex(run.place(node), base, index))


def indices(index: Value) -> tuple[Value, ...]:
    """The parts of an index: `x[a, b]` has two."""
    if index.kind is Kind.SEQUENCE and index.type != "slice" and index.items is not None:
        return index.items
    return (index,)


def _tensor(run: Run, node: ast.Subscript, base: Value, index: Value) -> Value:
    if index.kind is Kind.TEXT:  # a batch that is a mapping of tensors
        return _entry(run, base, index)
    written_as_list = isinstance(node.slice, ast.List | ast.ListComp)
    parts = (index,) if written_as_list else indices(index)
    gathers = False
    for part in parts:
        gathers = _one_index(run, node, base, part) or gathers
    plain = run.facts.names.get("host_array_class", ("",))[0]
    if gathers or (base.type == plain and all(p.kind is Kind.NUMBER for p in parts)):
        host_reads(run, base, node)  # anything else is a view, which reads nothing yet
    numbers = bool(parts) and all(p.kind is Kind.NUMBER for p in parts)
    scalar = base.scalar or (numbers and base.flat)
    single = numbers and (base.flat or len(parts) > 1)  # of a matrix, one index gives a row
    if single and base.on_gpu and _element(run, node, base, "__getitem__"):
        return NUMBER
    if not gathers:
        return _view(base, parts, scalar=scalar)
    result = replace(
        base,
        ident=run.new_ident(),
        fresh=False,
        pinned=None,
        strided=False,
        gaps=False,
        made_by=None,
        scalar=False,
        constant=MISSING,
    )
    if base.on_gpu:
        enqueue(run, node, (base, *parts), result)
    return result


def _entry(run: Run, base: Value, key: Value) -> Value:
    """An entry of a batch; some are texts, paths and places in the data set, which stay lists."""
    word = key.constant.lower().rpartition("_")[2] if isinstance(key.constant, str) else ""
    if word in run.facts.names.get("host_entries", ()):
        return UNKNOWN
    return replace(base, scalar=False, constant=MISSING)


def _view(base: Value, parts: tuple[Value, ...], *, scalar: bool) -> Value:
    gaps = _leaves_gaps(parts)
    return replace(
        base,
        scalar=scalar,
        fresh=False,
        strided=base.strided or gaps,
        gaps=base.gaps or gaps,
        made_by=None,
        constant=MISSING,
    )


def _element(run: Run, node: ast.AST, base: Value, method: str) -> bool:
    """Whether the array's class hands over single elements; then the host waits for this one."""
    fact = run.facts.table.get(f"{base.type}.{method}")
    if fact is not None and (fact.waits or fact.work):
        waits.wait(run, Reason.ELEMENT, base, node)
        return True
    return False


def _one_index(run: Run, node: ast.AST, base: Value, part: Value) -> bool:
    """Whether this index gathers (copies) instead of viewing."""
    if part.type == "slice":
        for bound in part.ref:
            if bound.kind is Kind.TENSOR and bound.device is not Device.HOST:
                waits.wait(run, Reason.INDEX, bound, node)
        return False
    if part.kind is Kind.TENSOR:
        if part.dtype == "bool" and base.on_gpu and part.device is not Device.HOST:
            waits.wait(run, Reason.SHAPE, base, node)
        elif (
            base.on_gpu and part.device is Device.HOST and part.dtype != "bool" and not part.scalar
        ):
            waits.wait(run, Reason.GATHER, weaken(base, part.sure), node)
        return True
    if part.kind is Kind.SEQUENCE:
        element = element_of(part).kind
        numbers = element in (Kind.NUMBER, Kind.UNKNOWN)
        listed = part.type == run.class_of(Kind.SEQUENCE) and base.type == run.tensor_class
        if base.on_gpu and numbers and listed:
            # A list of what is not known may be a list of slices.
            sure = Confidence.POSSIBLE if element is Kind.UNKNOWN else base.sure
            waits.wait(run, Reason.GATHER, weaken(base, sure), node)
        return True
    return False


def _leaves_gaps(parts: tuple[Value, ...]) -> bool:
    rows = False  # an outer dimension is kept
    for part in parts:
        if part.type != "slice":
            if rows and part.kind is Kind.NUMBER:
                return True  # x[:, 0] is a column
            continue
        lower, upper, step = part.ref
        if step.kind is not Kind.NONE and step.constant not in (MISSING, 1):
            return True
        if rows and not (lower.kind is Kind.NONE and upper.kind is Kind.NONE):
            return True  # x[:, a:b] leaves gaps between the rows
        rows = True
    return False


_INTEGERS = frozenset({"int64", "int32", "int16", "int8", "uint8", "long", "int"})


def stored(run: Run, node: ast.Subscript, base: Value, index: Value, value: Value) -> None:
    """`base[index] = value`."""
    from analyzers.dryrun.work import host_writes

    if base.kind is not Kind.TENSOR:
        if any(part.kind is Kind.TENSOR for part in indices(index)):
            host_reads(run, value, node)  # only arrays are indexed by arrays
        return
    _counts_bytes(run, node, base, index)
    if base.on_gpu:
        _stored_on_device(run, node, base, index, value)
        return
    host_writes(run, base, node)
    if value.on_gpu and base.device is Device.HOST:
        waits.wait(run, Reason.COPY, value, node)
    elif value.kind is Kind.TENSOR:
        host_reads(run, value, node)


def _stored_on_device(
    run: Run, node: ast.Subscript, base: Value, index: Value, value: Value
) -> None:
    masked = any(p.kind is Kind.TENSOR and p.dtype == "bool" for p in indices(index))
    indexed = any(p.kind is Kind.TENSOR and p.dtype in _INTEGERS for p in indices(index))
    stages = base.type == run.tensor_class  # other libraries pass single values to a kernel
    bounds = [bound for part in indices(index) if part.type == "slice" for bound in part.ref]
    for bound in bounds:
        if bound.on_gpu:
            waits.wait(run, Reason.INDEX, bound, node)
    if stages and masked and value.on_gpu and value.scalar:
        waits.wait(run, Reason.STORE, value, node)
    elif stages and indexed and value.kind is Kind.NUMBER:
        waits.wait(run, Reason.STORE, base, node)
    elif all(p.kind is Kind.NUMBER for p in indices(index)):
        _element(run, node, base, "__setitem__")
    enqueue(run, node, (value, *indices(index)), base)
