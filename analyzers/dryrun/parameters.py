"""What a parameter or an attribute is likely to hold, from annotation, default, use and name."""

from __future__ import annotations

import ast

from analyzers.dryrun.hazards import GIVEN
from analyzers.dryrun.run import Run
from analyzers.dryrun.scan import FunctionInfo
from analyzers.dryrun.values import (
    MAPPING,
    NUMBER,
    SEQUENCE,
    TEXT,
    UNKNOWN,
    Device,
    Kind,
    Value,
    constant,
    weaken,
)
from analyzers.finding import Confidence
from analyzers.records import replace

_PLAIN = {"int": NUMBER, "float": NUMBER, "bool": NUMBER, "str": TEXT, "bytes": TEXT}
_CONTAINERS = {
    "list": SEQUENCE, "tuple": SEQUENCE, "set": SEQUENCE, "Sequence": SEQUENCE,
    "Iterable": SEQUENCE, "List": SEQUENCE, "Tuple": SEQUENCE, "dict": MAPPING, "Dict": MAPPING,
    "Mapping": MAPPING,
}  # fmt: skip
_WRAPPERS = {"Optional", "Union", "Annotated", "Final", "ClassVar"}


def expected(run: Run, info: FunctionInfo, parameter: ast.arg) -> Value:
    """The value a parameter most likely has."""
    if info.owner is not None and parameter is _first(info) and "static" not in info.roles:
        from analyzers.dryrun.classes import instance

        return instance(run, info.owner)
    if parameter.annotation is not None:
        value = from_annotation(run, parameter.annotation)
        if value is TEXT and (named := from_name(run, parameter.arg)).kind is Kind.PLACE:
            return named  # `device: str`
        if value is not None:
            return placed(run, info, value)
    default = _default(info, parameter)
    if default is not None and isinstance(default, ast.Constant) and default.value is not None:
        value = constant(default.value)
        if value.kind is Kind.TEXT and from_name(run, parameter.arg).kind is Kind.PLACE:
            return from_name(run, parameter.arg)
        return replace(value, constant=UNKNOWN.constant)
    return _by_use(run, info, parameter.arg)


def _first(info: FunctionInfo) -> ast.arg | None:
    parameters = info.parameters
    return parameters[0] if parameters else None


def _default(info: FunctionInfo, parameter: ast.arg) -> ast.expr | None:
    a = info.node.args
    positional = [*a.posonlyargs, *a.args]
    if parameter in positional:
        offset = positional.index(parameter) - (len(positional) - len(a.defaults))
        return a.defaults[offset] if offset >= 0 else None
    return a.kw_defaults[a.kwonlyargs.index(parameter)]


def _by_use(run: Run, info: FunctionInfo, name: str) -> Value:
    used = info.attributes.get(name, set())
    marks = set(run.facts.names.get("tensor_methods", ()))
    named = from_name(run, name)
    if named.kind not in (Kind.UNKNOWN, Kind.TENSOR):
        return named
    foreign = any(_is_foreign(run, attribute) for attribute in used)
    if run.tensor_class and used & marks and not foreign:
        return placed(run, info, tensor(run, Confidence.LIKELY))
    per_step = "per_step" in info.roles and info.owner is not None
    if named.kind is Kind.TENSOR and run.tensor_class and not foreign:
        sure = Confidence.LIKELY if per_step else Confidence.POSSIBLE
        return placed(run, info, weaken(named, sure))
    return UNKNOWN


def _is_foreign(run: Run, name: str) -> bool:
    """Whether no tensor of the file's library has an attribute of that name."""
    fact = run.facts.method(run.tensor_class, name)
    return fact is None or fact.name.endswith(".*")


def placed(run: Run, info: FunctionInfo, value: Value) -> Value:
    """A tensor parameter: on the device where the function is written for one."""
    if value.items:
        return replace(value, items=tuple(placed(run, info, item) for item in value.items))
    if value.kind in (Kind.SEQUENCE, Kind.MAPPING) and value.element is not None:
        return replace(value, element=placed(run, info, value.element))
    if value.kind is not Kind.TENSOR or value.device is not Device.UNKNOWN:
        return value
    if info.roles & {"dataset", "on_cpu"}:
        return replace(value, device=Device.HOST, sure=Confidence.LIKELY)
    # A file that names a GPU hands its tensors on there; a network's step runs there anyway.
    sure = run.for_gpu
    if info.roles & {"per_step", "in_step", "hot"}:
        sure = Confidence.LIKELY
    return replace(value, device=Device.GPU, sure=value.sure.weaker(sure), ident=run.new_ident())


def tensor(run: Run, sure: Confidence) -> Value:
    """A tensor of the file's main library, place unknown."""
    return Value(Kind.TENSOR, type=run.tensor_class, sure=sure, ident=run.new_ident())


def gradient(run: Run, owner: Value) -> Value:
    """The gradient of a parameter: networks are trained on the device."""
    if not run.tensor_class or owner.device is Device.HOST:
        return UNKNOWN
    sure = owner.sure if owner.on_gpu and owner.sure is Confidence.CERTAIN else Confidence.LIKELY
    return replace(tensor(run, sure), device=Device.GPU, sure=sure)


def from_name(run: Run, name: str) -> Value:
    """What a name usually stands for; UNKNOWN for most."""
    known = run.named.get(name)
    if known is not None:
        return known
    value = _from_name(run, name)
    if not value.ident and value.kind is not Kind.LOADER:  # tensors are told apart
        run.named[name] = value
    return value


def _from_name(run: Run, name: str) -> Value:
    names = run.facts.names
    word = name.lower().lstrip("_")
    last = word.rpartition("_")[2]
    if word in names.get("device_modules", ()):
        return Value(Kind.LIBRARY, ref=_first_of(run, "device_module_library"))
    if word.partition("_")[0] in names.get("parked_devices", ()) and last == "device":
        return Value(Kind.PLACE)  # where things lie that the GPU has no room for
    if word in names.get("device", ()) or last in ("device", "dev"):
        return Value(Kind.PLACE, device=Device.GPU, sure=run.for_gpu.weaker(Confidence.LIKELY))
    if word in names.get("module", ()) or last in ("model", "net", "network"):
        return Value(Kind.MODULE, type=_first_of(run, "module_class"), sure=Confidence.LIKELY)
    if word in names.get("loader", ()) or last in ("loader", "dataloader"):
        return Value(
            Kind.LOADER,
            type=_first_of(run, "loader_class"),
            sure=Confidence.LIKELY,
            element=batch(run, None),
        )
    if word in names.get("optimizer", ()):
        return Value(Kind.OPTIMIZER, type=_first_of(run, "optimizer_class"))
    for entry in names.get("named_class", ()):
        known, _, cls = entry.partition("=")
        if word == known:
            return Value(Kind.INSTANCE, type=cls, sure=Confidence.LIKELY)
    if word in names.get("number", ()):
        return UNKNOWN
    if word in names.get("tensor", ()) or word in names.get("loss", ()):
        return Value(
            Kind.TENSOR,
            type=run.tensor_class,
            sure=Confidence.POSSIBLE,
            scalar=word in names.get("loss", ()),
            ident=run.new_ident(),
        )
    return UNKNOWN


def _first_of(run: Run, key: str) -> str:
    return run.facts.names.get(key, ("",))[0]


def batch(run: Run, pinned: bool | None) -> Value:
    """What a loader hands out: host tensors."""
    return Value(
        Kind.TENSOR,
        type=run.tensor_class,
        device=Device.HOST,
        pinned=pinned,
        sure=Confidence.LIKELY,
        ident=run.new_ident(),
    )


def from_annotation(run: Run, node: ast.expr) -> Value | None:
    """The value an annotation promises, or None when it says nothing known."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    if isinstance(node, ast.BinOp):  # X | None
        return from_annotation(run, node.left) or from_annotation(run, node.right)
    if isinstance(node, ast.Subscript):
        return _generic(run, node)
    if isinstance(node, ast.Name) and node.id in _PLAIN:
        return _PLAIN[node.id]
    if isinstance(node, ast.Name) and node.id in _CONTAINERS:
        return _CONTAINERS[node.id]
    if isinstance(node, ast.Name | ast.Attribute):
        return _of_class(run, run.evaluate(node), node)
    return None


def promised(run: Run, node: ast.expr, value: Value) -> Value:
    """What an annotation makes of a value that is not known: its history stays."""
    promise = from_annotation(run, node)
    if promise is None:
        return value
    if value.fetched is not None and promise.kind in (Kind.SEQUENCE, Kind.MAPPING):
        inside = replace(promise.element or UNKNOWN, fetched=value.fetched)
        return replace(promise, element=inside)
    return replace(promise, fetched=value.fetched) if value.fetched is not None else promise


def _generic(run: Run, node: ast.Subscript) -> Value | None:
    name = (
        node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    )
    inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name in _WRAPPERS:
        return next((v for part in inner if (v := from_annotation(run, part)) is not None), None)
    if name in _CONTAINERS:
        container = _CONTAINERS[name]
        if name.lower() == "tuple" and len(inner) > 1 and not _is_ellipsis(inner[-1]):
            parts = (from_annotation(run, part) for part in inner)
            return Value(Kind.SEQUENCE, items=tuple(part or UNKNOWN for part in parts))
        element = from_annotation(run, inner[-1] if container is MAPPING else inner[0])
        return replace(container, element=element) if element is not None else container
    return from_annotation(run, node.value)


def _is_ellipsis(node: ast.expr) -> bool:
    """`tuple[X, ...]`: any number of the same."""
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _of_class(run: Run, value: Value, node: ast.expr) -> Value | None:
    from analyzers.dryrun.classes import instance
    from analyzers.dryrun.scan import ClassInfo

    if value.kind is Kind.CLASS and isinstance(value.ref, ClassInfo):
        return instance(run, value.ref)
    if value.kind is Kind.LIBRARY:
        fact = run.facts.find(str(value.ref))
        if fact is not None and fact.kind:
            from analyzers.dryrun.results import instance_of

            made = instance_of(run, fact)
            if made.kind is Kind.TENSOR and made.type == run.tensor_class:
                return tensor(run, Confidence.LIKELY)  # a constructor's place says nothing here
            if made.kind is Kind.PLACE and made.device is Device.UNKNOWN:
                return from_name(run, "device")
            if made.kind is Kind.STREAM:
                return replace(made, ref=f"{GIVEN}{made.ident}")
            return made
    last = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    if last == "Tensor" and run.tensor_class:
        return tensor(run, Confidence.LIKELY)
    return None
