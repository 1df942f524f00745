"""What an analysis says: findings, and fixes as text edits."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple


class Confidence(enum.StrEnum):
    """How sure the analysis is; CERTAIN and LIKELY are posted inline, POSSIBLE is folded away."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """0 for the surest, so that sorting by rank puts it first."""
        return _CONFIDENCE_RANKS[self]

    def weaker(self, other: Confidence) -> Confidence:
        """The less sure of the two: a chain of evidence is as good as its weakest link."""
        return self if self is other or self.rank >= other.rank else other


_CONFIDENCE_RANKS = {confidence: rank for rank, confidence in enumerate(Confidence)}


class Severity(enum.StrEnum):
    """What it means when the finding is right."""

    ERROR = "error"  # wrong numbers, a crash
    WARNING = "warning"  # a measurable cost in hot code
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return _SEVERITY_RANKS[self]


_SEVERITY_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


class Objective(enum.StrEnum):
    """What its author would gain by acting on it."""

    PERFORMANCE = "performance"
    CORRECTNESS = "correctness"
    READABILITY = "readability"


class Safety(enum.StrEnum):
    """What a fix may change."""

    SAFE = "safe"  # same meaning, one click
    UNSAFE = "unsafe"  # right under the condition it states
    DISPLAY = "display"  # a sketch, never applied by machine


class Span(NamedTuple):
    """A range of source text: lines from 1, columns from 0 in characters, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int

    def touches(self, lines: frozenset[int]) -> bool:
        """Whether one of its lines is among `lines`."""
        return any(line in lines for line in range(self.line, self.end_line + 1))


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of `span` (empty span: insert) by `text`."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that mend a finding, and what must hold for them to be right."""

    title: str
    edits: tuple[Edit, ...]
    safety: Safety
    condition: str = ""  # a sentence; empty only when SAFE without any condition


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that belongs to the finding, and its part in it."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Cost:
    """What a formula says about the price: never a measurement."""

    text: str  # a sentence
    formula: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a rule has to say about one place of a file.

    `message` is at most three short sentences: what happens, what it costs, what to do.
    """

    span: Span
    message: str
    confidence: Confidence
    severity: Severity
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    cost: Cost | None = None
    rule: str = field(default="", kw_only=True)  # GPU105; filled in by the rule's decorator
    name: str = field(default="", kw_only=True)  # item-in-hot-loop
    objective: Objective = field(default=Objective.PERFORMANCE, kw_only=True)

    @property
    def order(self) -> tuple[int, int, Span, str]:
        """Worst and surest first, then by place."""
        return (self.severity.rank, self.confidence.rank, self.span, self.rule)
