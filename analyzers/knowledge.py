"""What is known of each library: `facts/*.toml`, read once.

A fact is a table named after an API: `["torch.Tensor.item"]`. A name ending in `.*` speaks for
every name below it that has no table of its own. FIELDS in this module is the whole vocabulary;
an unknown key is an error, so a typing mistake in the data cannot pass unseen.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Fact:
    """What one API does, as far as the dry run needs to know.

    Words for `device`: "host", "gpu", "receiver", "inputs" (GPU as soon as one input is) and
    "argument" (the `device` argument decides; without one the host, or `default_device`).
    Words for `waits`: "device", "stream", "event", "scalar", "condition", "copy",
    "shape", "format", "upload".
    """

    name: str = ""
    source: str = ""  # where it is documented or read
    like: str = ""  # take over the fields of that fact, except its source
    kind: str = ""  # a class: tensor, module, stream, event, device, loader, optimizer, kernel, …
    is_a: str = ""  # a class: look there for methods it has no fact for
    gives: str = (
        ""  # class of the result; "receiver", "first" (argument), "none", "element", "list"
    )
    element: str = ""  # of a list, mapping or "pairs" (name, element) result: class of its elements
    device: str = ""
    default_device: str = "host"
    moves: str = ""  # "gpu", "host", "argument": the result is the operand moved there
    async_by: str = (
        ""  # the argument that makes the move not wait: "non_blocking", "stream", "!blocking"
    )
    # … of a stream class: the argument that makes it non-blocking
    into: str = ""  # the argument that a copy writes into: "receiver", "ary", "out"
    waits: str = ""
    waits_unless: tuple[str, ...] = ()  # with one of these arguments the host does not wait
    waits_if: tuple[str, ...] = ()  # only if one of these arguments is True or a tensor
    upload: bool = False  # sends host data to the device when the result is there
    work: bool = False  # enqueues device work when an operand or the result is on the device
    scalar: bool = False  # the result has no dimensions
    reduces: bool = False  # … when it is called without an axis
    view: bool = False  # shares its operand's memory
    inplace: bool = False  # writes into its receiver
    fresh: bool = False  # newly allocated, not yet used
    filled: str = ""  # of a fresh allocation: "undefined", "constant", "random", "range"
    pins: str = ""  # "always", or the argument that asks for page-locked memory
    metadata: bool = False  # an answer the host has without asking the device
    graph: str = ""  # "cut": the result carries no autograd history
    # of the result; "argument" (the `dtype` argument), "receiver", "counted" (what is true or whole
    # is added up as int64)
    dtype: str = ""
    default_dtype: str = ""  # … when the argument is missing
    strided: str = ""  # "yes": the result is a strided view; "no": it is made contiguous
    stream: str = ""  # "argument", "default" (the library's default stream); empty: the current one
    blocking: bool = True  # a stream class: ordered with the legacy default stream
    effect: str = ""  # what else it does: see dryrun/effects.py
    property: bool = False  # an attribute that is read, not called
    parameters: tuple[str, ...] = ()  # names of the positional parameters, receiver not counted
    bytes: bool = False  # an allocator whose size counts bytes, not elements
    since: str = ""
    until: str = ""


FIELDS = frozenset(f.name for f in fields(Fact)) - {"name"}


class Table(Mapping[str, Fact]):
    """Every fact by its name.

    A file is taken apart when a name that it speaks of is first looked up, and of its tables only
    those are parsed that somebody asks for: a run over a whole tree needs one in ten.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self._files: dict[str, list[str]] = {}  # first part of a name -> texts not taken apart yet
        self._texts: dict[str, str] = {}  # name -> the text of its table
        self._raw: dict[str, dict[str, Any]] = {}
        self._facts: dict[str, Fact | None] = {}
        for text in files:
            for root in set(_ROOT.findall(text)):
                self._files.setdefault(root, []).append(text)

    def __getitem__(self, name: str) -> Fact:
        fact = self.find(name)
        if fact is None:
            raise KeyError(name)
        return fact

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        for root in list(self._files):
            self._read(root)
        return iter(list(self._texts))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def find(self, name: str) -> Fact | None:
        """The fact of exactly that name."""
        if name not in self._facts:
            self._facts[name] = self._fact(name)
        return self._facts[name]

    def _body(self, name: str) -> dict[str, Any] | None:
        root = name.partition(".")[0]
        if root in self._files:
            self._read(root)
        if name not in self._raw and name in self._texts:
            self._raw[name] = tomllib.loads(self._texts[name])
        return self._raw.get(name)

    def _read(self, root: str) -> None:
        for text in self._files.pop(root, ()):
            # A file that was read for another root is known by its first table.
            if text.split('"', 2)[1] not in self._texts:
                _, *parts = _HEADER.split(text)
                self._texts.update(zip(parts[::2], parts[1::2], strict=True))

    def _fact(self, name: str) -> Fact | None:
        values = self._body(name)
        if values is None:
            return None
        seen = {name}
        while values.get("like"):
            model = values["like"]
            body = None if model in seen else self._body(model)
            if body is None:
                raise ValueError(f"fact {name!r}: like = {model!r} leads nowhere")
            seen.add(model)
            values = {**body, **values, "like": body.get("like", "")}
        unknown = set(values) - FIELDS
        if unknown:
            raise ValueError(f"fact {name!r} has unknown keys: {', '.join(sorted(unknown))}")
        listed: dict[str, Any] = {
            key: tuple(cast("list[str]", value)) if isinstance(value, list) else value
            for key, value in values.items()
        }
        return Fact(name=name, **listed)


# What a library is asked under such a name, it knows without asking the device.
_ASKS = re.compile(r"(is|has|supports)_[a-z]")
_KNOWN_TO_HOST = Fact(name="*", gives="number", metadata=True)
_ROOT = re.compile(r'^\["([^".]+)', re.MULTILINE)
_HEADER = re.compile(r'^\["([^"]+)"\]', re.MULTILINE)


@dataclass(frozen=True)
class Facts:
    """All facts, with look-up by full name."""

    table: Table
    modules: frozenset[str]  # top-level import names of GPU libraries
    triggers: re.Pattern[bytes]  # a file without a match needs no analysis
    names: dict[str, tuple[str, ...]]  # what parameter and function names usually stand for
    tensor_classes: tuple[tuple[str, str], ...] = ()  # import name -> its tensor class
    _found: dict[str, Fact | None] = field(default_factory=dict[str, "Fact | None"], repr=False)
    _methods: dict[tuple[str, str], Fact | None] = field(
        default_factory=dict[tuple[str, str], "Fact | None"], repr=False
    )

    def find(self, name: str) -> Fact | None:
        """The fact for `name`: its own, or the nearest `prefix.*`."""
        if name in self._found:
            return self._found[name]
        fact = self.table.find(name)
        prefix = name
        while fact is None and "." in prefix:
            prefix = prefix.rpartition(".")[0]
            fact = self.table.find(prefix + ".*")
        if fact is not None and fact.name != name and _ASKS.match(name.rpartition(".")[2]):
            fact = _KNOWN_TO_HOST
        self._found[name] = fact
        return fact

    def method(self, cls: str, name: str) -> Fact | None:
        """The fact for method or attribute `name` of class `cls`, or of what it derives from."""
        key = (cls, name)
        if key not in self._methods:
            self._methods[key] = self._method(cls, name)
        return self._methods[key]

    def _method(self, cls: str, name: str) -> Fact | None:
        while cls:
            own = self.table.find(f"{cls}.{name}")
            if own is not None:
                return own
            parent = self.table.find(cls)
            if parent is None or not parent.is_a:
                rest = self.table.find(f"{cls}.*")
                return _KNOWN_TO_HOST if rest is not None and _ASKS.match(name) else rest
            cls = parent.is_a
        return None


@cache
def load_facts() -> Facts:
    """The facts of every library, from the TOML files beside this package."""
    modules: set[str] = set()
    triggers: set[str] = set()
    names: dict[str, tuple[str, ...]] = {}
    tensors: list[tuple[int, str, str]] = []
    files: list[str] = []
    for entry in sorted(resources.files("analyzers.facts").iterdir(), key=lambda e: e.name):
        if not entry.name.endswith(".toml") or entry.name == "gpus.toml":
            continue
        head, start, tables = entry.read_text(encoding="utf-8").partition('\n["')
        data = tomllib.loads(head)
        library = data.get("library", {})
        modules.update(library.get("modules", ()))
        triggers.update(library.get("triggers", ()))
        if "tensor" in library:
            place = library.get("rank", 9)  # where a file imports several, the lowest rank counts
            tensors += [(place, m, library["tensor"]) for m in library.get("modules", ())]
        names.update({k: tuple(v) for k, v in data.get("names", {}).items()})
        files.append(start + tables)
    pattern = re.compile(b"|".join(re.escape(t.encode()) for t in sorted(triggers)) or rb"(?!)")
    classes = tuple((module, name) for _, module, name in sorted(tensors))
    return Facts(Table(files), frozenset(modules), pattern, names, classes)
