"""Walks a file: the module's own statements first, then each function, callers first."""

from __future__ import annotations

import ast
import re
from collections import Counter

from analyzers.dryrun import functions, relevance
from analyzers.dryrun.expressions import HANDLERS
from analyzers.dryrun.frame import Frame, Hints
from analyzers.dryrun.run import Run
from analyzers.dryrun.scan import FunctionInfo, Scan, scan
from analyzers.dryrun.state import State
from analyzers.dryrun.statements import execute
from analyzers.dryrun.values import MISSING
from analyzers.finding import Confidence, Span
from analyzers.knowledge import Facts
from analyzers.off_paths import is_test
from analyzers.places import Heat
from analyzers.records import replace
from analyzers.source import Source
from analyzers.timeline import Copy, Direction, Timeline

_GLOBAL = re.compile(r"^[ \t]+global[ \t]+([\w, \t]+)", re.MULTILINE)
# Words of files in which the order of device work may matter, and those of them that mean it.
_STREAM_WORDS = ("stream", "Stream", "non_blocking", "blocking=", "async")
_PLAIN_WORDS = ("Stream", "non_blocking", "blocking=")


def dry_run(source: Source, facts: Facts, hints: Hints, gpu: str | None = None) -> Timeline:
    """The timeline of one file."""
    checks = _checks(source, facts)
    if checks and not any(word in source.text for word in _ordering(facts)):
        return Timeline(source, (), gpu)
    plainly = any(word in source.text for word in _PLAIN_WORDS)
    run = _walked(source, facts, hints, checks=checks, ordered=plainly)
    # Most files that speak of streams mean other ones: the order is followed once it matters.
    if run.streams_met and not plainly and any(word in source.text for word in _STREAM_WORDS):
        run = _walked(source, facts, hints, checks=checks, ordered=True)
    return Timeline(
        source=source,
        events=tuple(run.events),
        gpu=gpu,
        imports=frozenset(run.imports),
        kernels=tuple(run.kernels),
        loaders_moved=_loaders_moved(run),
    )


def _walked(source: Source, facts: Facts, hints: Hints, *, checks: bool, ordered: bool) -> Run:
    found = scan(source.tree, facts.names)
    run = Run(source=source, facts=facts, hints=hints, scan=found, handlers=HANDLERS)
    run.tracks_streams = ordered
    run.only_order = checks
    run.for_gpu = _for_gpu(source, facts)
    run.assumed_class = _assumed_class(source, facts)
    _module(run, source.tree)
    for info in found.callers_first():
        if not info.kernel and info not in run.walked and relevance.worth_a_walk(info):
            functions.walk(run, info)
    found.forget()
    return run


def _checks(source: Source, facts: Facts) -> bool:
    """Whether the file is a test that has no kernels."""
    names = facts.names
    marks = (*names.get("kernel_marks", ()), *names.get("kernel_maker_class", ()))
    return is_test(source.path) and not any(mark in source.text for mark in marks)


def _ordering(facts: Facts) -> tuple[str, ...]:
    return (*facts.names.get("ordering_words", ()), *facts.names.get("ordering_class", ()))


def _for_gpu(source: Source, facts: Facts) -> Confidence:
    """How plainly the file is written for a GPU: it names one, or only a device."""
    if any(word in source.text for word in facts.names.get("gpu_marks", ("cuda",))):
        return Confidence.LIKELY
    return Confidence.POSSIBLE


def _assumed_class(source: Source, facts: Facts) -> str:
    """What tensors are where no library is imported: some calls give it away."""
    marks = facts.names.get("tensor_marks", ())
    known = any(mark in source.text for mark in marks)
    return facts.names.get("assumed_tensor_class", ("",))[0] if known else ""


def _module(run: Run, tree: ast.Module) -> None:
    run.frame = Frame(None, None, Heat.COLD)
    execute(run, tree.body)
    run.globals = dict(run.state.names)
    text = run.source.text
    for statement in _GLOBAL.findall(text) if "global" in text else ():  # functions bind these anew
        for name in run.globals.keys() & set(statement.replace(" ", "").split(",")):
            run.globals[name] = replace(run.globals[name], constant=MISSING)
    run.grad_off = not run.state.grad
    # Constants of the module hold everywhere; states of its statements do not.
    run.state = State()
    relevance.mark(run)
    _constructors(run, run.scan)
    relevance.mark(run, known=True)  # what the constructors put on instances counts too


_FIRST = ("__init__", "setup", "build")


def _sets_up(run: Run, info: FunctionInfo) -> bool:
    """A method that makes the buffers which other methods copy from."""
    words = ("init", "alloc", "create", "setup", "build", "prepare")
    name = info.name.strip("_")
    return run.tracks_streams and info.ordering and name.startswith(words)


def _starts_a_clock(run: Run, info: FunctionInfo) -> bool:
    """A timer's method that reads the clock first: another one reads it again."""
    names = run.facts.names
    return info.name in names.get("clock_starts", ()) and not info.calls.isdisjoint(
        names.get("clock_functions", ())
    )


def _constructors(run: Run, found: Scan) -> None:
    """What `__init__` puts on instances is known before any method is walked."""
    used = found.names.union(*(info.names for info in found.functions.values()))
    for info in found.functions.values():
        first = info.relevant and (info.name in _FIRST or _sets_up(run, info))
        if info.owner is None or not (first or _starts_a_clock(run, info)):
            continue
        if info.name == "__init__" and info.owner.name not in used:
            functions.walk(run, info)  # nobody here hands it anything: once is enough
            run.walked.add(info)
        else:
            with run.silently():
                functions.walk(run, info)
    for owner in found.classes.values():
        # A second name for the same memory, such as an array's view of it, was made to fill it.
        shared = Counter(value.ident for value in owner.attributes.values() if value.ident)
        for name, value in owner.attributes.items():
            kept = replace(value, fresh=False)
            if name in owner.written or shared[value.ident] > 1:
                kept = replace(kept, made_by=None, homemade=False)
            owner.attributes[name] = kept


def _loaders_moved(run: Run) -> frozenset[Span]:
    """The loader calls whose batches are copied to the device."""
    return frozenset(
        event.source.made_by.span
        for event in run.events
        if isinstance(event, Copy)
        and event.direction is Direction.TO_DEVICE
        and event.source.made_by is not None
        and event.source.made_by.fact.kind == "loader"
    )
