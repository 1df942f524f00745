"""The context of one dry run: where it stands, what it knows, what it has recorded."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from analyzers.dryrun.around import Inside, Silence
from analyzers.dryrun.frame import Frame, Habits, Hints
from analyzers.dryrun.scan import FunctionInfo, Scan
from analyzers.dryrun.state import Made, State
from analyzers.dryrun.streams import ANY, DEFAULT
from analyzers.dryrun.values import UNKNOWN, Device, Kind, Value, library
from analyzers.finding import Confidence, Span
from analyzers.knowledge import Facts
from analyzers.places import Guard, Heat, Loop, LoopKind, Place
from analyzers.source import Source
from analyzers.timeline import Event

MAX_DEPTH = 3  # how deep calls of local functions are followed
_RARE = frozenset({Guard.INTERVAL, Guard.FLAG, Guard.ERROR, Guard.ONCE})
_FEW_TURNS = frozenset({LoopKind.FEW, LoopKind.EPOCHS})
BUDGET = 400_000  # expressions evaluated per file; what lies beyond stays unknown


class Spans(dict[ast.AST, Span]):
    """The place of each node in the text; told once."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source

    def __missing__(self, node: Any) -> Span:
        span = self[node] = self._source.span(node)
        return span


class PlainSpans(Spans):
    """The same, of a text in which the parser's columns are characters."""

    def __missing__(self, node: Any) -> Span:
        try:
            place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        except AttributeError:
            return super().__missing__(node)
        # As Span(…), whose constructor is a function written in Python.
        span: Span = tuple.__new__(Span, place)  # pyright: ignore[reportUnknownMemberType]
        self[node] = span
        return span


@dataclass
class Run:
    """Everything an evaluator needs; one per file."""

    source: Source
    facts: Facts
    hints: Hints
    scan: Scan
    handlers: dict[type[ast.AST], Callable[[Run, Any], Value]]  # by class of expression
    state: State = field(default_factory=State)
    globals: dict[str, Value] = field(default_factory=dict[str, Value])
    frame: Frame = field(default_factory=lambda: Frame(None, None, Heat.COLD))
    events: list[Event] = field(default_factory=list[Event])
    recording: bool = True
    loops: tuple[Loop, ...] = ()
    guards: tuple[Guard, ...] = ()
    contexts: frozenset[str] = frozenset()
    streams: tuple[Value, ...] = ()  # current streams, innermost last
    guarded_device: bool = False
    statement: ast.AST | None = None
    block: int = 0
    index: int = 0
    order: int = 0
    depth: int = 0
    walked: set[FunctionInfo] = field(default_factory=set[FunctionInfo])  # for the record
    active: set[FunctionInfo] = field(default_factory=set[FunctionInfo])  # being followed
    bound_before_loop: frozenset[str] = frozenset()
    steps: int = 0
    next_ident: int = 0
    learning: int = 0  # inside the silent first turn of a loop
    working: set[Span] = field(default_factory=set[Span])  # loops whose body enqueues device work
    paths: set[str] = field(default_factory=set[str])  # names of which attributes are bound
    span: Callable[[ast.AST], Span] = field(init=False)  # the node's place in the text
    stored: dict[ast.AST, frozenset[str]] = field(default_factory=dict[ast.AST, frozenset[str]])
    methods: dict[str, Value] = field(default_factory=dict[str, Value])  # of what is unknown
    words: dict[ast.AST, set[str]] = field(default_factory=dict[ast.AST, set[str]])  # by loop
    tests: dict[ast.AST, Guard] = field(default_factory=dict[ast.AST, Guard])  # by condition
    classes: dict[Kind, str] = field(default_factory=dict[Kind, str])
    built_in: dict[str, Value] = field(default_factory=dict[str, Value])
    named: dict[str, Value] = field(default_factory=dict[str, Value])  # what names stand for
    imports: set[str] = field(default_factory=set[str])
    habits: dict[ast.AST, Habits] = field(default_factory=dict[ast.AST, Habits])  # by function
    grad_off: bool = False  # the module turned autograd off for good
    kernels: list[Value] = field(default_factory=list[Value])
    blocking_streams: set[str] = field(default_factory=set[str])
    # By stream: the expression that names it and the with-statement that made it current.
    entered: dict[str, tuple[Span, Span]] = field(default_factory=dict[str, tuple[Span, Span]])
    made_aside: dict[int, Made] = field(default_factory=dict[int, Made])  # by memory
    site: Place | None = None  # the call from recorded code that is being followed silently
    site_learning: int = 0
    called_again: bool = False  # a method is walked a second time, behind its own first call
    assumed_class: str = ""  # the tensor class of a file that imports no library
    tracks_streams: bool = False  # the order of device work is followed
    only_order: bool = False  # of all mistakes only those matter
    streams_met: bool = False  # … and should be: streams or asynchronous copies were met
    for_gpu: Confidence = Confidence.POSSIBLE  # how plainly the file is written for a GPU

    def __post_init__(self) -> None:
        kind = PlainSpans if self.source.plain else Spans
        self.span = kind(self.source).__getitem__

    def evaluate(self, node: ast.expr) -> Value:
        """The value of an expression; its effects are recorded on the way."""
        self.steps += 1
        if self.steps > BUDGET:
            return UNKNOWN
        return self.handlers[node.__class__](self, node)

    def emit(self, event: Event) -> None:
        """Record an event, unless this pass only learns."""
        if self.recording:
            self.events.append(event)

    def tick(self) -> int:
        """The next number of the evaluation order."""
        self.order += 1
        return self.order

    def new_ident(self) -> int:
        """A number for memory that nothing else shares."""
        self.next_ident += 1
        return self.next_ident

    def place(self, node: ast.AST) -> Place:
        """Where and how often `node` is evaluated."""
        return Place(
            span=self.span(node),
            statement=self.span(self.statement) if self.statement else Span(1, 0, 1, 0),
            block=self.block,
            index=self.index,
            order=self.tick(),
            function=self.frame.function,
            loops=self.loops,
            guards=self.guards,
            heat=self.heat(),
            records_graph=self.state.grad,
            stream=self.stream_name if self.streams else DEFAULT,
            device_guarded=self.guarded_device,
            contexts=self.contexts,
        )

    def heat(self) -> Heat:
        """How often the current place runs."""
        if not _RARE.isdisjoint(self.guards):
            return Heat.COLD
        info, base, many = self.frame.info, self.frame.heat, False
        if base is Heat.COLD and info is not None and "set_up" in info.roles:
            return Heat.HOT if any(loop.kind is LoopKind.DATA for loop in self.loops) else Heat.COLD
        for loop in self.loops:
            if loop.kind is LoopKind.DATA or (loop.kind not in _FEW_TURNS and loop.runs_work):
                return Heat.HOT
            many = many or loop.kind not in _FEW_TURNS
        if many and base is not Heat.COLD:
            return Heat.HOT
        if self.frame.info is None:
            return Heat.HOT if many else Heat.COLD
        evaluated = info is not None and "eval" in info.roles and "per_step" not in info.roles
        if self.frame.looped and (base is Heat.UNKNOWN or evaluated):
            return Heat.COLD  # after the loop: once per epoch or per run
        return base

    @property
    def stream_name(self) -> str:
        """The name of the stream that is current for device work."""
        return self.stream_for("")

    def stream_for(self, library: str) -> str:
        """The current stream of a library; "" stands for all that follow the tensor library's."""
        if not self.streams:
            return DEFAULT
        current = self.current_stream(library)
        if current is None:
            return DEFAULT
        return current.ref if isinstance(current.ref, str) else ANY

    def current_stream(self, library: str) -> Value | None:
        """The stream that was made current for that library, None for its default."""
        own = self.facts.names.get("own_streams", ())
        for stream in reversed(self.streams):
            keeper = stream.type.partition(".")[0]
            if (keeper if keeper in own else "") == library:
                return stream
        return None

    def lookup(self, name: str) -> Value:
        """What a name is bound to here."""
        value = self.state.names.get(name)
        if value is None:
            value = self.frame.closure.get(name)
            if value is None:
                value = self.globals.get(name)
                if value is None:
                    value = self.built_in.get(name) or self._built_in(name)
        return value

    def _built_in(self, name: str) -> Value:
        full = f"builtins.{name}"
        known = self.facts.find(full) is not None
        value = self.built_in[name] = library(full) if known else UNKNOWN
        return value

    def bind(self, name: str, value: Value) -> None:
        """Bind a name (or a dotted path) in the current scope."""
        names = self.state.names
        names[name] = value
        root = name
        if "." in name:
            root = name.partition(".")[0]
            self.paths.add(root)
        if root in self.paths:  # what was known of its attributes no longer holds
            prefix = name + "."
            for path in [p for p in names if p.startswith(prefix)]:
                del names[path]

    def inside(
        self,
        *,
        loop: Loop | None = None,
        guard: Guard | None = None,
        contexts: frozenset[str] = frozenset(),
        stream: Value | None = None,
        device_guard: bool = False,
    ) -> Inside:
        """Evaluate something within a loop, a guard or a context: `with run.inside(…)`."""
        before = Inside(self)
        if loop is not None:
            self.loops = (*self.loops, loop)
        if guard is not None:
            self.guards = (*self.guards, guard)
        if contexts:
            self.contexts |= contexts
        if stream is not None:
            self.streams_met = True
            self.streams = (*self.streams, stream)
        self.guarded_device = self.guarded_device or device_guard
        return before

    def silently(self) -> Silence:
        """Evaluate without recording events."""
        return Silence(self)

    def follows_order(self) -> bool:
        """Whether the order of device work is followed; it is remembered that it matters."""
        self.streams_met = True
        return self.tracks_streams

    def mark_work(self) -> None:
        """Remember for the loops around that device work is enqueued in them."""
        self.working.update(loop.span for loop in self.loops)

    def loss_value(self) -> Value:
        """A loss: a tensor without dimensions, with history, where the file's work happens."""
        return Value(
            Kind.TENSOR,
            type=self.tensor_class,
            device=Device.GPU,
            sure=Confidence.LIKELY,  # nobody trains on the host for long
            ident=self.new_ident(),
            scalar=True,
            graph=self.state.grad,
        )

    @property
    def tensor_class(self) -> str:
        """The tensor class of the file's main library, empty when it handles none."""
        for module, name in self.facts.tensor_classes:
            if module in self.imports:
                return name
        return self.assumed_class

    def class_of(self, kind: Kind) -> str:
        """The class whose methods a value of that kind has when nothing better is known."""
        known = self.classes.get(kind)
        if known is None:
            known = self.classes[kind] = self.facts.names.get(f"{kind.value}_class", ("",))[0]
        return known

    def exhausted(self) -> bool:
        """Whether the file has used up its share of evaluations."""
        return self.steps > BUDGET
