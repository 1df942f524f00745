"""Lists, tuples, sets and dictionaries that are written out in the code."""

from __future__ import annotations

import ast

from analyzers.dryrun.run import Run
from analyzers.dryrun.subscripts import KEY_END
from analyzers.dryrun.values import MAPPING, NUMBER, SEQUENCE, Kind, Value, element_of, join
from analyzers.records import replace

_MAX_ITEMS = 24  # longer ones are sequences of their joined elements


def sequence(run: Run, node: ast.Tuple | ast.List | ast.Set) -> Value:
    """A list, tuple or set that is written out."""
    items = tuple(run.evaluate(e) for e in node.elts)
    if any(isinstance(e, ast.Starred) for e in node.elts) or len(items) > _MAX_ITEMS:
        whole = Value(Kind.SEQUENCE, items=items)
        return Value(Kind.SEQUENCE, element=element_of(whole)) if items else SEQUENCE
    written = run.class_of(Kind.SEQUENCE) if isinstance(node, ast.List) else ""
    return Value(Kind.SEQUENCE, type=written, items=items)


def mapping(run: Run, node: ast.Dict) -> Value:
    """A dictionary that is written out; of one with names for keys, each entry is known."""
    element: Value | None = None
    items: list[Value] = []
    names: list[str] = []
    for key, part in zip(node.keys, node.values, strict=True):
        name = run.evaluate(key).constant if key is not None else None
        value = run.evaluate(part)
        if key is None:
            value = element_of(value)
        element = value if element is None else join(element, value)
        names += [name] if isinstance(name, str) else []
        items.append(NUMBER if value.kind is Kind.NUMBER else replace(value, fresh=False))
    if element is None:
        return MAPPING
    named = len(names) == len(items) <= _MAX_ITEMS  # {"loss": loss, "steps": 3} knows each of them
    return Value(
        Kind.MAPPING,
        items=tuple(items) if named else None,
        element=element,
        ref=KEY_END.join(names) if named else None,
    )
