"""Where numbers come from: whether the program made them itself."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.dryrun.values import UNKNOWN, Kind, Value
from analyzers.dryrun.work import parts
from analyzers.knowledge import Fact
from analyzers.timeline import Argument


def homemade(fact: Fact, arguments: Sequence[Argument], operands: list[Value]) -> bool:
    """Whether the numbers come from the program itself, not from data."""
    if any(a.name in ("generator", "out") or a.star for a in arguments):
        return False
    tensors = [p for o in operands for p in parts(o) if p.kind is Kind.TENSOR]
    if tensors:
        return all(t.homemade for t in tensors)
    if fact.upload:  # torch.tensor(0), torch.tensor([1, 2])
        data = arguments[0].value if arguments else UNKNOWN
        return _numbers(data)
    if fact.fresh and fact.filled:
        return True
    if fact.device != "host" or fact.view or not arguments:
        return False
    # np.repeat([-1], n)
    return _written_out(arguments[0].value) and all(_numbers(a.value) for a in arguments)


def _written_out(data: Value) -> bool:
    """Whether the numbers stand in the text: what is only known to be one may come from data."""
    if data.kind is Kind.SEQUENCE and data.items:
        return all(_written_out(item) for item in data.items)
    return data.kind is Kind.NUMBER and data.known


def _numbers(data: Value) -> bool:
    """Whether it is a number, or a list that holds nothing else, however deep."""
    if data.kind is Kind.SEQUENCE and data.items:
        return all(_numbers(item) for item in data.items)
    return data.kind is Kind.NUMBER
