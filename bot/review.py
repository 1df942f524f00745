"""Changed files in, review out: what is said, where, and what could not be judged."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from analyzers.finding import Confidence, Severity
from bot.comments import ReviewComment, comment
from bot.config import NEVER, RepoConfig
from bot.diff import BINARY, SUBMODULE, SYMLINK, Change, ChangedFile, Placement, locate
from bot.examine import NO_GPU, Examined, Item, Job, Runner, Silenced, examine_all
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

    @property
    def failing(self) -> bool:
        """Whether a sure finding is at or above the failing severity."""
        if self.fail_on == NEVER:
            return False
        limit = Severity(self.fail_on).rank
        return any(
            c.finding.severity.rank <= limit and c.finding.confidence is not Confidence.POSSIBLE
            for c in self.comments
        )

    @property
    def conclusion(self) -> Conclusion:
        """The check's outcome; never green when something was not judged."""
        if self.failing:
            return Conclusion.FAILURE
        unjudged = any(file.unjudged for file in self.files)
        return Conclusion.NEUTRAL if unjudged else Conclusion.SUCCESS

    def placed(self, placement: Placement) -> tuple[ReviewComment, ...]:
        """The comments with this placement."""
        return tuple(c for c in self.comments if c.placement is placement)


def build_review(
    files: Sequence[ChangedFile],
    config: RepoConfig,
    run: Runner = run_here,
    subject: str = "",
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
    review = assemble(examined, config, place, subject)
    ordered = sorted([*reports, *review.files], key=lambda report: report.path)
    return replace(review, files=tuple(ordered))


def _reason_to_skip(file: ChangedFile, config: RepoConfig) -> FileReport | None:
    reasons = {
        file.unread: file.unread in NO_TEXT,
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
_HARMLESS = (NOT_PYTHON, DELETED, FILTERED, NOTHING_ADDED, *NO_TEXT, NO_GPU)


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
        prove=_worth_proving(config),
    )


def _worth_proving(config: RepoConfig) -> frozenset[Confidence]:
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
    examined: Sequence[Examined], config: RepoConfig, place: Place, subject: str
) -> Review:
    """The review that these examined files give under this configuration."""
    comments = [
        comment(result.path, item, _placement(result.path, item, config, place))
        for result in examined
        for item in result.items
        if _reported(item, config)
    ]
    comments.sort(key=lambda c: (c.path, c.finding.span, c.finding.rule))
    return Review(
        subject=subject,
        comments=_at_most(comments, config.max_comments),
        files=tuple(FileReport(r.path, r.status, r.reason) for r in examined),
        silenced=tuple((r.path, silenced) for r in examined for silenced in r.silenced),
        fail_on=config.fail_on,
    )


def _reported(item: Item, config: RepoConfig) -> bool:
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
