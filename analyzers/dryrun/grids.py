"""Where the dimensions of a launch's grid are written."""

from __future__ import annotations

import ast

from analyzers.dryrun.run import Run
from analyzers.dryrun.syntax import walk
from analyzers.finding import Span


def written(run: Run, grid: ast.expr | None) -> Span | None:
    """The tuple of the grid's dimensions: at the launch, or where its name was bound last."""
    if not run.recording or grid is None:
        return None
    if isinstance(grid, ast.Tuple) and len(grid.elts) == 1:
        grid = grid.elts[0]  # a trailing comma, or the only part of the configuration
    node = _bound(run, grid) if isinstance(grid, ast.Name) else grid
    if isinstance(node, ast.Lambda):
        node = node.body
    return run.span(node) if isinstance(node, ast.Tuple) else None


def _bound(run: Run, name: ast.Name) -> ast.expr | None:
    info, found = run.frame.info, None
    for node in walk(info.node) if info is not None else ():
        if not isinstance(node, ast.Assign) or node.lineno > name.lineno:
            continue
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id == name.id:
            found = node.value
    return found
