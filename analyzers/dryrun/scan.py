"""A quick look at the whole tree before the dry run: functions, who calls whom, what names do."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analyzers.dryrun.state import Work
from analyzers.dryrun.syntax import PARTS, arguments_of, dotted, leftmost
from analyzers.dryrun.values import Value
from analyzers.places import Function, Heat

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call of a local function gave and did, for calls with arguments alike."""

    result: Value
    worked: Work | None  # the last device work it enqueued
    waited: bool  # the host waited after that


@dataclass(eq=False)
class FunctionInfo:
    """A function of the file, and what the dry run learns of its callers."""

    node: FunctionNode
    qualname: str
    owner: ClassInfo | None = None
    outer: FunctionInfo | None = None
    roles: frozenset[str] = frozenset()
    decorators: tuple[Value, ...] = ()
    names: set[str] = field(default_factory=set[str])  # names it uses
    members: set[str] = field(default_factory=set[str])  # attribute names it uses
    imports: bool = False  # it has imports of its own
    relevant: bool = True  # it may handle something that lives on a device
    attributes: dict[str, set[str]] = field(default_factory=dict[str, set[str]])  # name -> .x used
    backward: set[str] = field(default_factory=set[str])  # names sent through backward()
    calls: set[str] = field(default_factory=set[str])  # names of what it calls, last part
    given: list[dict[str, Value]] = field(default_factory=list[dict[str, Value]])  # per call site
    called_at: list[Heat] = field(default_factory=list[Heat])
    called_guarded: list[bool] = field(default_factory=list[bool])  # with the device made current
    closure: dict[str, Value] = field(default_factory=dict[str, Value])
    sources: frozenset[str] | None = None  # names that what goes through backward() is made from
    recorded: list[bool] = field(default_factory=list[bool])  # per call site: autograd was on
    memo: dict[object, Outcome] = field(default_factory=dict[object, Outcome])  # by arguments
    kernel: bool = False
    ordering: bool = False  # it, or what it calls, deals with streams or asynchronous copies
    described: Function | None = None

    @property
    def name(self) -> str:
        """Its own name."""
        return self.node.name

    @property
    def parameters(self) -> list[ast.arg]:
        """Its positional and keyword parameters, `self` included."""
        a = self.node.args
        return [*a.posonlyargs, *a.args, *a.kwonlyargs]


@dataclass(eq=False)
class ClassInfo:
    """A class of the file."""

    node: ast.ClassDef
    name: str
    base: str = ""  # qualified class that its facts come from
    bases: tuple[ClassInfo, ...] = ()
    roles: frozenset[str] = frozenset()
    methods: dict[str, FunctionInfo] = field(default_factory=dict[str, FunctionInfo])
    attributes: dict[str, Value] = field(default_factory=dict[str, Value])
    written: set[str] = field(default_factory=set[str])  # attributes whose content changes

    def method(self, name: str) -> FunctionInfo | None:
        """Its method of that name, or one inherited from a class of the same file."""
        if name in self.methods:
            return self.methods[name]
        return next((m for b in self.bases if (m := b.method(name)) is not None), None)

    def attribute(self, name: str) -> Value | None:
        """What is known of that attribute of its instances."""
        if name in self.attributes:
            return self.attributes[name]
        return next((v for b in self.bases if (v := b.attribute(name)) is not None), None)


@dataclass(eq=False)
class Scan:
    """All functions and classes of a file, by node."""

    # Words of attributes and keywords that show that a function cares about the order of device
    # work, and the classes whose call does.
    ordering: frozenset[str] = frozenset()
    stream_classes: frozenset[str] = frozenset()
    functions: dict[FunctionNode, FunctionInfo] = field(
        default_factory=dict[FunctionNode, FunctionInfo]
    )
    classes: dict[ast.AST, ClassInfo] = field(default_factory=dict[ast.AST, ClassInfo])
    sources: frozenset[str] | None = None  # names that what goes through backward() is made from
    module_backward: set[str] = field(default_factory=set[str])
    names: set[str] = field(default_factory=set[str])  # names that the module's own code uses

    def mark_ordering(self) -> None:
        """Mark what deals with streams, and everything that calls it by name."""
        marked = {info.name for info in self.functions.values() if info.ordering}
        changed = bool(marked)
        while changed:
            changed = False
            for info in self.functions.values():
                if not info.ordering and not marked.isdisjoint(info.calls):
                    info.ordering = changed = True
                    marked.add(info.name)

    def forget(self) -> None:
        """Let go of what was learnt of callers, and of the cycles that it forms.

        The trees then go with their last user; nobody has to look for them.
        """
        for info in self.functions.values():
            info.owner, info.outer, info.closure = None, None, {}
            info.memo.clear()
            info.given.clear()

    def callers_first(self) -> list[FunctionInfo]:
        """The functions, each after those that call it where there is no cycle."""
        by_name: dict[str, list[FunctionInfo]] = {}
        for info in self.functions.values():
            by_name.setdefault(info.name, []).append(info)
            if info.name in ("__call__", "forward"):
                by_name.setdefault("forward", []).append(info)
        done: dict[FunctionInfo, bool] = {}
        result: list[FunctionInfo] = []
        for info in self.functions.values():
            self._after_callees(info, by_name, done, result)
        return result[::-1]

    def _after_callees(
        self,
        start: FunctionInfo,
        by_name: dict[str, list[FunctionInfo]],
        done: dict[FunctionInfo, bool],
        result: list[FunctionInfo],
    ) -> None:
        # Depth first without recursion: a generated file may chain thousands of functions.
        stack: list[tuple[FunctionInfo, Iterator[str]]] = []

        def enter(info: FunctionInfo) -> None:
            done[info] = True
            stack.append((info, iter(sorted(info.calls))))

        if start not in done:
            enter(start)
        while stack:
            name = next(stack[-1][1], None)
            if name is None:
                result.append(stack.pop()[0])
                continue
            for callee in by_name.get(name, ()):
                if callee not in done:
                    enter(callee)


_LEAVES = frozenset(
    {type(None), str, ast.Constant, ast.Pass, ast.Break, ast.Continue}
    | {ast.Global, ast.Nonlocal, ast.alias}
)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class _Scope:
    """A body still to be looked at, and what it belongs to."""

    nodes: Sequence[ast.AST]
    function: FunctionInfo | None
    owner: ClassInfo | None
    prefix: str


def scan(tree: ast.Module, names: Mapping[str, tuple[str, ...]]) -> Scan:
    """One walk over the tree, scope by scope; `names` are the words that the facts list."""
    result = Scan(
        ordering=frozenset(names.get("ordering_words", ())),
        stream_classes=frozenset(names.get("ordering_class", ())),
    )
    scopes = [_Scope(tree.body, None, None, "")]
    while scopes:
        scopes.extend(_scan_scope(scopes.pop(), result))
    result.functions = dict(sorted(result.functions.items(), key=lambda item: item[0].lineno))
    result.mark_ordering()
    return result


def _scan_scope(scope: _Scope, result: Scan) -> list[_Scope]:
    function = scope.function
    names = function.names if function is not None else result.names
    inner: list[_Scope] = []
    stack = list(scope.nodes)
    while stack:
        node: Any = stack.pop()
        cls = node.__class__
        if cls is ast.Name:
            names.add(node.id)
        elif cls is ast.Attribute:  # these and calls are most of what has parts
            _note_attribute(node, function, result)
            stack.append(node.value)
        elif cls is ast.Call:
            _note_call(node, function, result)
            stack += (node.func, *node.args, *[keyword.value for keyword in node.keywords])
        elif cls in _SCOPES:
            inner.append(_open(node, scope, result))
            stack.extend(node.decorator_list)
            stack.extend(node.bases if cls is ast.ClassDef else [node.args])
        elif cls not in _LEAVES:
            if (note := _NOTES.get(cls)) is not None:
                note(node, function, result)
            for name in PARTS[cls]:
                child = getattr(node, name)
                if child.__class__ is list:
                    stack.extend(child)
                elif child is not None:
                    stack.append(child)
    return inner


def _open(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: _Scope, result: Scan
) -> _Scope:
    if isinstance(node, ast.ClassDef):
        owner = ClassInfo(node, node.name)
        result.classes[node] = owner
        return _Scope(node.body, scope.function, owner, f"{scope.prefix}{node.name}.")
    info = FunctionInfo(node, scope.prefix + node.name, scope.owner, scope.function)
    result.functions[node] = info
    if scope.owner is not None:
        scope.owner.methods[node.name] = info
    return _Scope(node.body, info, None, f"{info.qualname}.")


def _note_import(_: ast.AST, function: FunctionInfo | None, __: Scan) -> None:
    if function is not None:
        function.imports = True


def _note_attribute(node: ast.Attribute, function: FunctionInfo | None, result: Scan) -> None:
    if function is None:
        return
    function.members.add(node.attr)
    if node.attr in result.ordering:
        function.ordering = True
    value = node.value
    if function.owner is not None and isinstance(value, ast.Attribute) and node.attr.endswith("_"):
        function.owner.written.add(value.attr)  # self.buffer.copy_(…)
    if type(value) is ast.Name:
        function.attributes.setdefault(value.id, set()).add(node.attr)


def _note_store(node: ast.Subscript, function: FunctionInfo | None, _: Scan) -> None:
    if function is None or function.owner is None or not isinstance(node.ctx, ast.Store):
        return
    if isinstance(node.value, ast.Attribute):
        function.owner.written.add(node.value.attr)


def _sent_back(node: ast.Call, receiver: ast.expr) -> Iterator[str]:
    """loss.backward(), scaler.scale(loss).backward(), accelerator.backward(loss)."""
    given = [dotted(leftmost(part)) for part in (*node.args[:1], *arguments_of(receiver))]
    yield from given
    if not any("loss" in name.lower() for name in given):  # an engine is no loss itself
        yield dotted(leftmost(receiver))


def _note_call(node: ast.Call, function: FunctionInfo | None, result: Scan) -> None:
    callee = node.func
    if isinstance(callee, ast.Attribute):
        if callee.attr == "backward":
            target = result.module_backward if function is None else function.backward
            target.update(_sent_back(node, callee.value))
        if function is not None:
            function.calls.add(callee.attr)
            if callee.attr in result.stream_classes or any(
                keyword.arg in result.ordering for keyword in node.keywords
            ):
                function.ordering = True
    elif isinstance(callee, ast.Name) and function is not None:
        function.calls.add(callee.id)


_NOTES: dict[type[ast.AST], Callable[[Any, FunctionInfo | None, Scan], None]] = {
    ast.Subscript: _note_store,
    ast.Import: _note_import,
    ast.ImportFrom: _note_import,
}
