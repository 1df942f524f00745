"""Import statements bind names to libraries and to what is in them."""

from __future__ import annotations

import ast

from analyzers.dryrun.run import Run
from analyzers.dryrun.values import library


def import_modules(run: Run, node: ast.Import) -> None:
    """`import a.b as c`."""
    for alias in node.names:
        top = alias.name.partition(".")[0]
        run.imports.add(top)
        name = alias.name if alias.asname else top
        run.bind(alias.asname or top, library(name))


def import_names(run: Run, node: ast.ImportFrom) -> None:
    """`from a import b as c`; relative imports stay what they are called."""
    module = "." * node.level + (node.module or "")
    if not node.level and node.module:
        run.imports.add(node.module.partition(".")[0])
    for alias in node.names:
        if alias.name != "*":
            name = f"{module}.{alias.name}" if node.module else f"{module}{alias.name}"
            run.bind(alias.asname or alias.name, library(name))
