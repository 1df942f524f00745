"""The analysis of one file: read, dry-run, ask every rule, take out what is suppressed.

`analyze` is total: whatever the text, it gives an `Analysis` that says what happened.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cache

from analyzers.analysis import Analysis, AnalysisConfig, Status, Suppressed
from analyzers.dryrun.frame import Hints
from analyzers.dryrun.interpreter import dry_run
from analyzers.finding import Confidence, Finding, Objective, Severity, Span
from analyzers.knowledge import load_facts
from analyzers.prefilter import mentions_gpu
from analyzers.rule import Rule, all_rules
from analyzers.source import Source, Unreadable, read_source
from analyzers.suppressions import Complaint, find_suppressions, split
from analyzers.timeline import Timeline

UNUSED = "GPU000"
DEFAULT = AnalysisConfig()
_ALL = frozenset[str]()  # no rule selected or ignored: all run
_FRAMES = 20_000  # Source bounds the depth of trees; this is room for the walk over them


def analyze(path: str, text: str | bytes, config: AnalysisConfig = DEFAULT) -> Analysis:
    """All findings of one file, worst first; never raises because of the text."""
    if not mentions_gpu(text):
        return Analysis(path, Status.ANALYSED)

    def work() -> Analysis:
        source = read_source(path, text)
        if isinstance(source, Unreadable):
            status = Status.SKIPPED if source.skipped else Status.FAILED
            return Analysis(path, status, source.reason)
        return _analyze(source, config)

    return _total(path, work)


def analyze_source(source: Source, config: AnalysisConfig = DEFAULT) -> Analysis:
    """As `analyze`, for a file that was read already."""
    return _total(source.path, lambda: _analyze(source, config))


def _total(path: str, work: Callable[[], Analysis]) -> Analysis:
    """What the work gives, or why it gave nothing."""
    try:
        return work()
    except RecursionError:
        return Analysis(path, Status.FAILED, "The code is nested too deeply to be analysed.")
    except MemoryError:
        return Analysis(path, Status.FAILED, "The analysis ran out of memory.")
    except Exception as problem:  # a fault of ours must not cost the other files
        reason = f"The analysis failed ({type(problem).__name__}: {problem}); please report it."
        return Analysis(path, Status.FAILED, reason)


def timeline_of(source: Source, config: AnalysisConfig = DEFAULT) -> Timeline:
    """What the file does to the GPU."""
    hints = Hints(frozenset(config.hot_functions), frozenset(config.device_helpers))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        return dry_run(source, load_facts(), hints, config.gpu)
    finally:
        sys.setrecursionlimit(limit)


def _analyze(source: Source, config: AnalysisConfig) -> Analysis:
    timeline = timeline_of(source, config)
    rules = selected(config.select, config.ignore) if _tells(timeline) else ()
    found = _telling(_distinct(finding for rule in rules for finding in rule.run(timeline)))
    result = split(
        found,
        find_suppressions(source),
        known=_names(_ALL, _ALL),
        ran=_names(config.select, config.ignore),
    )
    everything = [*result.kept, *(_unused(complaint) for complaint in result.unused)]
    everything.sort(key=lambda finding: finding.order)
    return Analysis(
        source.path,
        Status.ANALYSED,
        findings=tuple(everything),
        suppressed=tuple(
            Suppressed(finding, item.reason, item.span.line) for finding, item in result.suppressed
        ),
    )


def _tells(timeline: Timeline) -> bool:
    """Whether the file was walked and something was met that rules speak about."""
    return bool(timeline.events or timeline.kernels or timeline.imports)


@cache
def _names(select: frozenset[str], ignore: frozenset[str]) -> frozenset[str]:
    rules = selected(select, ignore)
    return frozenset(name for rule in rules for name in (rule.code, rule.name))


def _distinct(findings: Iterable[Finding]) -> list[Finding]:
    """One finding per rule and place: the surest."""
    best: dict[tuple[str, Span], Finding] = {}
    for finding in findings:
        key = (finding.rule, finding.span)
        known = best.get(key)
        if known is None or finding.order < known.order:
            best[key] = finding
    return list(best.values())


def _telling(findings: list[Finding]) -> list[Finding]:
    """Without those that say less than another finding about the same place."""
    instead = _instead()
    better = [finding for finding in findings if finding.rule in instead]
    return [
        finding
        for finding in findings
        if not any(
            finding.rule in instead[other.rule]
            and (_posted(other) or not _posted(finding))
            and _overlap(finding.span, other.span)
            for other in better
        )
    ]


@cache
def _instead() -> dict[str, frozenset[str]]:
    return {rule.code: rule.instead_of for rule in all_rules() if rule.instead_of}


def _posted(finding: Finding) -> bool:
    """Whether it is sure enough to be posted inline."""
    return finding.confidence is not Confidence.POSSIBLE


def _overlap(a: Span, b: Span) -> bool:
    return (a.line, a.column) < (b.end_line, b.end_column) and (b.line, b.column) < (
        a.end_line,
        a.end_column,
    )


def _unused(complaint: Complaint) -> Finding:
    return Finding(
        complaint.suppression.span,
        complaint.text,
        Confidence.CERTAIN,
        Severity.INFO,
        rule=UNUSED,
        name="unused-suppression",
        objective=Objective.READABILITY,
    )


@cache
def selected(select: frozenset[str], ignore: frozenset[str]) -> tuple[Rule, ...]:
    """The rules to run; a prefix such as GPU1 stands for its whole family."""

    def among(rule: Rule, words: frozenset[str]) -> bool:
        return any(rule.code.startswith(w.upper()) or rule.name == w.lower() for w in words)

    return tuple(
        rule
        for rule in all_rules()
        if (not select or among(rule, select)) and not among(rule, ignore)
    )
