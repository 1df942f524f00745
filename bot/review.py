"""Changed files in, review out: what is said, where, and what could not be judged."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from analyzers.finding import Confidence, Severity
from bot.baseline import NONE, Baseline, Entry
from bot.comments import ReviewComment, comment
from bot.config import NEVER, RepoConfig
from bot.diff import BINARY, SUBMODULE, SYMLINK, Change, ChangedFile, Placement, locate
from bot.examine import (
    NO_GPU,
    NOTEBOOK,
    STUB,
    Examined,
    Item,
    Job,
    Runner,
    Silenced,
    examine_all,
    no_program,
)
from bot.fingerprints import fingerprint
from bot.novelty import without_moved
from bot.pool import run_here

PYTHON = (".py", ".pyw")


class Conclusion(enum.StrEnum):
    """What the check says as a whole."""

    SUCCESS = "success"  # everything was judged, and nothing is at or above the failing severity
    FAILURE = "failure"
    NEUTRAL = "neutral"  # something could not be judged


@dataclass(frozen=True)
class FileReport:
    """What became of one file."""

    path: str
    status: str  # analysed, skipped, failed
    reason: str = ""

    @property
    def unjudged(self) -> bool:
        """Whether it may hold findings that nobody saw."""
        return self.status == "failed" or (self.status == "skipped" and not is_harmless(self))


@dataclass(frozen=True)
class Review:
    """Everything a report or a pull request needs."""

    subject: str
    comments: tuple[ReviewComment, ...]
    files: tuple[FileReport, ...]
    silenced: tuple[tuple[str, Silenced], ...] = ()
    fail_on: str = Severity.WARNING.value
    left_out: tuple[str, ...] = ()  # fingerprints of findings that the baseline lists
    stale: tuple[Entry, ...] = ()  # what it lists and is no more
    confirmed: tuple[tuple[str, str], ...] = ()  # fingerprint -> what was measured at its line
    refuted: tuple[str, ...] = ()  # fingerprints of possible findings that a measurement took away

    @property
    def failing(self) -> bool:
        """Whether a sure finding is at or above the failing severity."""
        return any(self._fails(c) for c in self.comments)

    def _fails(self, comment: ReviewComment) -> bool:
        limit = comment.fail_on or self.fail_on
        if limit == NEVER or comment.finding.confidence is Confidence.POSSIBLE:
            return False
        return comment.finding.severity.rank <= Severity(limit).rank

    @property
    def unjudged(self) -> tuple[FileReport, ...]:
        """The files that may hold findings nobody saw."""
        return tuple(file for file in self.files if file.unjudged)

    @property
    def conclusion(self) -> Conclusion:
        """The check's outcome; never green when something was not judged."""
        if self.failing:
            return Conclusion.FAILURE
        return Conclusion.NEUTRAL if self.unjudged else Conclusion.SUCCESS

    def placed(self, placement: Placement) -> tuple[ReviewComment, ...]:
        """The comments with this placement."""
        return tuple(c for c in self.comments if c.placement is placement)


def build_review(
    files: Sequence[ChangedFile],
    config: RepoConfig,
    run: Runner = run_here,
    subject: str = "",
    baseline: Baseline = NONE,
) -> Review:
    """The review of a change; `run` says where the analysis happens."""
    reports: list[FileReport] = []
    wanted: list[ChangedFile] = []
    for file in files:
        reason = _reason_to_skip(file, config)
        if reason:
            reports.append(reason)
        else:
            wanted.append(file)
    jobs = [_job(file, config) for file in wanted]
    examined = _without_moved(examine_all(jobs, run), files, config, run)
    by_path = {file.path: file for file in wanted}
    place = _placer(by_path)
    review = assemble(examined, config, place, subject, baseline)
    ordered = sorted([*reports, *review.files], key=lambda report: report.path)
    gone = {f.path for f in files if f.change is Change.DELETED} | {f.old_path for f in files}
    stale = (*review.stale, *baseline.within(gone))
    return replace(review, files=tuple(ordered), stale=stale)


def _reason_to_skip(file: ChangedFile, config: RepoConfig) -> FileReport | None:
    reasons = {
        file.unread: file.unread in NO_TEXT,
        no_program(file.path): bool(no_program(file.path)),
        NOT_PYTHON: not file.path.endswith(PYTHON),
        DELETED: file.change is Change.DELETED,
        FILTERED: not config.wants(file.path),
    }
    for reason, holds in reasons.items():
        if holds:
            return FileReport(file.path, "skipped", reason)
    if file.unread:
        return FileReport(file.path, "failed", file.unread)
    nothing = file.text is None or not file.added
    return FileReport(file.path, "skipped", NOTHING_ADDED) if nothing else None


NOT_PYTHON = "Not a Python file."
DELETED = "The file was deleted."
FILTERED = "The configuration leaves it out."
NOTHING_ADDED = "No line was added."
NO_TEXT = (SUBMODULE, SYMLINK, BINARY)
_HARMLESS = (NOT_PYTHON, DELETED, FILTERED, NOTHING_ADDED, *NO_TEXT, NO_GPU, NOTEBOOK, STUB)


def is_harmless(file: FileReport) -> bool:
    """Whether a skipped file has nothing to say, rather than nobody to read it."""
    return file.reason in _HARMLESS


def _job(file: ChangedFile, config: RepoConfig) -> Job:
    return Job(
        path=file.path,
        config=config.for_file(file.path),
        text=file.text,
        base=file.base,
        hunks=file.hunks,
        prove=worth_proving(config.nearest(file.path)[0]),
    )


def worth_proving(config: RepoConfig) -> frozenset[Confidence]:
    """How sure a finding must be for its fix to be worth proving."""
    return frozenset(c for c in Confidence if c.rank <= config.confidence.rank)


def _without_moved(
    examined: list[Examined], files: Sequence[ChangedFile], config: RepoConfig, run: Runner
) -> list[Examined]:
    """The same, less findings that came with code moved from another file of the change."""
    if not any(result.items for result in examined):
        return examined
    gone = [key for result in examined for key in result.gone]
    judged = {result.path for result in examined}
    only_lost = [
        Job(f.path, config.for_file(f.path), text=f.text or b"", base=f.base, hunks=f.hunks)
        for f in files
        if f.path not in judged and f.base and f.path.endswith(PYTHON) and not f.unread
    ]
    for result in examine_all(only_lost, run):
        gone += result.gone
    marks = [(item.fingerprint, item.key) for result in examined for item in result.items]
    moved = without_moved(marks, gone)
    return [
        replace(result, items=tuple(i for i in result.items if i.fingerprint not in moved))
        for result in examined
    ]


Place = Callable[[str, Item], Placement]


def _placer(files: dict[str, ChangedFile]) -> Place:
    def place(path: str, item: Item) -> Placement:
        return locate(files[path], item.finding.span)

    return place


def everywhere(path: str, item: Item) -> Placement:
    """The placement in a check of whole files, where every line can be shown."""
    return Placement.INLINE


def assemble(
    examined: Sequence[Examined],
    config: RepoConfig,
    place: Place,
    subject: str,
    baseline: Baseline = NONE,
) -> Review:
    """The review that these examined files give under this configuration."""
    comments: list[ReviewComment] = []
    left_out: list[str] = []
    for result in examined:
        settings = config.nearest(result.name)[0]
        for item in result.items:
            if not is_reported(item, settings):
                continue
            if fingerprint(result.name, item.key, item.rank) in baseline.marks:
                left_out.append(item.fingerprint)
                continue
            made = comment(result.path, item, _placement(result.path, item, settings, place))
            own = "" if settings is config else settings.fail_on
            comments.append(replace(made, fail_on=own))
    comments.sort(key=lambda c: (c.path, c.finding.span, c.finding.rule))
    return Review(
        subject=subject,
        comments=_at_most(comments, config.max_comments),
        files=tuple(FileReport(r.path, r.status, r.reason) for r in examined),
        silenced=tuple((r.path, silenced) for r in examined for silenced in r.silenced),
        fail_on=config.fail_on,
        left_out=tuple(left_out),
        stale=stale(baseline, examined, config),
    )


def stale(
    baseline: Baseline, examined: Sequence[Examined], config: RepoConfig
) -> tuple[Entry, ...]:
    """What the baseline lists in these files although it is no more."""
    judged = {
        result.name: result
        for result in examined
        if result.status == "analysed" or result.reason == NO_GPU
    }
    return tuple(
        entry
        for entry in baseline.within(judged)
        if entry.fingerprint not in judged[entry.path].marks
        and config.for_file(entry.path).runs(entry.rule)
    )


def is_reported(item: Item, config: RepoConfig) -> bool:
    """Whether these settings want to hear of it at all."""
    finding = item.finding
    if finding.rule in config.ignore:
        return False
    return finding.severity.rank <= config.severity.rank and finding.objective in config.objectives


def _placement(path: str, item: Item, config: RepoConfig, place: Place) -> Placement:
    if item.finding.confidence.rank > config.confidence.rank:
        return Placement.SUMMARY
    return place(path, item)


def _at_most(comments: list[ReviewComment], limit: int) -> tuple[ReviewComment, ...]:
    """The same, where only the worst `limit` (0: all) stand at their places."""
    shown = [c for c in comments if c.placement is not Placement.SUMMARY]
    if not limit or len(shown) <= limit:
        return tuple(comments)
    worst = sorted(shown, key=lambda c: c.finding.order)[:limit]
    kept = {id(c) for c in worst}
    return tuple(c if id(c) in kept else replace(c, placement=Placement.SUMMARY) for c in comments)
