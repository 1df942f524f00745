"""Values of the benchmarked code as plain JSON and bytes, so that the parent can compare them.

Runs inside the sandbox; standard library only. Only exact types are taken: a subclass of a tensor
may compute when it is looked at, outside the timed part, and is therefore called opaque.
"""

from __future__ import annotations

import array
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from gpu_runner.frames import MOST_PAYLOAD

Spec = dict[str, Any]
PACKED = 16  # from this length on, lists of plain numbers travel as one array
CODES = {"b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32"}
CODES.update({"l": "int64", "L": "uint64", "q": "int64", "Q": "uint64"})
CODES.update({"f": "float32", "d": "float64"})
DEEPEST = 20
PLAIN: dict[type, tuple[str, Callable[[Any], Any]]] = {
    type(None): ("constant", lambda value: value),
    bool: ("constant", lambda value: value),
    int: ("int", lambda value: str(value) if abs(value) < 1 << 64 else hex(value)),
    str: ("str", str),
    float: ("float", float.hex),
    complex: ("complex", lambda value: [value.real.hex(), value.imag.hex()]),
}


class TooLargeError(ValueError):
    """The value has more bytes than a frame may carry."""


class Encoder:
    """Collects the bytes of one value's arrays behind its description."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def encode(self, value: Any, depth: int = 0) -> Spec:
        """The description of a value; its arrays are appended to `parts`."""
        kind = cast("type[Any]", type(value))
        plain = PLAIN.get(kind)
        if plain is not None:
            return {"t": plain[0], "v": plain[1](value)}
        if kind in (bytes, bytearray):
            return self._array("bytes", "uint8", (len(value),), bytes(value))
        if kind is array.array and value.typecode in CODES:
            return self._array("array", CODES[value.typecode], (len(value),), value.tobytes())
        if depth > DEEPEST:
            return {"t": "opaque", "v": "nested too deeply"}
        return self._container(value, depth)

    def _container(self, value: Any, depth: int) -> Spec:
        if type(value) in (list, tuple) or _named_tuple(value):
            return self._sequence(value, depth)
        if type(value) is not dict:
            return self._foreign(value)
        inner = depth + 1
        items = cast("dict[Any, Any]", value).items()
        pairs = [[self.encode(key, inner), self.encode(item, inner)] for key, item in items]
        return {"t": "dict", "v": pairs}

    def _sequence(self, value: Sequence[Any], depth: int) -> Spec:
        kinds = set(map(type, value))
        if len(value) >= PACKED and kinds == {float}:
            return self._array("list", "float64", (len(value),), array.array("d", value).tobytes())
        if len(value) >= PACKED and kinds == {int}:
            try:
                return self._array(
                    "list", "int64", (len(value),), array.array("q", value).tobytes()
                )
            except OverflowError:
                pass
        name = "list" if isinstance(value, list) else "tuple"
        return {"t": name, "v": [self.encode(item, depth + 1) for item in value]}

    def _foreign(self, value: Any) -> Spec:
        for module, convert in CONVERTERS.items():
            if module in sys.modules:
                found = convert(self, value, sys.modules[module])
                if found is not None:
                    return found
        kind = cast("type[Any]", type(value))
        return {"t": "opaque", "v": f"{kind.__module__}.{kind.__qualname__}"}

    def _array(
        self, kind: str, dtype: str, shape: Sequence[int], data: bytes, device: str = "cpu"
    ) -> Spec:
        start, self.size = self.size, self.size + len(data)
        if self.size > MOST_PAYLOAD:
            raise TooLargeError(
                f"the value is larger than {MOST_PAYLOAD >> 20} MiB; return a smaller one, "
                "such as a sum along an axis"
            )
        self.parts.append(data)
        spec: Spec = {"t": "array", "kind": kind, "dtype": dtype, "shape": list(shape)}
        spec.update(at=[start, len(data)], device=device)
        return spec

    def numpy(self, value: Any, numpy: Any) -> Spec | None:
        """An exact numpy array or scalar of numbers."""
        if type(value) is not numpy.ndarray and not isinstance(value, numpy.generic):
            return None
        if value.dtype.kind not in "biufc" or not value.dtype.isnative:
            return None
        data = numpy.ascontiguousarray(value).tobytes()
        return self._array("numpy", value.dtype.name, value.shape, data)

    def torch(self, value: Any, torch: Any) -> Spec | None:
        """An exact dense tensor or parameter, on any device."""
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            return None
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        dtype = str(value.dtype).rsplit(".", 1)[-1]
        data = bytes(flat.numpy()) if "numpy" in sys.modules else bytes(flat.tolist())
        return self._array("torch", dtype, value.shape, data, value.device.type)

    def cupy(self, value: Any, cupy: Any) -> Spec | None:
        """An exact CuPy array, copied to the host."""
        if type(value) is not cupy.ndarray:
            return None
        return self._array("cupy", value.dtype.name, value.shape, value.get().tobytes(), "cuda")

    def numba(self, value: Any, _numba: Any) -> Spec | None:
        """A Numba device array, copied to the host."""
        if not type(value).__module__.startswith("numba") or not hasattr(value, "copy_to_host"):
            return None
        host = value.copy_to_host()
        return self._array("numba", host.dtype.name, host.shape, host.tobytes(), "cuda")

    def jax(self, value: Any, jax: Any) -> Spec | None:
        """A JAX array, copied to the host."""
        if not isinstance(value, jax.Array) or "numpy" not in sys.modules:
            return None
        host = sys.modules["numpy"].asarray(value)
        return self._array("jax", str(value.dtype), host.shape, host.tobytes(), "jax")


CONVERTERS: dict[str, Callable[[Encoder, Any, Any], Spec | None]] = {
    "numpy": Encoder.numpy,
    "torch": Encoder.torch,
    "cupy": Encoder.cupy,
    "numba": Encoder.numba,
    "jax": Encoder.jax,
}


def _named_tuple(value: Any) -> bool:
    """A tuple with named fields and no methods that could compute while it is read."""
    kind = cast(Any, type(value))
    if kind.__mro__[1:] != (tuple, object) or not hasattr(kind, "_fields"):
        return False
    own: set[str] = set(kind.__dict__)
    return not own & {"__iter__", "__len__", "__getitem__", "__getattribute__"}


def encode(value: Any) -> tuple[Spec, bytes]:
    """The description of a value and the bytes of its arrays."""
    encoder = Encoder()
    spec = encoder.encode(value)
    return spec, b"".join(encoder.parts)


def digest(value: Any) -> str:
    """A fingerprint of a value's contents; opaque parts count by their type only."""
    spec, data = encode(value)
    found = hashlib.sha256(json.dumps(spec, sort_keys=True).encode())
    found.update(data)
    return found.hexdigest()
