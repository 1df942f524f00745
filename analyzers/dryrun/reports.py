"""Tables of numbers for a reader: what is put into them together with its history.

A loss that is sent through backward() in another function, a ratio beside its detached siblings:
the dry run cannot see the graph there, but the table shows what its author meant to keep.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from analyzers.dryrun.frame import Habits
from analyzers.dryrun.run import Run
from analyzers.dryrun.syntax import dotted, walk
from analyzers.dryrun.values import Kind, Value
from analyzers.records import replace
from analyzers.timeline import Accumulated


def assigned(run: Run, node: ast.Assign, value: Value) -> None:
    """`metrics = {…}`, `metrics[name] = value`."""
    target = node.targets[0]
    holder = target.value if isinstance(target, ast.Subscript) else target
    name = dotted(holder)
    if not run.state.grad or not name or not _for_readers(run, name):
        return
    entries = [node.value] if isinstance(target, ast.Subscript) else list(_entries(node.value))
    habits = _habits(run) if entries else None
    if habits is None:
        return
    for entry in [entry for entry in entries if _keeps(run, name, entry, habits)][:_ENOUGH]:
        _emit(run, name, value, entry, entry)


_ENOUGH = 3  # of one table: the rest of it is then looked at anyway


def appended(run: Run, name: str, value: Value, argument: ast.AST, node: ast.AST) -> None:
    """`ratios.append(ratio)` of something unknown, beside `losses.append(loss.detach())`."""
    if not run.state.grad or not run.loops or not isinstance(argument, ast.Name | ast.Attribute):
        return
    if not _learnt(run, dotted(argument)):
        return
    if _BESIDE in _habits(run).cut:
        _emit(run, name, value, argument, node)


_BESIDE = "append()"  # stands for any list that something is appended to without its graph


def _for_readers(run: Run, name: str) -> bool:
    words = name.rpartition(".")[2].lower().strip("_").split("_")
    names = run.facts.names.get("report_words", ())
    return words[-1] in names or (words[0] in names and words[-1] in ("dict", "data", "vars"))


def _learnt(run: Run, name: str) -> bool:
    words = name.rpartition(".")[2].lower().strip("_").split("_")
    return not set(words).isdisjoint(run.facts.names.get("learnt_words", ()))


def _entries(node: ast.expr) -> Iterator[ast.expr]:
    """The values of `{…: value}` and `dict(name=value)`, however deep."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.Dict):
        parts = node.values
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        parts = [keyword.value for keyword in node.keywords]
    for part in parts:
        inner = list(_entries(part))
        yield from inner or (part,)


def _keeps(run: Run, name: str, entry: ast.expr, habits: Habits) -> bool:
    """Whether the entry is most likely kept together with its graph."""
    if _cut(run, entry) or not isinstance(entry, ast.Name | ast.Call | ast.BinOp):
        return False
    used = [n.id for n in walk(entry) if isinstance(n, ast.Name)]
    values = [run.lookup(word) for word in used]
    beside = name in habits.cut
    if any(v.kind is Kind.TENSOR and v.graph for v in values):
        return beside or name in habits.handed or name.startswith("self.")
    learnt = any(
        _learnt(run, word)
        for word, v in zip(used, values, strict=True)
        if v.kind in (Kind.UNKNOWN, Kind.TENSOR)
    )
    handed = isinstance(entry, ast.Name) and {entry.id, name} <= habits.handed
    return learnt and (beside or handed)


def _cut(run: Run, entry: ast.AST) -> bool:
    """Whether something in the expression cuts the graph off."""
    words = run.facts.names.get("cut_words", ())
    return any(
        (isinstance(n, ast.Attribute) and n.attr in words)
        or (isinstance(n, ast.Name) and n.id in words)
        for n in walk(entry)
    )


def _habits(run: Run) -> Habits:
    info = run.frame.info
    tree = info.node if info is not None else run.source.tree
    known = run.habits.get(tree)
    if known is None:
        known = run.habits[tree] = _read(run, tree)
    return known


def _read(run: Run, tree: ast.AST) -> Habits:
    cut: set[str] = set()
    handed: set[str] = set()
    for node in walk(tree):
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            holder = target.value if isinstance(target, ast.Subscript) else target
            entries = [node.value] if holder is not target else list(_entries(node.value))
            if any(_cut(run, entry) for entry in entries):
                cut.add(dotted(holder))
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            handed |= {n.id for n in walk(node.value) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            keeps = node.func.attr in run.facts.names.get("keep_methods", ())
            if keeps and _cut(run, node.args[-1]):
                cut |= {dotted(node.func.value), _BESIDE}
    return Habits(frozenset(cut), frozenset(handed - {""}))


def _emit(run: Run, name: str, value: Value, entry: ast.AST, node: ast.AST) -> None:
    kept = replace(value, kind=Kind.TENSOR, graph=True) if value.kind is Kind.UNKNOWN else value
    run.emit(
        Accumulated(
            run.place(node),
            target=name,
            value=kept,
            value_span=run.span(entry),
            how="report",
            target_outside=True,
            backward=False,
            target_backward=False,
        )
    )
