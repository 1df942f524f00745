"""Where single-precision elements meet Python floats inside a Numba kernel.

A Python float, as a literal or as an argument, is a float64 there, and float32 with float64 gives
float64. Integers do not promote, and `float32(…)` makes a single of anything.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from analyzers.kernels import Kernel

SINGLE = "float32"  # stands for a local array that is single precision whatever the launch
_SINGLES = frozenset({"float32", "f4", "single"})
_DOUBLES = frozenset({"float64", "f8", "double"})
_PASS_ON = frozenset(
    {"sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "fabs", "abs", "min", "max", "pow", "fma"}
    | {
        "floor",
        "ceil",
        "rsqrt",
        "atan2",
        "hypot",
        "fmin",
        "fmax",
        "log2",
        "log10",
        "expm1",
        "log1p",
    }
    | {"sinh", "cosh", "asin", "acos", "atan", "erf", "erfc"}
)
_CONSTANTS = frozenset({"pi", "e", "tau"})


@dataclass(frozen=True)
class Mix:
    """Whose elements a value comes from, and which doubles."""

    arrays: frozenset[str] = frozenset()
    doubles: frozenset[ast.expr] = frozenset()  # literals and names of scalar parameters

    def joined(self, other: Mix) -> Mix:
        """Both."""
        return Mix(self.arrays | other.arrays, self.doubles | other.doubles)


NOTHING = Mix()


@dataclass(frozen=True)
class Meeting:
    """A double that makes the arithmetic on elements of arrays double."""

    double: ast.expr
    arrays: frozenset[str]
    accumulates: bool = False  # `total = 0.0` that elements are added to


@dataclass
class _Walk:
    scalars: frozenset[str]
    arrays: frozenset[str]
    names: dict[str, Mix] = field(default_factory=dict[str, Mix])
    local: dict[str, Mix] = field(default_factory=dict[str, Mix])  # elements of local arrays
    found: dict[ast.expr, Meeting] = field(default_factory=dict[ast.expr, Meeting])

    def block(self, body: list[ast.stmt]) -> None:
        for node in body:
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            mix = self.value(node.value)
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self._bind(target.id, node.value, mix)
        elif isinstance(node, ast.AugAssign):
            target = self.value(node.target)
            named = isinstance(node.target, ast.Name)
            mix = self.meet(target, self.value(node.value), adds=named)
            if isinstance(node.target, ast.Name):
                self.names[node.target.id] = mix
        elif isinstance(node, ast.Expr | ast.Return) and node.value is not None:
            self.value(node.value)
        for part in ("body", "orelse"):
            self.block(getattr(node, part, []))

    def _bind(self, name: str, node: ast.expr, mix: Mix) -> None:
        self.names[name] = mix
        if isinstance(node, ast.Call) and _last(node.func) == "array":
            words = {_last(a) for a in (*node.args[1:], *(k.value for k in node.keywords))}
            if words & _SINGLES:
                self.local[name] = Mix(arrays=frozenset({SINGLE}))

    def value(self, node: ast.expr) -> Mix:
        if isinstance(node, ast.Constant):
            return Mix(doubles=frozenset({node})) if isinstance(node.value, float) else NOTHING
        if isinstance(node, ast.Name):
            if node.id in self.names:
                return self.names[node.id]
            return Mix(doubles=frozenset({node})) if node.id in self.scalars else NOTHING
        if isinstance(node, ast.Subscript):
            return self._element(node)
        return self._call(node) if isinstance(node, ast.Call) else self._computed(node)

    def _computed(self, node: ast.expr) -> Mix:
        if isinstance(node, ast.BinOp):
            return self.meet(self.value(node.left), self.value(node.right))
        if isinstance(node, ast.UnaryOp):
            return self.value(node.operand)
        if isinstance(node, ast.IfExp):
            return self.value(node.body).joined(self.value(node.orelse))
        math = isinstance(node, ast.Attribute) and _last(node.value) == "math"
        return Mix(doubles=frozenset({node})) if math and _last(node) in _CONSTANTS else NOTHING

    def _element(self, node: ast.Subscript) -> Mix:
        base = node.value
        if isinstance(base, ast.Name):
            if base.id in self.local:
                return self.local[base.id]
            if base.id in self.arrays and not isinstance(node.slice, ast.Slice):
                return Mix(arrays=frozenset({base.id}))
        return NOTHING

    def _call(self, node: ast.Call) -> Mix:
        name = _last(node.func)
        given = [self.value(a) for a in node.args if not isinstance(a, ast.Starred)]
        if name in _SINGLES or name not in _PASS_ON:
            return NOTHING
        result = NOTHING
        for mix in given:
            result = self.meet(result, mix)
        return result

    def meet(self, left: Mix, right: Mix, adds: bool = False) -> Mix:
        """Arithmetic between the two."""
        for one, other in ((left, right), (right, left)):
            if one.arrays and other.doubles and not other.arrays:
                for double in other.doubles:
                    accumulates = adds and other is left and isinstance(double, ast.Constant)
                    self.found.setdefault(double, Meeting(double, one.arrays, accumulates))
        return left.joined(right)


def meetings(kernel: Kernel) -> tuple[Meeting, ...]:
    """Every double that meets elements of an array, once."""
    scalars = frozenset(kernel.parameters) - kernel.indexed
    walk = _Walk(scalars, kernel.indexed)
    walk.block(list(kernel.body))
    return tuple(walk.found.values())


def declared(kernel: Kernel) -> dict[str, str] | None:
    """The parameters' types where the decorator states a signature: "float32[:]"."""
    for decorator in kernel.node.decorator_list:
        first = decorator.args[0] if isinstance(decorator, ast.Call) and decorator.args else None
        if first is None or isinstance(first, ast.List | ast.Tuple):
            continue
        text = first.value if isinstance(first, ast.Constant) else ast.unparse(first)
        if isinstance(text, str) and text.rstrip().endswith(")"):
            inner = text.partition("(")[2].rstrip()[:-1]
            return dict(zip(kernel.parameters, _split(inner), strict=False))
    return None


def is_single(type_text: str) -> bool:
    """Whether the declared type is single precision, or an array of it."""
    return type_text.partition("[")[0].strip().rpartition(".")[2] in _SINGLES


def _split(text: str) -> list[str]:
    parts, depth, start = list[str](), 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    return [*parts, text[start:].strip()]


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
