"""A rule is one decorated function in one module of `analyzers/rules/`.

The decorator is the only registration. The module's docstring is the rule's page, its `BAD` and
`GOOD` examples are its tests, and the file, the function and the rule carry the same name.
"""

from __future__ import annotations

import importlib
import pkgutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from analyzers.finding import Finding, Objective, Severity

if TYPE_CHECKING:
    from analyzers.timeline import Timeline

MARK = "# <-"  # ends each line of a BAD example that must be flagged


@dataclass(frozen=True)
class Bad:
    """An example that must be flagged at its marked lines, and what it becomes."""

    code: str
    fixed: str = ""  # when given: parses, is silent, and is what the rule's fix makes of it

    @property
    def marked(self) -> frozenset[int]:
        """The lines (from 1) that end with the mark."""
        lines = self.source.splitlines()
        return frozenset(n for n, line in enumerate(lines, 1) if line.rstrip().endswith(MARK))

    @property
    def source(self) -> str:
        """The example as a file."""
        return textwrap.dedent(self.code).strip("\n") + "\n"

    @property
    def unmarked(self) -> str:
        """The example as a reader sees it."""
        return "\n".join(line.split(MARK)[0].rstrip() for line in self.source.splitlines()) + "\n"


Check = Callable[["Timeline"], Iterable[Finding]]


@dataclass(frozen=True)
class Rule:
    """A registered rule: its names, page, examples and check."""

    code: str
    name: str
    severity: Severity
    objective: Objective
    page: str
    bad: tuple[Bad, ...]
    good: tuple[str, ...]
    check: Check
    instead_of: frozenset[str] = frozenset()  # rules that say less about the same place
    gpu: str | None = None  # the GPU that the examples are written for

    @property
    def title(self) -> str:
        """The page's first line: the problem as a sentence."""
        return self.page.strip().splitlines()[0]

    def section(self, heading: str) -> str:
        """The text below `## heading` of the page, or an empty string."""
        parts = ("\n" + textwrap.dedent(self.page)).split("\n## ")
        texts = [part.partition("\n")[2].strip() for part in parts if part.startswith(heading)]
        return texts[0] if texts else ""

    def run(self, timeline: Timeline) -> Iterator[Finding]:
        """The rule's findings, signed with its names."""
        for found in self.check(timeline):
            yield replace(found, rule=self.code, name=self.name, objective=self._objective(found))

    def _objective(self, found: Finding) -> Objective:
        # An error is a matter of correctness whatever family its rule belongs to.
        return Objective.CORRECTNESS if found.severity is Severity.ERROR else self.objective


_FAMILIES = {
    "GPU3": Objective.CORRECTNESS,
    "GPU4": Objective.CORRECTNESS,
    "GPU8": Objective.READABILITY,
    "GPU9": Objective.CORRECTNESS,
}
_REGISTRY: dict[str, Rule] = {}


def rule(
    code: str,
    *,
    severity: Severity,
    bad: Iterable[Bad],
    good: Iterable[str],
    instead_of: Iterable[str] = (),
    gpu: str | None = None,
) -> Callable[[Check], Check]:
    """Register the decorated check under `code`; its name is the function's.

    Where it speaks, the rules in `instead_of` are silent: one place gets one remark.
    """

    def register(check: Check) -> Check:
        module = importlib.import_module(check.__module__)
        if code in _REGISTRY and _REGISTRY[code].check.__module__ != check.__module__:
            raise ValueError(f"two rules claim {code}: {_REGISTRY[code].name} and {check.__name__}")
        _REGISTRY[code] = Rule(
            code=code,
            name=check.__name__.replace("_", "-"),
            severity=severity,
            objective=_FAMILIES.get(code[:4], Objective.PERFORMANCE),
            page=textwrap.dedent(module.__doc__ or ""),
            bad=tuple(bad),
            good=tuple(textwrap.dedent(text).strip("\n") + "\n" for text in good),
            check=check,
            instead_of=frozenset(instead_of),
            gpu=gpu,
        )
        return check

    return register


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of `analyzers/rules/`, by code."""
    package = importlib.import_module("analyzers.rules")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"analyzers.rules.{module.name}")
    return tuple(_REGISTRY[code] for code in sorted(_REGISTRY))


def find_rule(text: str) -> Rule | None:
    """The rule with that code or name, whatever its case; None if there is none."""
    wanted = text.strip().lower().replace("_", "-")
    return next((r for r in all_rules() if wanted in (r.code.lower(), r.name)), None)
