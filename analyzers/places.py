"""Where something happens in a file, and how often that place runs."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import field

from analyzers.dryrun.values import Value
from analyzers.finding import Span
from analyzers.records import Word, record


class Heat(Word):
    """How often a place runs, as far as can be told."""

    HOT = "hot"  # in a loop over data or steps, or in what such a loop calls
    WARM = "warm"  # called once per step from elsewhere: forward, loss, optimizer step
    UNKNOWN = "unknown"
    COLD = "cold"  # set-up, once per epoch, behind a modulo, debug or error guard


class LoopKind(Word):
    """What a loop goes over."""

    DATA = "data"  # batches of a loader
    STEPS = "steps"  # range(...), while, counters
    ITEMS = "items"  # the elements of a collection
    EPOCHS = "epochs"  # few, long turns
    FEW = "few"  # devices, models, a literal of a few entries


@record
class Loop:
    """A loop around a place."""

    kind: LoopKind
    span: Span  # of its header
    over: Value
    comprehension: bool = False
    # The loops whose body enqueues device work; complete once the file has been walked.
    working: Set[Span] = field(default=frozenset(), compare=False, repr=False)

    @property
    def runs_work(self) -> bool:
        """Whether device work is enqueued in its body."""
        return self.span in self.working


class Guard(Word):
    """Why a place does not run on every turn."""

    INTERVAL = "interval"  # step % n == 0
    FLAG = "flag"  # debug, verbose, profile …
    ERROR = "error"  # in an exception handler, or after a failed check
    RANK = "rank"
    AVAILABLE = "available"  # torch.cuda.is_available(), device.type == "cuda"
    ONCE = "once"  # `is None`: made on first use
    OTHER = "other"


@record
class Function:
    """The function around a place."""

    name: str
    qualname: str
    span: Span
    class_name: str = ""
    roles: frozenset[str] = frozenset()  # forward, dataset, test, kernel, eval, method, …
    parameters: tuple[str, ...] = ()
    reads_clock: bool = False
    calls: frozenset[str] = frozenset()  # last names of everything it calls
    ordering: bool = False  # it, or what it calls, deals with streams or asynchronous copies


@record
class Place:
    """Where an event happens and how often."""

    span: Span
    statement: Span
    block: int  # statements with the same number stand in the same block …
    index: int  # … at this position
    order: int  # evaluation order within the file
    function: Function | None
    loops: tuple[Loop, ...]
    guards: tuple[Guard, ...]
    heat: Heat
    records_graph: bool = True  # autograd is recording
    stream: str = ""  # name of the current stream's variable, empty for the default stream
    device_guarded: bool = False
    contexts: frozenset[str] = frozenset()  # capture, profiler, no_grad, …

    @property
    def in_loop(self) -> bool:
        """Whether a loop that is more than a handful of turns is around it."""
        return any(loop.kind not in (LoopKind.FEW, LoopKind.EPOCHS) for loop in self.loops)

    @property
    def guarded(self) -> bool:
        """Whether it is skipped on most turns."""
        rare = (Guard.INTERVAL, Guard.FLAG, Guard.ERROR, Guard.ONCE)
        return any(guard in rare for guard in self.guards)

    @property
    def repeated(self) -> bool:
        """Whether it runs again and again while the GPU should be busy."""
        return self.heat in (Heat.HOT, Heat.WARM) and not self.guarded
