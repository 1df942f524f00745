"""Kernel launches: `kernel[grid, block, stream](…)`, RawKernel calls, Triton."""

from __future__ import annotations

import ast

from analyzers.dryrun import grids, waits
from analyzers.dryrun.run import MAX_DEPTH, Run
from analyzers.dryrun.streams import ANY
from analyzers.dryrun.values import NONE, NUMBER, UNKNOWN, Device, Kind, Value
from analyzers.dryrun.work import enqueue, parts
from analyzers.finding import Confidence, Span
from analyzers.knowledge import Fact
from analyzers.records import replace
from analyzers.timeline import Argument, Call, Called, Launch, Reason


def launch(run: Run, node: ast.Call, callee: Value, given: tuple[Argument, ...]) -> Value:
    """A device function is launched, or a kernel object is called."""
    if callee.kind is Kind.LAUNCHER:
        kernel, configuration, index = callee.ref
        library = kernel.type.partition(".")[0]
        whole = library in run.facts.names.get("grid_only", ())  # there is no block to state
        values, nodes = (
            ([configuration], [index]) if whole else _configuration(configuration, index)
        )
        grid, block, stream = (*values[:3], *[None] * (3 - len(values[:3])))
        spans = [run.span(n) for n in nodes]
        dimensions = grids.written(run, nodes[0] if nodes else None)
        arguments = given
        grid = _computed(run, grid) if grid is not None else None
    else:
        kernel = callee
        fact = run.facts.find(kernel.type) if kernel.type else None
        if fact is None or fact.kind != "kernel":
            return UNKNOWN  # a decorated function called without a grid: not a launch
        names = {a.name: a for a in given if a.keyword}
        positional = [a for a in given if not a.keyword]
        grid, block, spans, arguments, stream = _raw(names, positional, _packed(run, node))
        dimensions = grids.written(run, _grid_argument(node))
    _emit(run, node, kernel, grid, block, stream, (spans, dimensions), arguments)
    return NONE


def _configuration(configuration: Value, index: ast.expr) -> tuple[list[Value], list[ast.expr]]:
    if configuration.items == ():
        return [], []
    if isinstance(index, ast.Tuple) and configuration.items is not None:
        return list(configuration.items), list(index.elts)
    return [configuration], [index]


def _computed(run: Run, grid: Value) -> Value:
    """The grid that a function of the chosen tile sizes gives."""
    node = grid.ref
    if grid.kind is not Kind.FUNCTION or not isinstance(node, ast.Lambda) or run.depth >= MAX_DEPTH:
        return grid
    saved = dict(run.state.names)
    run.depth += 1
    for parameter in node.args.args:
        run.state.names[parameter.arg] = Value(Kind.MAPPING, element=NUMBER)
    with run.silently():
        result = run.evaluate(node.body)
    run.depth -= 1
    run.state.names = saved
    return result


def _grid_argument(node: ast.Call) -> ast.expr | None:
    named = next((k.value for k in node.keywords if k.arg == "grid"), None)
    return named or (node.args[0] if len(node.args) > 2 else None)


def _packed(run: Run, node: ast.Call) -> list[Span]:
    """The places of the arguments in `kernel(grid, block, (a, b))`."""
    plain = [a for a in node.args if not isinstance(a, ast.Starred)]
    third = plain[2] if len(plain) > 2 else None
    return [run.span(e) for e in third.elts] if isinstance(third, ast.Tuple) else []


def over_elements(run: Run, node: ast.Call, call: Call, result: Value) -> Value:
    """A launcher that picks grid and block for a number of elements."""
    configuration = Value(Kind.SEQUENCE, items=())
    return Value(Kind.LAUNCHER, ref=(call.receiver or UNKNOWN, configuration, node))


def _raw(
    names: dict[str, Argument], positional: list[Argument], packed_spans: list[Span]
) -> tuple[Value | None, Value | None, list[Span], tuple[Argument, ...], Value | None]:
    """kernel(grid, block, args) or kernel(*args, grid=…, block=…)."""
    stream = names["stream"].value if "stream" in names else None
    if "grid" in names or "block" in names:
        grid, block = names.get("grid"), names.get("block")
        spans = [a.span for a in (grid, block) if a is not None]
        return (
            grid.value if grid is not None else None,
            block.value if block is not None else None,
            spans,
            tuple(positional),
            stream,
        )
    if len(positional) < 3:
        return None, None, [], tuple(positional), stream
    packed = positional[2]
    items = packed.value.items or ()
    if len(packed_spans) != len(items):
        packed_spans = [packed.span] * len(items)
    arguments = tuple(Argument("", s, item) for s, item in zip(packed_spans, items, strict=True))
    return (
        positional[0].value,
        positional[1].value,
        [p.span for p in positional[:2]],
        arguments,
        stream,
    )


def _emit(
    run: Run,
    node: ast.Call,
    kernel: Value,
    grid: Value | None,
    block: Value | None,
    stream: Value | None,
    where: tuple[list[Span], Span | None],
    arguments: tuple[Argument, ...],
) -> None:
    spans, dimensions = where
    kernel_fact = run.facts.find(kernel.type) if kernel.type else None
    call = Call(
        place=run.place(node),
        name=kernel.type,
        fact=kernel_fact or Fact(name="kernel"),
        span=run.span(node),
        callee=run.span(node.func),
        receiver=kernel,
        receiver_span=run.span(node.func),
        arguments=arguments,
        result=NONE,
    )
    tensors = tuple(p for a in arguments for p in parts(a.value) if p.kind is Kind.TENSOR)
    run.emit(Called(call.place, call))
    run.emit(
        Launch(
            call.place,
            call=call,
            kernel=kernel,
            grid=grid,
            block=block,
            grid_span=spans[0] if spans else None,
            block_span=spans[1] if len(spans) > 1 else None,
            stream=stream,
            tensors=tensors,
            grid_written=dimensions,
        )
    )
    _run_kernel(run, node, call, tensors, _stream_name(run, kernel_fact, stream))


def _run_kernel(
    run: Run, node: ast.Call, call: Call, tensors: tuple[Value, ...], name: str | None
) -> None:
    """The device work of a launch, and what a library copies for it."""
    written = Value(Kind.TENSOR, device=Device.GPU, sure=Confidence.CERTAIN)
    enqueue(run, node, tensors, written, call, stream=name)
    for tensor in tensors:  # a kernel may write each of its arrays
        if tensor.device is not Device.HOST:
            enqueue(run, node, (), replace(tensor, device=Device.GPU), call, stream=name)
        elif call.fact.waits == "copy":
            waits.wait(run, Reason.COPY, written, node, call)


def _stream_name(run: Run, fact: Fact | None, stream: Value | None) -> str | None:
    if stream is not None and stream.kind is not Kind.NONE and stream.constant != 0:
        return stream.ref if stream.kind is Kind.STREAM and isinstance(stream.ref, str) else ANY
    return "" if fact is not None and fact.stream == "argument" else None
