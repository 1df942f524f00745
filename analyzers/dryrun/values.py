"""What the dry run knows of a Python value: where it lives and how sure that is."""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from typing import Any, Final

from analyzers.finding import Confidence
from analyzers.records import Word, record, replace


class Device(Word):
    """Where the bytes of a value are."""

    HOST = "host"
    GPU = "gpu"
    UNKNOWN = "unknown"


class Kind(Word):
    """What a value is, seen from the GPU."""

    UNKNOWN = "unknown"
    TENSOR = "tensor"  # an array with data: torch, numpy, CuPy, Numba, JAX …
    NUMBER = "number"
    TEXT = "text"
    NONE = "none"
    PLACE = "place"  # a device: torch.device, "cuda:0", x.device
    MODULE = "module"  # a network; calling it gives tensors
    LOADER = "loader"
    OPTIMIZER = "optimizer"
    STREAM = "stream"
    EVENT = "event"
    SEQUENCE = "sequence"  # list, tuple, set, generator
    MAPPING = "mapping"
    FUNCTION = "function"
    CLASS = "class"
    INSTANCE = "instance"
    LIBRARY = "library"  # a module, or a name inside one
    METHOD = "method"  # bound to its receiver
    KERNEL = "kernel"  # a device function that is launched
    LAUNCHER = "launcher"  # kernel[grid, block]
    CLOCK = "clock"  # a reading of a clock
    CONTEXT = "context"  # what a with-statement enters


class Missing:
    """Stands for a constant that is not known (None is a constant)."""


MISSING: Final = Missing()


@record
class Value:
    """One abstract value. Values with the same `ident` (not 0) share memory."""

    kind: Kind = Kind.UNKNOWN
    type: str = ""  # qualified class name, the key to its facts
    device: Device = Device.UNKNOWN
    sure: Confidence = Confidence.CERTAIN  # of kind and device together
    ident: int = 0
    scalar: bool = False  # no dimensions; of a module: its result has none
    flat: bool = False  # one dimension: indexing it gives a scalar
    constant: Any = MISSING
    items: tuple[Value, ...] | None = None  # of a sequence whose length is known
    element: Value | None = None  # of any sequence or mapping
    pinned: bool | None = None
    fresh: bool = False
    filled: str = ""
    graph: bool = False  # may carry autograd history
    dtype: str = ""
    strided: bool = False
    gaps: bool = False  # a slice that leaves out something between its rows or elements
    homemade: bool = False  # computed on the host from nothing but constants and factories
    fetched: Any = field(default=None, compare=False)  # the Copy that brought its data to the host
    bytes: bool = False  # a number that counts bytes
    unit: str = ""  # what else a number counts: "elements", or "width", the bytes of one element
    ref: Any = None  # what else belongs to its kind: function, class, stream, receiver …
    made_by: Any = field(default=None, compare=False)  # the Call that gave it

    @property
    def on_gpu(self) -> bool:
        """Whether it is a tensor that lives on the device, as far as is known."""
        return self.device is Device.GPU and self.kind is Kind.TENSOR

    @property
    def on_host(self) -> bool:
        """Whether its data is known to be host data."""
        return self.device is Device.HOST or self.kind in HOST_KINDS

    @property
    def likeness(self) -> tuple[object, ...]:
        """What a function may tell from the value: equal for values that it treats alike."""
        inner = self.items if self.items is not None else (self.element,)
        constant = self.constant if isinstance(self.constant, str | int | float) else None
        return (
            self.kind,
            self.type,
            self.device,
            self.sure,
            (self.scalar, self.flat, self.graph, self.fresh, self.pinned, self.strided),
            self.dtype,
            (type(constant), constant),
            self.ref if isinstance(self.ref, str) else getattr(self.ref, "likeness", id(self.ref)),
            tuple(i.likeness if i is not None else None for i in inner[:4]),
        )

    @property
    def known(self) -> bool:
        """Whether its constant is known."""
        return self.constant is not MISSING


HOST_KINDS = frozenset({Kind.NUMBER, Kind.TEXT, Kind.NONE, Kind.CLOCK})

UNKNOWN: Final = Value()
NONE: Final = Value(Kind.NONE, constant=None)
NUMBER: Final = Value(Kind.NUMBER, device=Device.HOST)
TEXT: Final = Value(Kind.TEXT, device=Device.HOST)
SEQUENCE: Final = Value(Kind.SEQUENCE)
MAPPING: Final = Value(Kind.MAPPING)


@lru_cache(maxsize=4096, typed=True)
def constant(value: object) -> Value:
    """The value of a literal."""
    if value is None:
        return NONE
    if isinstance(value, bool | int | float | complex):
        return Value(Kind.NUMBER, device=Device.HOST, constant=value)
    if isinstance(value, str):
        return Value(Kind.TEXT, device=Device.HOST, constant=value)
    return UNKNOWN


@lru_cache(maxsize=4096)
def library(name: str) -> Value:
    """The module of that name, or the name inside one."""
    return Value(Kind.LIBRARY, ref=name)


def weaken(value: Value, sure: Confidence) -> Value:
    """The same value, at most as sure as `sure`."""
    weaker = value.sure.weaker(sure)
    return value if weaker is value.sure else replace(value, sure=weaker)


def join(a: Value, b: Value) -> Value:
    """What holds when it is not known which of the two a name is bound to."""
    if a is b or a == b:
        return b if a.fetched is None and b.fetched is not None else a
    for one, other in ((a, b), (b, a)):
        if one.kind in (Kind.UNKNOWN, Kind.NONE) and one.device is Device.UNKNOWN:
            return weaken(_forget(other), Confidence.LIKELY)
    if a.kind is not b.kind:
        return _join_kinds(a, b)
    if a.kind is Kind.CLOCK:  # the later reading: on the next turn it is the one that counts
        return a if a.ref.place.order > b.ref.place.order else b
    if a.kind in _BY_REF and a.ref != b.ref:
        return UNKNOWN
    if a.kind is Kind.TEXT and Device.GPU in (place_of(a)[0], place_of(b)[0]):
        # "cuda" if … else "cpu": code that may run on the GPU is written for it.
        return Value(Kind.PLACE, device=Device.GPU, sure=Confidence.LIKELY)
    return _join_fields(a, b)


_BY_REF = frozenset(
    {Kind.CLASS, Kind.CONTEXT, Kind.FUNCTION, Kind.KERNEL, Kind.LAUNCHER, Kind.LIBRARY, Kind.METHOD}
)


def _join_kinds(a: Value, b: Value) -> Value:
    # `total = 0` before a loop that adds tensors: the tensor is what matters.
    for one, other in ((a, b), (b, a)):
        if one.kind is Kind.TENSOR and other.kind in (Kind.NUMBER, Kind.SEQUENCE):
            return weaken(_forget(one), Confidence.LIKELY)
        if one.kind is Kind.PLACE and other.kind is Kind.TEXT:
            return weaken(one, Confidence.LIKELY)
    return UNKNOWN


def _join_fields(a: Value, b: Value) -> Value:
    device, sure = _join_devices(a, b)
    return Value(
        kind=a.kind,
        type=a.type if a.type == b.type else a.type or b.type,
        device=device,
        sure=sure,
        ident=a.ident if a.ident == b.ident else 0,
        scalar=a.scalar and b.scalar,
        flat=a.flat and b.flat,
        constant=a.constant if a.known and b.known and _same(a.constant, b.constant) else MISSING,
        items=_join_items(a, b),
        element=_join_elements(a.element, b.element),
        pinned=a.pinned if a.pinned == b.pinned else None,
        graph=a.graph or b.graph,
        dtype=a.dtype if a.dtype == b.dtype else "",
        strided=a.strided and b.strided,
        gaps=a.gaps and b.gaps,
        homemade=a.homemade and b.homemade,
        fetched=a.fetched or b.fetched,
        bytes=(a.bytes or a.constant == 0) and (b.bytes or b.constant == 0),
        unit=a.unit if a.unit == b.unit else "",
        ref=a.ref if a.ref == b.ref else None,
        made_by=a.made_by if a.made_by is b.made_by else None,
    )


def _same(a: object, b: object) -> bool:
    return type(a) is type(b) and a == b


def _join_devices(a: Value, b: Value) -> tuple[Device, Confidence]:
    sure = a.sure.weaker(b.sure)
    if a.device is b.device:
        return a.device, sure
    # Code that may move a value to the GPU is written for the GPU.
    gpu = a if a.device is Device.GPU else b
    if gpu.device is Device.GPU:
        return Device.GPU, gpu.sure.weaker(Confidence.LIKELY)
    return Device.UNKNOWN, sure.weaker(Confidence.LIKELY)


def _join_items(a: Value, b: Value) -> tuple[Value, ...] | None:
    if a.items is None or b.items is None or len(a.items) != len(b.items):
        return None
    return tuple(join(x, y) for x, y in zip(a.items, b.items, strict=True))


def _join_elements(a: Value | None, b: Value | None) -> Value | None:
    if a is None or b is None:
        return a or b
    return join(a, b)


def _forget(value: Value) -> Value:
    """Without what only holds for one path."""
    if value.constant is MISSING and not value.fresh:
        return value
    return replace(value, constant=MISSING, fresh=False)


def element_of(value: Value) -> Value:
    """What iterating over or indexing into `value` gives."""
    if value.kind is Kind.TENSOR:
        return replace(value, scalar=False, fresh=False, pinned=value.pinned, constant=MISSING)
    if value.items:
        result = value.items[0]
        for item in value.items[1:]:
            result = join(result, item)
        return result
    if value.element is not None:
        return value.element
    if value.kind is Kind.TEXT:
        return TEXT
    return UNKNOWN


def turn_of(value: Value) -> Value:
    """What one turn of a loop over `value` gets: a mapping hands out its keys."""
    return UNKNOWN if value.kind is Kind.MAPPING else element_of(value)


def unpack(value: Value, count: int) -> tuple[Value, ...]:
    """What `count` names get when `value` is unpacked into them."""
    if value.kind is Kind.MAPPING:
        return (UNKNOWN,) * count  # its keys
    if value.items is not None:
        return value.items if len(value.items) == count else (UNKNOWN,) * count
    return (element_of(value),) * count


def place_of(value: Value) -> tuple[Device, Confidence]:
    """The device a value denotes when it is used as one ("cuda:0", torch.device, an index)."""
    if value.kind is Kind.PLACE:
        return value.device, value.sure
    if isinstance(value.constant, str):
        name = value.constant.partition(":")[0].strip()
        if name in GPU_PLACES:
            return Device.GPU, value.sure
        if name in HOST_PLACES:
            return Device.HOST, value.sure
    if value.kind is Kind.NUMBER:  # a device index or a rank
        return Device.GPU, Confidence.LIKELY
    if value.kind is Kind.TENSOR:  # .to(other)
        return value.device, value.sure
    return Device.UNKNOWN, Confidence.POSSIBLE


GPU_PLACES = frozenset({"cuda", "gpu", "hip"})
HOST_MEMORY = frozenset({"cpu"})
HOST_PLACES = frozenset({"cpu", "meta", "mps", "xpu"})
