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


def _everything(run: Run, module: str) -> None:
    """A star hands on what that file of the project imports, under its usual name."""
    if run.facts.find(module) is not None:
        return
    for pair in run.facts.names.get("usual_imports", ()):
        name, _, full = pair.partition("=")
        top = full.partition(".")[0]
        used = name in run.scan.names or any(name in f.names for f in run.scan.functions.values())
        if used and name not in run.state.names:
            run.imports.add(top)
            run.bind(name, library(full))


def import_names(run: Run, node: ast.ImportFrom) -> None:
    """`from a import b as c`; relative imports stay what they are called."""
    module = "." * node.level + (node.module or "")
    if not node.level and node.module:
        run.imports.add(node.module.partition(".")[0])
    for alias in node.names:
        if alias.name == "*":
            _everything(run, module)
        else:
            name = f"{module}.{alias.name}" if node.module else f"{module}{alias.name}"
            run.bind(alias.asname or alias.name, library(name))
