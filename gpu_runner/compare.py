"""Whether a variant's output equals the base's, judged outside the sandbox from plain bytes."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from gpu_runner.frames import FrameError

Spec = dict[str, Any]

# Relative and absolute tolerance per floating type; whole numbers must be equal.
TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
FORMATS = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}
PARTS = {"complex64": "float32", "complex128": "float64"}
BLOCK = 1 << 16


@dataclass(frozen=True)
class Output:
    """A value as the harness described it, with the bytes of its arrays."""

    spec: Spec
    data: bytes


@dataclass(frozen=True)
class Difference:
    """What differs, if anything, and the largest deviations seen."""

    reason: str | None = None
    absolute: float = 0.0
    relative: float = 0.0

    def merged(self, other: Difference) -> Difference:
        """Both together; the first reason stands."""
        return Difference(
            self.reason or other.reason,
            max(self.absolute, other.absolute),
            max(self.relative, other.relative),
        )


def difference(ours: Output, base: Output, tolerance: float | None = None) -> Difference:
    """How our output deviates from the base's; without a reason they count as equal."""
    try:
        return _Comparer(ours.data, base.data, tolerance).compare(
            ours.spec, base.spec, "the output"
        )
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError, struct.error):
        raise FrameError("the harness described a value that makes no sense") from None


def opaque(spec: Spec) -> str | None:
    """The type of the first part of a value that cannot be compared, or None."""
    if spec.get("t") == "opaque":
        return str(spec.get("v"))
    inner = spec.get("v")
    for item in cast("list[Any]", inner) if isinstance(inner, list) else []:
        for part in cast("list[Any]", item) if isinstance(item, list) else [item]:
            found = opaque(cast("Spec", part)) if isinstance(part, dict) else None
            if found:
                return found
    return None


@dataclass(frozen=True)
class _Comparer:
    mine: bytes
    theirs: bytes
    tolerance: float | None

    def compare(self, ours: Spec, base: Spec, where: str) -> Difference:
        """How one part deviates from its counterpart."""
        kind = ours["t"]
        if kind != base["t"]:
            return Difference(f"{where} is {_named(ours)}, the base's is {_named(base)}")
        match kind:
            case "array":
                return self._arrays(ours, base, where)
            case "float" | "complex":
                return self._scalars(ours["v"], base["v"], where)
            case "list" | "tuple" | "dict":
                return self._sequences(ours["v"], base["v"], where)
            case _ if ours["v"] != base["v"]:
                said = f"{ours['v']!r:.60} instead of {base['v']!r:.60}"
                return Difference(f"{where} differs: {said}")
            case _:
                return Difference()

    def _scalars(self, ours: Any, base: Any, where: str) -> Difference:
        pairs = zip(_floats(ours), _floats(base), strict=True)
        allowed = TOLERANCES["float64"] if self.tolerance is None else self.tolerance
        return _numbers(pairs, allowed, where)

    def _sequences(self, ours: list[Any], base: list[Any], where: str) -> Difference:
        if len(ours) != len(base):
            return Difference(f"{where} has {len(ours)} parts, the base's {len(base)}")
        whole = Difference()
        left: Any
        for index, (left, right) in enumerate(zip(ours, base, strict=True)):
            keyed = isinstance(left, list)  # a dict travels as pairs of key and value
            pairs: Any = zip(left, right, strict=True) if keyed else ((left, right),)
            for one, other in pairs:
                whole = whole.merged(self.compare(one, other, f"{where}[{index}]"))
        return whole

    def _arrays(self, ours: Spec, base: Spec, where: str) -> Difference:
        for key in ("kind", "dtype", "shape", "device"):
            if ours[key] != base[key]:
                return Difference(f"{where} has {key} {ours[key]}, the base's has {base[key]}")
        left, right = _slice(self.mine, ours["at"]), _slice(self.theirs, base["at"])
        if len(left) != len(right):
            return Difference(f"{where} has another number of bytes than the base's")
        dtype = str(ours["dtype"])
        default = TOLERANCES.get(PARTS.get(dtype, dtype), 0.0)
        allowed = default if self.tolerance is None or default == 0.0 else self.tolerance
        whole = Difference()
        for start in range(0, len(left), BLOCK):
            one, other = left[start : start + BLOCK], right[start : start + BLOCK]
            if one != other and not whole.reason:
                pairs = zip(_values(one, dtype), _values(other, dtype), strict=True)
                whole = whole.merged(_numbers(pairs, allowed, where))
        return whole


def _slice(data: bytes, at: list[int]) -> memoryview:
    start, length = at
    if start < 0 or length < 0 or start + length > len(data):
        raise ValueError("an array lies outside its payload")
    return memoryview(data)[start : start + length]


def _floats(value: Any) -> list[float]:
    parts: list[str] = [value] if isinstance(value, str) else value
    return [float.fromhex(part) for part in parts]


def _named(spec: Spec) -> str:
    return str(spec.get("v")) if spec["t"] in ("opaque", "constant") else f"of type {spec['t']}"


def _values(data: memoryview, dtype: str) -> Iterator[float]:
    dtype = PARTS.get(dtype, dtype)
    if dtype == "bfloat16":  # the upper half of a float32
        return (
            struct.unpack("<f", b"\0\0" + bytes(data[i : i + 2]))[0] for i in range(0, len(data), 2)
        )
    return (item[0] for item in struct.iter_unpack(f"<{FORMATS[dtype]}", data))


def _numbers(pairs: Any, tolerance: float, where: str) -> Difference:
    absolute = relative = 0.0
    reason: str | None = None
    for ours, base in pairs:
        if ours == base or (math.isnan(ours) and math.isnan(base)):
            continue
        gap = abs(ours - base)
        if not math.isfinite(gap):
            return Difference(f"{where} is {ours} where the base's is {base}", absolute, relative)
        absolute = max(absolute, gap)
        relative = max(relative, gap / abs(base) if base else gap)
        if reason is None and gap > tolerance + tolerance * abs(base):
            reason = (
                f"{where} is {ours:.9g} where the base's is {base:.9g} (tolerance {tolerance:g})"
            )
    return Difference(reason, absolute, relative)
