"""What a condition says about a name: `isinstance(x, Tensor)` makes an unknown `x` a tensor."""

from __future__ import annotations

import ast

from analyzers.dryrun.parameters import from_annotation, placed, tensor
from analyzers.dryrun.run import Run
from analyzers.dryrun.scan import dotted
from analyzers.dryrun.values import HOST_KINDS, UNKNOWN, Kind, Value
from analyzers.finding import Confidence


def narrow(run: Run, test: ast.expr, holds: bool = True) -> None:
    """Bind what must be so where `test` holds (or, with `holds` False, where it does not)."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        narrow(run, test.operand, not holds)
    elif isinstance(test, ast.BoolOp):
        # All parts of `a and b` hold; none of the parts of a failed `a or b` does.
        if isinstance(test.op, ast.And) is holds:
            for part in test.values:
                narrow(run, part, holds)
    elif isinstance(test, ast.Compare) and holds:
        _from_type(run, test)
    elif isinstance(test, ast.Call) and test.args:
        if holds:
            _from_call(run, test)
        else:
            _is_none(run, test)


_MAY_BE_ELSE = frozenset({Kind.UNKNOWN, Kind.TENSOR})  # a tensor is often only believed to be one


def _from_call(run: Run, test: ast.Call) -> None:
    name = dotted(test.args[0])
    known = run.state.names.get(name) if name else None
    if not name or (known is not None and known.kind not in _MAY_BE_ELSE):
        return
    value = _asked_for(run, test)
    info = run.frame.info
    if value is not None and value.on_host:  # `isinstance(x, float)`
        run.bind(name, value)
    if known is not None and known.kind is Kind.TENSOR:
        return
    if value is not None and value.kind is Kind.TENSOR and info is not None:
        run.bind(name, placed(run, info, value))


def _from_type(run: Run, test: ast.Compare) -> None:
    """`type(x) is int`."""
    asked = test.left
    if not isinstance(test.ops[0], ast.Is | ast.Eq) or not isinstance(asked, ast.Call):
        return
    if dotted(asked.func) != "type" or len(asked.args) != 1 or not dotted(asked.args[0]):
        return
    value = from_annotation(run, test.comparators[0])
    if value is not None and value.kind in HOST_KINDS:
        run.bind(dotted(asked.args[0]), value)


def _is_none(run: Run, test: ast.Call) -> None:
    """What failed the test for a tensor is none, whatever its name says."""
    name = dotted(test.args[0])
    known = run.state.names.get(name) if name else None
    if not name or known is None or known.kind is not Kind.TENSOR:
        return
    asked = _asked_for(run, test)
    if asked is not None and asked.kind is Kind.TENSOR:
        run.bind(name, UNKNOWN)


def _asked_for(run: Run, test: ast.Call) -> Value | None:
    """What the call asks for: the class of isinstance(), a tensor for is_tensor()."""
    words = run.facts.names
    asked = dotted(test.func).rpartition(".")[2]
    if asked in words.get("instance_tests", ()) and len(test.args) == 2:
        wanted = test.args[1]
        options = wanted.elts if isinstance(wanted, ast.Tuple) else [wanted]
        values = [from_annotation(run, option) for option in options]
        alike = all(value is not None and value.kind in HOST_KINDS for value in values)
        return values[0] if len(values) == 1 or (values and alike) else None
    if asked in words.get("tensor_tests", ()) and run.tensor_class:
        return tensor(run, Confidence.LIKELY)
    return None
