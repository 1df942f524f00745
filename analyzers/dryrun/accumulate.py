"""Running totals and lists that keep tensors beyond a turn of the loop."""

from __future__ import annotations

import ast

from analyzers.dryrun.run import Run
from analyzers.dryrun.scan import dotted
from analyzers.dryrun.values import Kind, Value
from analyzers.timeline import Accumulated


def added(run: Run, name: str, target: Value, value: Value, node: ast.AST) -> None:
    """`name += value`."""
    if value.kind is Kind.TENSOR and name:
        span_node = node.value if isinstance(node, ast.AugAssign) else node
        _emit(run, name, value, span_node, "add", node)


def appended(run: Run, name: str, value: Value, argument: ast.AST, node: ast.AST) -> None:
    """`name.append(value)`."""
    if value.kind is Kind.TENSOR and name:
        _emit(run, name, value, argument, "append", node)


def _emit(run: Run, name: str, value: Value, part: ast.AST, how: str, node: ast.AST) -> None:
    info = run.frame.info
    backward = info.backward if info is not None else run.scan.module_backward
    written = dotted(part) if isinstance(part, ast.expr) else ""
    base = written or _first_name(part)
    run.emit(
        Accumulated(
            run.place(node),
            target=name,
            value=value,
            value_span=run.span(part),
            how=how,
            target_outside=_outlives(run, name),
            backward=bool(base) and base in backward,
            target_backward=name in backward or name.partition(".")[0] in backward,
        )
    )


def _outlives(run: Run, name: str) -> bool:
    """Whether the target was bound before the innermost loop began."""
    if "." in name:
        return True
    return name in run.bound_before_loop


def _first_name(node: ast.AST) -> str:
    return next((n.id for n in ast.walk(node) if isinstance(n, ast.Name)), "")
