"""What is known of a kernel that is given as C source: its parameters, beside the arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analyzers.c_signature import Parameter, parameters
from analyzers.timeline import Argument, Call, Launch, Timeline

_ALIAS = re.compile(r"^import cupy(?: as (\w+))?\s*$", re.MULTILINE)


def is_raw(launch: Launch) -> bool:
    """Whether the kernel gets bare pointers and bytes."""
    return launch.kernel.type == "cupy.RawKernel"


def signature(launch: Launch) -> tuple[Parameter, ...] | None:
    """The C parameters, where the source is a literal of this file."""
    made = launch.kernel.made_by
    if not isinstance(made, Call):
        return None
    name = made.argument("name")
    holder = made.receiver.made_by if made.receiver is not None else made
    code = holder.argument("code") if isinstance(holder, Call) else None
    if code is None or name is None:
        return None
    text, wanted = code.value.constant, name.value.constant
    return parameters(text, wanted) if isinstance(text, str) and isinstance(wanted, str) else None


def pairs(launch: Launch) -> Iterator[tuple[Parameter, Argument]]:
    """Each C parameter with the argument it gets, where the numbers agree."""
    wanted = signature(launch)
    given = launch.call.arguments
    if wanted is None or len(wanted) != len(given) or any(a.star for a in given):
        return
    yield from zip(wanted, given, strict=True)


def alias(timeline: Timeline) -> str:
    """The name CuPy has in this file; empty when it has none."""
    found = _ALIAS.search(timeline.source.text)
    return (found[1] or "cupy") if found else ""
