"""What an analysis is told and what it answers; apart from the engine, which takes long to load."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from analyzers.finding import Finding


class Status(enum.StrEnum):
    """What became of a file."""

    ANALYSED = "analysed"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True)
class AnalysisConfig:
    """What the analysis is told by the project; codes and names of rules are both accepted."""

    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    gpu: str | None = None
    hot_functions: tuple[str, ...] = ()
    device_helpers: tuple[str, ...] = ()

    def runs(self, code: str) -> bool:
        """Whether the rule with this code is applied, where `select` and `ignore` hold codes."""
        return (not self.select or code in self.select) and code not in self.ignore


@dataclass(frozen=True)
class Suppressed:
    """A finding that a comment silences."""

    finding: Finding
    reason: str
    line: int


@dataclass(frozen=True)
class Analysis:
    """The result for one file."""

    path: str
    status: Status
    reason: str = ""  # a sentence, unless analysed
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
