"""Proven fixes applied to whole files: `check --fix`."""

from __future__ import annotations

from dataclasses import dataclass

from analyzers.finding import Finding, Safety
from bot.examine import SURE, Job, read
from bot.lines import decode, line_end
from bot.pool import Task

MOST = 500  # fixes in one file; more would mean that they undo each other


@dataclass(frozen=True)
class MendJob:
    """A file to mend, and which fixes may be applied."""

    job: Job
    allowed: frozenset[Safety]


@dataclass(frozen=True)
class Mended:
    """A file's text after its fixes; None when nothing could be applied."""

    text: bytes | None = None
    fixes: int = 0


def mend(job: MendJob) -> Mended:
    """The file with every allowed and proven fix applied, one after the other."""
    data = job.job.text if job.job.text is not None else read(job.job.source)
    if isinstance(data, str):
        return Mended()
    text, encoding = decode(data)
    fixes = 0
    while fixes < MOST and (better := _one_fix(job, text)) is not None:
        text, fixes = better, fixes + 1
    if not fixes:
        return Mended()
    try:
        return Mended(text.encode(encoding), fixes)
    except UnicodeEncodeError:
        return Mended()


def _one_fix(job: MendJob, text: str) -> str | None:
    """The text after the first fix that can be proven."""
    from analyzers.engine import analyze
    from analyzers.proof import prove

    findings = analyze(job.job.name, text, job.job.config).findings
    for finding in findings:
        if may_apply(finding, job.allowed):
            proof = prove(job.job.name, text, finding, job.job.config, before=findings)
            if proof.ok and proof.text != text:
                return _with_ends_of(text, proof.text)
    return None


def may_apply(finding: Finding, allowed: frozenset[Safety]) -> bool:
    """Whether a machine may apply this finding's fix."""
    fix = finding.fix
    return fix is not None and fix.safety in allowed and finding.confidence in SURE


def _with_ends_of(before: str, after: str) -> str:
    """The new text with the line ends of the old one, where that has only one kind."""
    end = line_end(before)
    if end in ("", "\n"):
        return after
    return after.replace("\r\n", "\n").replace("\r", "\n").replace("\n", end)


MEND: Task[MendJob, Mended] = Task(mend, lambda job, reason: Mended())
