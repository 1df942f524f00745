"""Calls of what has no facts: names that speak for themselves, and data that passes through."""

from __future__ import annotations

import ast
from functools import lru_cache

from analyzers.dryrun import accumulate
from analyzers.dryrun.apply import forward, known_call
from analyzers.dryrun.hazards import handed_out
from analyzers.dryrun.parameters import from_name, tensor
from analyzers.dryrun.results import dtype_name
from analyzers.dryrun.run import Run
from analyzers.dryrun.state import Work
from analyzers.dryrun.streams import ANY
from analyzers.dryrun.syntax import dotted
from analyzers.dryrun.values import UNKNOWN, Device, Kind, Value, element_of
from analyzers.dryrun.work import device_of_inputs, fetched_from, parts
from analyzers.finding import Confidence
from analyzers.records import replace
from analyzers.timeline import Argument


def unknown_call(
    run: Run, node: ast.Call, receiver: Value | None, name: str, given: tuple[Argument, ...]
) -> Value:
    """A call of something without facts: a few names speak for themselves."""
    helper_called(run, name)
    _guess_work(run, receiver, name, given)
    if run.state.to_host:
        read = _may_read(run, name)
        for argument in given:
            handed_out(run, argument.value, node, read=read)
    guessed = _guess(run, node, receiver, name, given) or _cache_helper(run, node, receiver, name)
    if guessed is not None:
        return guessed
    if name and from_name(run, name).kind in (Kind.PLACE, Kind.LIBRARY):  # get_device()
        return from_name(run, name)
    if name in run.facts.names.get("module_calls", ()):
        return forward(run, node, Value(Kind.MODULE, sure=Confidence.POSSIBLE), given)
    names = run.facts.names
    named = name in names.get("loss", ()) or name in names.get("criterion", ())
    if named or name.endswith("_loss"):
        device, sure = device_of_inputs(a.value for a in given)
        if device is Device.GPU:
            return replace(run.loss_value(), sure=sure)
    if receiver is not None and name in names.get("keep_methods", ()) and given:
        accumulate.kept(run, node, given[-1].value)
    if receiver is not None and name in names.get("cast_methods", ()) and given:
        return Value(dtype=dtype_name(given[0].value))
    if receiver is None and name[:1].isupper() and not name.isupper():
        return Value(Kind.INSTANCE)  # a class from elsewhere: what is moved later is a network
    if receiver is None and given and _makes_a_tensor(run, name, given):
        return replace(tensor(run, Confidence.POSSIBLE), device=Device.HOST, homemade=True)
    return _passed_through(run, receiver, given)


def _makes_a_tensor(run: Run, name: str, given: tuple[Argument, ...]) -> bool:
    """`create_grid(height, width)`: it is told no device, so it makes a tensor of the host."""
    verb, _, thing = name.partition("_")
    names = run.facts.names
    if verb not in names.get("making_verbs", ()) or not run.tensor_class:
        return False
    if thing.rpartition("_")[2] not in names.get("made_things", ()):
        return False
    if any(a.star or a.name == "device" for a in given):
        return False
    return all(_is_size(a.value) or _called_size(run, a) for a in given)


def _called_size(run: Run, argument: Argument) -> bool:
    """`self.kernel_size`, of which nothing else is known."""
    word = run.source.segment(argument.span).rpartition("_")[2].rpartition(".")[2]
    unknown = argument.value.kind in (Kind.UNKNOWN, Kind.METHOD, Kind.SEQUENCE)
    return unknown and word in run.facts.names.get("sizes", ())


def _is_size(value: Value) -> bool:
    if value.kind is Kind.SEQUENCE:
        return all(map(_is_size, value.items or (element_of(value),)))
    return value.kind in (Kind.NUMBER, Kind.NONE) or (value.kind is Kind.TEXT and value.known)


def _cache_helper(run: Run, node: ast.Call, receiver: Value | None, name: str) -> Value | None:
    """A helper of the project, called by a name that says that it empties the memory cache."""
    names = run.facts.names
    if receiver is not None:
        return None
    known = names.get("cache_helper_class", ("",))[0]
    fact = run.facts.find(known) if name in names.get("cache_helpers", ()) else None
    return known_call(run, node, fact, known, None, (), name) if fact is not None else None


def _may_read(run: Run, name: str) -> bool:
    """A call that works with what it is given, in a function that never waits for anything."""
    info, names = run.frame.info, run.facts.names
    if info is None or not name or name[:1].isupper() or name in names.get("holders", ()):
        return False
    marks = (*names.get("sync_words", ()), *names.get("later_words", ()))
    return not any(_names_a_wait(call, marks) for call in (name, *info.calls))


def _passed_through(run: Run, receiver: Value | None, given: tuple[Argument, ...]) -> Value:
    """What code that is not known makes of data whose history is."""
    values = [a.value for a in given]
    fetched = fetched_from(values if receiver is None else [receiver, *values])
    if fetched is not None:
        return Value(fetched=fetched)
    tensors = [value for value in values if value.kind is Kind.TENSOR]
    if receiver is not None or not tensors or not all(tensor.homemade for tensor in tensors):
        return UNKNOWN
    if any(value not in tensors and not value.known for value in values):
        return UNKNOWN
    return replace(
        tensors[0],
        ident=run.new_ident(),
        sure=Confidence.POSSIBLE,
        scalar=False,
        fresh=False,
        filled="",
        made_by=None,
    )


def _guess_work(run: Run, receiver: Value | None, name: str, given: tuple[Argument, ...]) -> None:
    """A call of something unknown may run a network: a clock around it deserves a second look."""
    if not run.tensor_class or run.for_gpu is Confidence.POSSIBLE:
        return
    handed = [p for a in given for p in parts(a.value)]
    runs = name in run.facts.names.get("network_calls", ())
    network = any(value.kind is Kind.MODULE for value in (*handed, receiver or UNKNOWN))
    fed = any(value.on_gpu and value.sure is not Confidence.POSSIBLE for value in handed)
    if runs or network or (fed and "no_grad" in run.contexts):
        sure = (
            Confidence.LIKELY
            if runs and (fed or "no_grad" in run.contexts)
            else Confidence.POSSIBLE
        )
        run.state.work = Work(run.tick(), None, sure, run.loops)
        run.mark_work()


def _guess(
    run: Run, node: ast.Call, receiver: Value | None, name: str, given: tuple[Argument, ...]
) -> Value | None:
    """A method that only tensors have, called on something unknown."""
    names = run.facts.names
    later = receiver is not None and receiver.kind is Kind.NONE  # set by another method
    if later and name not in names.get("stream_methods", ()):
        return None
    if receiver is None or not (later or receiver.kind in _OPEN):
        return None
    if name in names.get("host_array_methods", ()):
        return _on_host_array(run, node, name, given)
    if name in names.get("fetch_methods", ()) and not given:
        return _fetched(run, node, name)
    if not run.tensor_class:
        return None
    if name in names.get("module_methods", ()) and not given:
        return Value(Kind.MODULE, run.class_of(Kind.MODULE), sure=Confidence.LIKELY)
    stream = Value(Kind.STREAM, run.class_of(Kind.STREAM), ref=ANY)
    fact = run.facts.method(stream.type, name) if name in names.get("stream_methods", ()) else None
    if fact is not None:
        return known_call(run, node, fact, f"{stream.type}.{name}", stream, given, name)
    return _on_tensor(run, node, receiver, name, given)


def _on_tensor(
    run: Run, node: ast.Call, receiver: Value, name: str, given: tuple[Argument, ...]
) -> Value | None:
    """A method that tensors have, and perhaps other arrays as well."""
    names = run.facts.names
    sure = Confidence.LIKELY if name in names.get("tensor_methods", ()) else None
    if sure is None and name in names.get("array_methods", ()):
        sure = Confidence.POSSIBLE
    fact = run.facts.method(run.tensor_class, name) if sure is not None else None
    if fact is None or sure is None:
        return None
    if receiver.kind is Kind.INSTANCE and fact.moves:
        return known_call(run, node, fact, f"{run.tensor_class}.{name}", receiver, given, name)
    assumed = _assumed(run, node, name, sure)
    return known_call(run, node, fact, f"{run.tensor_class}.{name}", assumed, given, name)


_OPEN = frozenset({Kind.UNKNOWN, Kind.METHOD, Kind.INSTANCE})


def _assumed(run: Run, node: ast.Call, method: str, sure: Confidence) -> Value:
    """The tensor that the method belongs to, and where it seems to be."""
    assumed = tensor(run, sure)
    if _counts(run, node):
        return replace(assumed, device=Device.HOST)
    if method in run.facts.names.get("device_methods", ()):  # .cpu(): expected on the device
        sure = run.for_gpu.weaker(Confidence.POSSIBLE)
        return replace(assumed, device=Device.GPU, sure=sure)
    return assumed


def _counts(run: Run, node: ast.Call) -> bool:
    """Whether the receiver is a counter of steps, which optimizers keep in host memory."""
    base = node.func.value if isinstance(node.func, ast.Attribute) else node
    if isinstance(base, ast.Subscript) and isinstance(base.slice, ast.Constant):
        words = str(base.slice.value)  # state["step"]
    else:
        words = dotted(base.value if isinstance(base, ast.Subscript) else base)
    last = words.rpartition(".")[2].split("_")
    return not set(run.facts.names.get("counters", ())).isdisjoint(last)


def _array_classes(run: Run) -> list[str]:
    """The device arrays that look like the host's, of the libraries that the file imports."""
    classes = run.facts.names.get("device_array_class", ())
    return [cls for cls in classes if cls.partition(".")[0] in run.imports]


def _fetched(run: Run, node: ast.Call, name: str) -> Value | None:
    """`x.get()` of something unknown: a copy to the host only if its data goes back later."""
    for cls in _array_classes(run):
        fact = run.facts.table.find(f"{cls}.{name}")
        if fact is not None and fact.moves == "host":
            source = Value(Kind.TENSOR, cls, Device.GPU, Confidence.POSSIBLE)
            with run.silently():
                result = known_call(run, node, fact, fact.name, source, (), name)
            return Value(fetched=result.fetched)
    return None


def _on_host_array(
    run: Run, node: ast.Call, name: str, given: tuple[Argument, ...]
) -> Value | None:
    """A method that only arrays of the host have, unless the file works with others like them."""
    own = run.facts.names.get("host_array_class", ("",))[0]
    if any(f"{cls}.{name}" in run.facts.table for cls in _array_classes(run)):
        return None
    fact = run.facts.method(own, name)
    if fact is None:
        return None
    assumed = Value(Kind.TENSOR, type=own, device=Device.HOST, sure=Confidence.LIKELY)
    return known_call(run, node, fact, f"{own}.{name}", assumed, given, name)


def helper_called(run: Run, name: str) -> None:
    """A helper whose name says that it waits is taken at its word."""
    if name and _names_a_wait(name, run.facts.names.get("sync_words", ())):
        run.state.waited = run.state.read_back = run.tick()
        run.state.order.host_waits()


@lru_cache(maxsize=4096)
def _names_a_wait(name: str, words: tuple[str, ...]) -> bool:
    plain = name.lower().replace("async", "")
    return any(word in plain for word in words)
