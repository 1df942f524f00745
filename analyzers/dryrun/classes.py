"""Classes of the file: what they derive from, and what their instances are."""

from __future__ import annotations

import ast

from analyzers.dryrun.run import Run
from analyzers.dryrun.scan import ClassInfo
from analyzers.dryrun.values import Kind, Value

_BASE_ROLES = {"dataset", "metric", "autograd_function"}


def define(run: Run, node: ast.ClassDef) -> None:
    """Bind the class; its methods are walked later, as functions of their own."""
    info = run.scan.classes[node]
    bases: list[ClassInfo] = []
    roles: set[str] = set()
    for base in node.bases:
        value = run.evaluate(base)
        if value.kind is Kind.CLASS and isinstance(value.ref, ClassInfo):
            bases.append(value.ref)
            roles |= value.ref.roles
            info.base = info.base or value.ref.base
        elif value.kind is Kind.LIBRARY:
            _derive(run, info, roles, str(value.ref))
    info.bases = tuple(bases)
    if node.bases and node.name.lower().endswith("trainer"):
        roles.add("trainer")
    if not info.base and "forward" in info.methods and "autograd_function" not in roles:
        info.base = run.facts.names.get("module_class", ("",))[0]  # a base from another file
        if node.bases and run.tensor_class:
            roles.add("module")
    info.roles = frozenset(roles)
    for statement in node.body:
        _class_attribute(run, info, statement)
    run.bind(node.name, Value(Kind.CLASS, ref=info))


def _derive(run: Run, info: ClassInfo, roles: set[str], name: str) -> None:
    fact = run.facts.find(name)
    if fact is None:
        word = name.rpartition(".")[2].lower()
        if word.endswith(tuple(run.facts.names.get("data_classes", ()))):
            roles.add("dataset")
        return
    if fact.effect in _BASE_ROLES:
        roles.add(fact.effect)
    if fact.kind:
        info.base = info.base or fact.name
    elif fact.gives and run.facts.find(fact.gives) is not None:
        info.base = info.base or fact.gives
    base = run.facts.find(info.base) if info.base else None
    if base is not None and base.kind:
        roles.add(base.kind)


def _class_attribute(run: Run, info: ClassInfo, statement: ast.stmt) -> None:
    """A method is prepared, a plain attribute is remembered for all instances."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        from analyzers.dryrun.functions import prepare

        prepare(run, statement)
    elif isinstance(statement, ast.Assign):
        value = run.evaluate(statement.value)
        for target in statement.targets:
            if isinstance(target, ast.Name):
                info.attributes[target.id] = value
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        from analyzers.dryrun.parameters import from_annotation

        value = from_annotation(run, statement.annotation)
        if value is not None:
            info.attributes[statement.target.id] = value


def instance(run: Run, info: ClassInfo) -> Value:
    """A value of that class."""
    fact = run.facts.find(info.base) if info.base else None
    kind = Kind.INSTANCE
    if fact is not None and fact.kind == "module":
        kind = Kind.MODULE
    return Value(kind, type=info.base, ref=info)
