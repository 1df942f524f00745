"""One file judged: analysed at head and base, the new findings picked, their fixes proven.

Everything here may run in a child process (`bot/pool.py`): values in, values out.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from analyzers.analysis import Analysis, AnalysisConfig
from analyzers.finding import Confidence, Finding
from bot.diff import Hunk
from bot.fingerprints import marked
from bot.lines import decode, split_lines
from bot.novelty import Flagged, flag, news
from bot.pool import Task, run, run_here
from bot.suggestions import Suggestion

LARGEST = 4_000_000  # bytes; the engine's own limit is lower, this one saves the reading
SURE = frozenset({Confidence.CERTAIN, Confidence.LIKELY})
_FRAME_BEFORE, _FRAME_LONGEST = 2, 12


@dataclass(frozen=True)
class Job:
    """A file to judge; its text, or where to read it."""

    path: str
    config: AnalysisConfig
    text: bytes | None = None
    source: str = ""  # a file of this machine
    base: bytes | None = None
    hunks: tuple[Hunk, ...] | None = None  # None: the whole file counts as new
    prove: frozenset[Confidence] = SURE  # which findings' fixes are worth proving
    inside: str = ""  # the path within the repository, where `path` is another

    @property
    def name(self) -> str:
        """The path that the analysis sees: what lies above the repository is no business of it."""
        return self.inside or self.path


@dataclass(frozen=True)
class Excerpt:
    """Lines of the file around a finding."""

    first: int
    lines: tuple[str, ...]
    added: frozenset[int] = frozenset()  # those that the change wrote


@dataclass(frozen=True)
class Item:
    """A finding with all that a report needs of its file."""

    finding: Finding
    fingerprint: str
    key: tuple[str, str]
    excerpt: Excerpt
    suggestion: Suggestion | None = None
    ordinal: int = 1  # which of its key in the file
    rank: int = 1  # the same, with all that is not new counted first


@dataclass(frozen=True)
class Silenced:
    """A finding that a comment in the file suppresses."""

    finding: Finding
    reason: str
    line: int


@dataclass(frozen=True)
class Examined:
    """What became of one file."""

    path: str
    status: str  # analysed, skipped, failed
    reason: str = ""
    items: tuple[Item, ...] = ()
    silenced: tuple[Silenced, ...] = ()
    gone: tuple[tuple[str, str], ...] = ()  # findings that only the base has
    marks: frozenset[str] = frozenset()  # fingerprints of all findings, new or not
    name: str = ""  # the path within the repository, where `path` is another


UNDECIDED = "undecided"
NO_GPU = "No GPU library is named."
NOTEBOOK = "A notebook: only Python files are analysed (`jupyter nbconvert --to script` makes one)."
STUB = "A stub file: nothing in it runs."
Runner = Callable[[Task[Job, Examined], Sequence[Job]], Iterator[tuple[int, Examined]]]


def examine_all(jobs: Sequence[Job], runner: Runner = run_here) -> list[Examined]:
    """What became of each file, in the order of the jobs."""
    done = dict(runner(EXAMINE, jobs))
    return [replace(done[number], name=job.name) for number, job in enumerate(jobs)]


def in_children(task: Task[Job, Examined], jobs: Sequence[Job]) -> Iterator[tuple[int, Examined]]:
    """A runner: judges files in child processes, once one is found that names a GPU library."""
    wanted: list[int] = []
    texts = all(job.text is not None for job in jobs)
    for number, result in run_here(SIFT, jobs):
        if result.status != UNDECIDED:
            yield number, result
            continue
        wanted.append(number)
        if not texts:  # who judges the others reads them anyway
            wanted += range(number + 1, len(jobs))
            break
    if not wanted:
        return
    import analyzers.engine
    from analyzers.rule import all_rules

    # Children are copies of this process and need not read again what it has read.
    analyzers.engine.load_facts()
    all_rules()
    chosen = [jobs[number] for number in wanted]
    for place, result in run(task, chosen, [_size(job) for job in chosen]):
        yield wanted[place], result


def _size(job: Job) -> int:
    if job.text is not None:
        return len(job.text)
    try:
        return os.stat(job.source).st_size
    except OSError:
        return 0


def sift(job: Job) -> Examined:
    """What can be said of the file without analysing it."""
    found = _look(job)
    return found if isinstance(found, Examined) else Examined(job.path, UNDECIDED)


def _look(job: Job) -> bytes | Examined:
    """The text of a file that is worth an analysis, or what can be said without one."""
    from analyzers.prefilter import mentions_gpu

    if other := no_program(job.path):
        return Examined(job.path, "skipped", other)
    data = job.text if job.text is not None else read(job.source)
    if isinstance(data, str):
        return failed(job, data)
    if mentions_gpu(data) or (job.base and mentions_gpu(job.base)):
        return data
    return Examined(job.path, "skipped", NO_GPU)


def no_program(path: str) -> str:
    """Why a file of this name is not analysed though it may hold Python; mostly empty."""
    return NOTEBOOK if path.endswith(".ipynb") else STUB if path.endswith(".pyi") else ""


def failed(job: Job, reason: str) -> Examined:
    """The result for a file whose examination did not end."""
    return Examined(job.path, "failed", reason)


def examine(job: Job) -> Examined:
    """The file's new findings, with proven suggestions."""
    data = _look(job)
    if isinstance(data, Examined):
        return data
    from analyzers.engine import analyze

    analysis = analyze(job.name, data, job.config)
    status, silenced = str(analysis.status), _silenced(analysis)
    if not analysis.findings and not job.base:
        return Examined(job.path, status, analysis.reason, silenced=silenced)
    text, _ = decode(data)
    lines = split_lines(text)
    flagged = flag(analysis.findings, lines)
    new, gone = flagged, ()
    if job.hunks is not None:
        change = news(flagged, _flagged_at_base(job), job.hunks)
        new, gone = change.new, change.gone
    items = _items(job, flagged, new, lines)
    if any(item.finding.fix for item in items):
        from bot.proving import with_suggestions

        items = with_suggestions(job, text, items, analysis.findings)
    marks = frozenset(mark for mark, _ in marked(job.name, flagged))
    return Examined(job.path, status, analysis.reason, items, silenced, gone, marks)


EXAMINE: Task[Job, Examined] = Task(examine, failed)
SIFT: Task[Job, Examined] = Task(sift, failed)


def read(source: str) -> bytes | str:
    """The file's bytes, or why they cannot be had."""
    try:
        mode = os.stat(source)
        if not stat.S_ISREG(mode.st_mode):
            return "It is not a regular file."
        if mode.st_size > LARGEST:
            return f"The file is {mode.st_size:,} bytes long; at most {LARGEST:,} are read."
        with open(source, "rb") as file:
            return file.read(LARGEST + 1)
    except OSError as problem:
        return f"The file cannot be read: {problem.strerror or problem}."


def _silenced(analysis: Analysis) -> tuple[Silenced, ...]:
    return tuple(Silenced(s.finding, s.reason, s.line) for s in analysis.suppressed)


def _flagged_at_base(job: Job) -> tuple[Flagged, ...]:
    from analyzers.engine import analyze

    if not job.base:
        return ()
    text, _ = decode(job.base)
    return flag(analyze(job.name, job.base, job.config).findings, split_lines(text))


def _items(
    job: Job, flagged: Sequence[Flagged], new: Iterable[Flagged], lines: Sequence[str]
) -> tuple[Item, ...]:
    wanted = {id(found) for found in new}
    rank = Counter(found.key for found in flagged if id(found) not in wanted)
    items: list[Item] = []
    # All of them are marked, so that an ordinal does not depend on the diff.
    for found, (mark, ordinal) in zip(flagged, marked(job.name, flagged), strict=True):
        if id(found) in wanted:
            rank[found.key] += 1
            excerpt = _excerpt(found.finding, lines, job.hunks or ())
            items.append(
                Item(found.finding, mark, found.key, excerpt, None, ordinal, rank[found.key])
            )
    return tuple(items)


def _excerpt(finding: Finding, lines: Sequence[str], hunks: Sequence[Hunk]) -> Excerpt:
    first = max(finding.span.line - _FRAME_BEFORE, 1)
    last = min(finding.span.end_line + 1, first + _FRAME_LONGEST, len(lines))
    added = frozenset(n for hunk in hunks for n in hunk.added if first <= n <= last)
    return Excerpt(first, tuple(line.rstrip("\r\n") for line in lines[first - 1 : last]), added)
