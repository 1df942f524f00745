"""Comments that silence what is found: `check --add-ignores`, to start with on old code.

Each file is proven before it is written: the same program as before, the findings silenced, and no
comment that silences nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from analyzers.analysis import Analysis
from analyzers.finding import Finding, Span
from analyzers.source import Source, read_source
from bot.baseline import Baseline
from bot.config import UNUSED, RepoConfig
from bot.examine import Examined, Job, read
from bot.fingerprints import fingerprint
from bot.ignore_places import Page, Spot, moved, remark
from bot.lines import decode
from bot.pool import Task
from bot.review import is_reported

_ROUNDS = 6  # each moves those comments on that did not silence anything
TIME_LIMIT = 120.0

Place = tuple[str, Span]


@dataclass(frozen=True)
class IgnoreJob:
    """A file, and which of its findings are to be silenced."""

    job: Job
    places: frozenset[Place]
    reason: str


@dataclass(frozen=True)
class Ignored:
    """A file's text with the comments; None when there is nothing to write."""

    text: bytes | None = None
    silenced: int = 0
    left: int = 0  # findings that no comment silences
    why: str = "no comment beside it has this effect alone"


def wanted(result: Examined, config: RepoConfig, baseline: Baseline) -> frozenset[Place]:
    """The findings that a report shows in full, by rule and place, and those on their lines."""
    settings = config.nearest(result.name)[0]
    shown = [
        item
        for item in result.items
        if is_reported(item, settings)
        and item.finding.confidence.rank <= settings.confidence.rank
        and item.finding.rule != UNUSED
    ]
    new = {
        item.finding.span.line
        for item in shown
        if fingerprint(result.name, item.key, item.rank) not in baseline.marks
    }
    # A comment changes the text that the baseline knows a line by: all of the line are silenced.
    return frozenset(
        (item.finding.rule, item.finding.span) for item in shown if item.finding.span.line in new
    )


def add(job: IgnoreJob) -> Ignored:
    """The file with a comment for each wanted finding."""
    data = job.job.text if job.job.text is not None else read(job.job.source)
    if isinstance(data, str):
        return Ignored(left=len(job.places), why=data)
    text, encoding = decode(data)
    silencing = silence(job, text)
    if silencing is None or not silencing.chosen:
        return Ignored(left=len(job.places))
    done = len(silencing.chosen)
    try:
        return Ignored(silencing.text.encode(encoding), done, len(job.places) - done)
    except UnicodeEncodeError:
        why = f"the file's encoding ({encoding}) lacks a letter of the reason"
        return Ignored(left=len(job.places), why=why)


@dataclass
class _Silencing:
    """A file while comments are tried in it."""

    job: IgnoreJob
    page: Page
    before: Analysis
    text: str
    chosen: dict[Place, Spot] = field(default_factory=dict[Place, Spot])

    def tried(self, spots: dict[Place, Spot]) -> Sequence[Place] | None:
        """Which places still speak with comments at these spots; None: it is another program."""
        from analyzers.engine import analyze

        text = self.page.with_comments(
            ((spot, rule) for (rule, _), spot in spots.items()), self.job.reason
        )
        source = read_source(self.job.job.name, text)
        if not isinstance(source, Source) or ast.dump(source.tree) != self._program:
            return None
        after = analyze(self.job.job.name, text, self.job.job.config)
        if _unused(after.findings) > _unused(self.before.findings):
            return list(spots)
        self.text = text
        speaking = {(f.rule, f.span) for f in after.findings}
        return [p for p in spots if (p[0], moved(p[1], spots.values())) in speaking]

    @property
    def _program(self) -> str:
        return ast.dump(self.page.source.tree)


def silence(job: IgnoreJob, text: str) -> _Silencing | None:
    """The text with its comments, and which finding each is for; None when it is not readable."""
    from analyzers.engine import analyze

    source = read_source(job.job.name, text)
    before = analyze(job.job.name, text, job.job.config)
    if not isinstance(source, Source):
        return None
    work = _Silencing(job, Page(source), before, text)
    spots = {
        (finding.rule, finding.span): work.page.spots(finding, _length(finding, job.reason))
        for finding in before.findings
        if (finding.rule, finding.span) in job.places
    }
    if not _together(work, spots):
        _one_by_one(work, spots)
    return work


def _length(finding: Finding, reason: str) -> int:
    return len(remark([finding.rule], reason)) + 2


def _unused(findings: Sequence[Finding]) -> int:
    return sum(finding.rule == UNUSED for finding in findings)


def _together(work: _Silencing, spots: dict[Place, list[Spot]]) -> bool:
    """Whether all can be silenced at once, each at the best of its spots that works."""
    at = dict.fromkeys(spots, 0)
    for _ in range(_ROUNDS):
        if any(number >= len(spots[place]) for place, number in at.items()):
            return False
        chosen = {place: spots[place][number] for place, number in at.items()}
        still = work.tried(chosen)
        if still is None:
            return False
        if not still:
            work.chosen = chosen
            return True
        for place in still:
            at[place] += 1
    return False


def _one_by_one(work: _Silencing, spots: dict[Place, list[Spot]]) -> None:
    """Silence what can be, each after the others."""
    original = work.page.source.text
    for place, possible in spots.items():
        for spot in possible:
            if work.tried(work.chosen | {place: spot}) == []:
                work.chosen = work.chosen | {place: spot}
                break
    work.text = original
    if work.chosen:
        work.tried(work.chosen)


ADD: Task[IgnoreJob, Ignored] = Task(
    add, lambda job, reason: Ignored(left=len(job.places), why=reason), time_limit=TIME_LIMIT
)
