"""What belongs to one function body under evaluation, and what the project says about itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzers.dryrun.scan import ClassInfo, FunctionInfo
from analyzers.dryrun.state import State
from analyzers.dryrun.values import Value
from analyzers.places import Function, Heat
from analyzers.records import record


@dataclass(frozen=True)
class Hints:
    """What the project says about itself."""

    hot_functions: frozenset[str] = frozenset()
    device_helpers: frozenset[str] = frozenset()  # functions that return a device or move to it


@dataclass
class Frame:
    """One function body under evaluation."""

    info: FunctionInfo | None
    function: Function | None
    heat: Heat
    self_class: ClassInfo | None = None
    self_name: str = ""
    returned: Value | None = None
    closure: dict[str, Value] = field(default_factory=dict[str, Value])
    exits: list[State] = field(default_factory=list[State])  # states at its returns
    jumps: list[State] = field(default_factory=list[State])  # states at break and continue
    looped: bool = False  # a loop that feeds the device has ended before this place


@record
class Habits:
    """What a function keeps without its history, and what it hands back."""

    cut: frozenset[str]  # names of tables and lists with an entry that is cut off its graph
    handed: frozenset[str]  # names that it returns beside others
