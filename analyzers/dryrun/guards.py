"""Why a branch does not run on every turn, read from its condition."""

from __future__ import annotations

import ast
import re

from analyzers.dryrun.run import Run
from analyzers.dryrun.syntax import dotted, walk
from analyzers.places import Guard


def classify(run: Run, test: ast.expr) -> Guard:
    """What kind of condition guards the branch."""
    known = run.tests.get(test)
    if known is None:
        known = run.tests[test] = _classify(run, test)
    return known


def of_branch(run: Run, node: ast.If) -> Guard:
    """What kind of condition guards the body of an if-statement."""
    guard = classify(run, node.test)
    if guard in (Guard.OTHER, Guard.AVAILABLE) and _fills_cache(node):
        return Guard.ONCE
    if guard is Guard.ONCE and isinstance(node.body[-1], ast.Return) and not _made(node):
        return Guard.OTHER  # a feature that is switched off: it stays None, call after call
    return guard


def _fills_cache(node: ast.If) -> bool:
    """`if key not in cache: cache[key] = …`."""
    test = node.test
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.NotIn):
        return False
    cache = dotted(test.comparators[0]).removesuffix(".keys")
    targets = [t for s in node.body if isinstance(s, ast.Assign) for t in s.targets]
    stored = (t.value for t in targets if isinstance(t, ast.Subscript))
    return bool(cache) and cache in map(dotted, stored)


def _made(node: ast.If) -> bool:
    """Whether the body of `if self.table is None:` makes what is missing, or lets it be made."""
    if not isinstance(node.test, ast.Compare):
        return True
    name = dotted(node.test.left)
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            if any(dotted(target) == name for target in statement.targets):
                return True
        elif not isinstance(statement, ast.Return):
            return True
    return False


def _classify(run: Run, test: ast.expr) -> Guard:
    names = run.facts.names
    nodes = walk(test)
    if _finds_bad_numbers(test):
        return Guard.ERROR
    if any(isinstance(n, ast.BinOp) and _counts_turns(run, n) for n in nodes):
        return Guard.INTERVAL
    words = _parts(_words(nodes))
    if not words.isdisjoint(names.get("interval_flags", ())):
        return Guard.INTERVAL
    if not words.isdisjoint(names.get("debug_flags", ())):
        return Guard.FLAG
    if not words.isdisjoint(names.get("rank", ())):
        return Guard.RANK
    if not words.isdisjoint(names.get("available", ())):
        return Guard.AVAILABLE
    if _is_none_test(test) and not _asks_for_argument(run, test):
        return Guard.ONCE
    return Guard.OTHER


def _counts_turns(run: Run, node: ast.BinOp) -> bool:
    """`step % n`, and not `height % 8`: that asks whether a size fits."""
    if not isinstance(node.op, ast.Mod):
        return False
    words = _parts(_words(walk(node.left)))
    return words.isdisjoint(run.facts.names.get("sizes", ()))


def skips_rest(body: list[ast.stmt], guard: Guard) -> bool:
    """`if step % n: continue` guards what follows; a check that raises guards nothing."""
    return guard in (Guard.INTERVAL, Guard.FLAG) and not isinstance(body[-1], ast.Raise)


def _finds_bad_numbers(test: ast.expr) -> bool:
    """`if not isfinite(loss)`, `if isnan(x).any()`: what follows runs when something went wrong."""
    nodes = walk(test)
    asked = {n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in nodes}
    if any(isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not | ast.Invert) for n in nodes):
        return any(_GOOD.search(name) for name in asked)
    return any(_BAD.search(name) for name in asked)


_GOOD = re.compile(r"is_?finite|all_finite", re.IGNORECASE)
_BAD = re.compile(r"^is_?(nan|inf)|(has|found)_(nan|inf)", re.IGNORECASE)


def _asks_for_argument(run: Run, test: ast.expr) -> bool:
    """`size is None` of a parameter: whether it was given, which says nothing of how often."""
    info = run.frame.info
    name = test.left if isinstance(test, ast.Compare) else None
    if info is None or not isinstance(name, ast.Name):
        return False
    return any(parameter.arg == name.id for parameter in info.parameters)


def _is_none_test(test: ast.expr) -> bool:
    """`x is None`, `not hasattr(self, "x")`, `not self.initialized`."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is):
        right = test.comparators[0]
        return isinstance(right, ast.Constant) and right.value is None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = test.operand
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
            return inner.func.id == "hasattr"
        words = _words(walk(inner))
        return any(w.startswith(("init", "ready", "built", "cached")) for w in words)
    return False


def _words(nodes: list[ast.AST]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            found.add(node.id.lower())
        elif isinstance(node, ast.Attribute):
            found.add(node.attr.lower())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.lower())
    return found


def _parts(words: set[str]) -> set[str]:
    """The words, and what stands between their underscores."""
    return words.union(*(word.split("_") for word in words if "_" in word))


def stop_test(node: ast.If | ast.While) -> frozenset[str]:
    """The context of a condition that ends a loop: it needs the answer, whatever that costs."""
    if isinstance(node, ast.If):
        stops = not node.orelse and isinstance(node.body[-1], ast.Break | ast.Return)
        return _STOP_TEST if stops else frozenset()
    return _STOP_TEST


_STOP_TEST = frozenset({"stop_test"})
