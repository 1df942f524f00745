"""Faults on purpose: at one endpoint, or at the nth request of all."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

KINDS = (
    "500", "502", "403", "404", "422", "401", "garbage", "timeout", "drop", "secondary", "primary",
    "abuse",
)  # fmt: skip


@dataclass
class Fault:
    """What goes wrong, where and when."""

    kind: str
    method: str = ""  # empty: any
    path: str = ""  # a pattern; empty: any
    call: int = 1  # which of the matching requests is the first to fail
    times: int = 1
    after: bool = False  # the request is carried out, only its answer goes wrong
    retry_after: int = 1
    seen: int = 0

    def strikes(self, method: str, path: str) -> bool:
        """Whether this request is to fail; counts it."""
        if self.method and self.method != method:
            return False
        if self.path and not re.search(self.path, path):
            return False
        self.seen += 1
        return self.call <= self.seen < self.call + self.times


@dataclass
class Faults:
    """The faults that are laid out."""

    laid: list[Fault] = field(default_factory=list)

    def add(self, kind: str, **where) -> Fault:
        assert kind in KINDS, kind
        fault = Fault(kind, **where)
        self.laid.append(fault)
        return fault

    def clear(self) -> None:
        self.laid.clear()

    def strike(self, method: str, path: str) -> Fault | None:
        """The fault that this request meets."""
        struck = [fault for fault in self.laid if fault.strikes(method, path)]
        return struck[0] if struck else None
