"""What a device function written in Python does with its index, its arrays and its numbers.

The dry run does not enter kernels: they run elsewhere, thousands of times at once. Rules about
launches ask here, with the definition that a launch leads to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_GRID = frozenset({"grid", "threadIdx", "blockIdx"})
_STRIDE = frozenset({"gridsize", "gridDim"})


@dataclass(frozen=True)
class Kernel:
    """A kernel's definition, and the questions that launches ask of it."""

    node: ast.FunctionDef | ast.AsyncFunctionDef

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters, in order."""
        a = self.node.args
        return tuple(p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs))

    @cached_property
    def indexed(self) -> frozenset[str]:
        """The parameters that are indexed: arrays."""
        names = {
            n.value.id
            for n in self._nodes
            if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)
        }
        return frozenset(names & set(self.parameters))

    @cached_property
    def strides(self) -> bool:
        """Whether a grid-stride loop covers any number of elements with any grid."""
        return any(
            (isinstance(n, ast.For) and _steps_by_grid(n.iter))
            or (isinstance(n, ast.AugAssign) and _mentions(n.value, _STRIDE))
            or (isinstance(n, ast.Assign) and _mentions(n.value, frozenset({"gridsize"})))
            for n in self._nodes
        )

    @cached_property
    def indices(self) -> frozenset[str]:
        """The names that hold this thread's own index in the whole grid."""
        found: set[str] = set()
        for node in self._assignments:
            names = _targets(node)
            if _is_global_index(node.value):
                found.update(names)
        return frozenset(found)

    @cached_property
    def guarded(self) -> bool:
        """Whether some comparison or bounded loop deals with the thread's index."""
        names = self._derived
        for node in self._nodes:
            if isinstance(node, ast.Compare | ast.IfExp | ast.While) and _uses(node, names):
                return True
            if isinstance(node, ast.Compare) and _mentions(node, _GRID):
                return True
            if isinstance(node, ast.For) and (
                _uses(node.iter, names) or _mentions(node.iter, _GRID)
            ):
                return True
            if isinstance(node, ast.Call) and _called(node) in ("min", "max", "_check", "clamp"):
                return True
        return False

    @cached_property
    def bare_accesses(self) -> tuple[ast.Subscript, ...]:
        """The array elements addressed with nothing but the thread's own index."""
        names = self.indices
        return tuple(
            n
            for n in self._nodes
            if isinstance(n, ast.Subscript)
            and isinstance(n.value, ast.Name)
            and n.value.id in self.indexed
            and _is_bare(n.slice, names)
        )

    @cached_property
    def only_bare(self) -> bool:
        """Whether the body computes the index first and then only addresses arrays with it."""
        first, *rest = self.body
        if not isinstance(first, ast.Assign) or not set(_targets(first)) & self.indices or not rest:
            return False
        subscripts = [n for n in self._nodes if isinstance(n, ast.Subscript)]
        plain = all(isinstance(s, ast.Assign | ast.AugAssign) for s in rest)
        return plain and len(subscripts) == len(self.bare_accesses)

    @cached_property
    def body(self) -> tuple[ast.stmt, ...]:
        """Its statements without the docstring."""
        body = self.node.body
        doc = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        return tuple(body[1:] if doc and len(body) > 1 else body)

    @cached_property
    def calls(self) -> frozenset[str]:
        """The last names of everything it calls."""
        return frozenset(_called(n) for n in self._nodes if isinstance(n, ast.Call))

    @cached_property
    def shapes(self) -> frozenset[str]:
        """The parameters that are the size of a tile: the bounds of `arange`, or a shape."""
        found: set[str] = set()
        for node in self._nodes:
            if isinstance(node, ast.Call) and _called(node) in ("arange", "zeros", "full"):
                parts = node.args[:2] if _called(node) == "arange" else node.args[:1]
                for part in parts:
                    found.update(_plain_names(part))
        return frozenset(found & set(self.parameters))

    @cached_property
    def masked(self) -> bool:
        """Whether every load and store through a pointer has a mask."""
        accesses = [
            n for n in self._nodes if isinstance(n, ast.Call) and _called(n) in ("load", "store")
        ]
        return bool(accesses) and all(
            any(k.arg == "mask" for k in n.keywords)
            or len(n.args) > (1 if _called(n) == "load" else 2)
            for n in accesses
        )

    @property
    def unmasked_accesses(self) -> tuple[ast.Call, ...]:
        """The loads and stores of whole tiles that have no mask."""
        return tuple(
            n
            for n in self._nodes
            if isinstance(n, ast.Call)
            and _called(n) in ("load", "store")
            and not any(k.arg in ("mask", "boundary_check") or k.arg is None for k in n.keywords)
            and len(n.args) <= (1 if _called(n) == "load" else 2)
        )

    @cached_property
    def accumulates(self) -> tuple[str, ...]:
        """The pointer parameters it adds to atomically, or loads from as well as stores to."""
        loaded: set[str] = set()
        stored: set[str] = set()  # set anew by every run before it is added to
        found: list[str] = []
        for node in self._ordered:
            if not isinstance(node, ast.Call) or not node.args:
                continue
            pointer = self._pointers_of(node.args[0])
            name = _called(node)
            if name == "load":
                loaded |= pointer
            elif name in ("atomic_add", "atomic_max", "atomic_min", "atomic_or", "atomic_xor"):
                found += sorted(pointer - stored)
            elif name == "store":
                found += sorted(pointer & loaded)
                stored |= pointer
        return tuple(dict.fromkeys(found))

    def shared_bytes(self) -> tuple[int, tuple[ast.Call, ...]]:
        """The bytes of its static shared arrays, as far as they are literal, and the calls."""
        total, calls = 0, list[ast.Call]()
        for node in self._nodes:
            if not isinstance(node, ast.Call) or not _mentions(node.func, frozenset({"shared"})):
                continue
            size = _shared_size(node) if _called(node) == "array" else None
            if size:
                total += size
                calls.append(node)
        return total, tuple(calls)

    @cached_property
    def _nodes(self) -> tuple[ast.AST, ...]:
        return tuple(n for s in self.node.body for n in ast.walk(s))

    @cached_property
    def _ordered(self) -> tuple[ast.AST, ...]:
        return tuple(n for s in self.node.body for n in _in_order(s))

    @cached_property
    def _assignments(self) -> tuple[ast.Assign, ...]:
        return tuple(n for n in self._ordered if isinstance(n, ast.Assign))

    @cached_property
    def _derived(self) -> frozenset[str]:
        """The thread's indices and every name computed from one."""
        found = set[str]()
        for _ in range(2):
            for node in self._assignments:
                if _uses(node.value, frozenset(found)) or _mentions(node.value, _GRID):
                    found.update(_targets(node))
        return frozenset(found)

    def _pointers_of(self, node: ast.expr) -> set[str]:
        """The parameter an address starts from: the first operand of its sums."""
        for _ in range(8):  # names that lead to names
            while isinstance(node, ast.BinOp):
                node = node.left
            if isinstance(node, ast.Call):  # a block pointer, or one that was moved on
                named = next((k.value for k in node.keywords if k.arg == "base"), None)
                start = named if named is not None else next(iter(node.args), None)
                if start is None:
                    return set()
                node = start
                continue
            if not isinstance(node, ast.Name):
                return set()
            if node.id in self.parameters:
                return {node.id}
            made = [a.value for a in self._assignments if node.id in _targets(a)]
            if not made:
                return set()
            node = made[0]
        return set()


_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


def _shared_size(node: ast.Call) -> int | None:
    shape = node.args[0] if node.args else _keyword(node, "shape")
    dtype = node.args[1] if len(node.args) > 1 else _keyword(node, "dtype")
    if shape is None or dtype is None:
        return None
    name = dtype.attr if isinstance(dtype, ast.Attribute) else getattr(dtype, "id", "")
    digits = "".join(c for c in str(name) if c.isdigit())
    count = 1
    for part in shape.elts if isinstance(shape, ast.Tuple) else [shape]:
        if not isinstance(part, ast.Constant) or not isinstance(part.value, int):
            return None
        count *= part.value
    return count * _SIZES[digits] if digits in _SIZES else None


def _keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in node.keywords if k.arg == name), None)


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _targets(node: ast.Assign) -> list[str]:
    parts = [e for t in node.targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return [p.id for p in parts if isinstance(p, ast.Name)]


def _plain_names(node: ast.expr) -> list[str]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    return [p.id for p in parts if isinstance(p, ast.Name)]


def _uses(node: ast.AST, names: frozenset[str]) -> bool:
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))


def _mentions(node: ast.AST, words: frozenset[str]) -> bool:
    return any(
        (isinstance(n, ast.Attribute) and n.attr in words)
        or (isinstance(n, ast.Name) and n.id in words)
        for n in ast.walk(node)
    )


def _is_global_index(node: ast.expr) -> bool:
    """`cuda.grid(1)`, or `blockIdx.x * blockDim.x + threadIdx.x`."""
    if isinstance(node, ast.Call):
        return _called(node) == "grid"
    return all(_mentions(node, frozenset({w})) for w in ("blockIdx", "threadIdx", "blockDim"))


def _steps_by_grid(over: ast.expr) -> bool:
    """`range(start, n, cuda.gridsize(1))`."""
    if not isinstance(over, ast.Call) or len(over.args) < 3:
        return False
    return _mentions(over.args[2], _STRIDE)


def _is_bare(index: ast.expr, names: frozenset[str]) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(p, ast.Name) and p.id in names for p in parts) and all(
        isinstance(p, ast.Name | ast.Constant) for p in parts
    )
