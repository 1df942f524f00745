"""What a run leaves: annotations, the job's summary, the SARIF file, the folder for a later run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from analyzers.finding import Confidence
from bot import action_artifact
from bot.action_files import LARGEST_SUMMARY, within, write
from bot.action_post import Told
from bot.errors import UsageError
from bot.neutral import prose
from bot.pulls import PullRef
from bot.reports import json, markdown, sarif
from bot.reports.github import noted
from bot.reports.words import plural
from bot.review import Review

REST = "in the job's summary"
_NAMED = 5  # files that an annotation names


@dataclass(frozen=True)
class Outbox:
    """Where files are left for the steps that follow."""

    folder: Path
    workspace: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Outbox:
        """The places of this runner."""
        temporary = environment.get("RUNNER_TEMP") or environment.get("TMPDIR") or "/tmp"
        workspace = environment.get("GITHUB_WORKSPACE") or "."
        return cls(Path(temporary) / "hostside", Path(workspace))

    def sarif(self, named: str) -> Path:
        """The SARIF file: where the input says, below the workspace, or out of its way."""
        if not named:
            return self.folder / "hostside.sarif"
        path = self.workspace / named
        # Through a link that a stranger's commit brings, a file of the machine would be replaced.
        if not within(path, self.workspace):
            raise UsageError(f"input sarif-file: {named!r} does not lie below the workspace")
        return path


def lines(review: Review, told: Told) -> list[str]:
    """The annotations, as lines for the log."""
    notes: list[tuple[str, str, str]] = []
    if told.problem:
        notes.append(("warning", "Hostside could not post its review", told.problem))
    if review.unjudged:
        notes.append(("warning", "Hostside did not judge everything", _missed(review)))
    return noted(review, REST, notes)


def _missed(review: Review) -> str:
    named = "; ".join(f"{f.path}: {f.reason}" for f in review.unjudged[:_NAMED])
    more = len(review.unjudged) - _NAMED
    rest = f"; and {more:,} more" if more > 0 else ""
    return (
        f"{plural(len(review.unjudged), 'file')} not judged, so this is no success: {named}{rest}"
    )


def job_summary(review: Review, told: Told) -> str:
    """The review for the job's page, cut between two comments to what GitHub takes."""
    head = f"## Hostside: {review.conclusion.value}\n\n"
    if told.problem:
        head += f"> **Not posted**: {prose(told.problem)}\n\n"
    end = markdown.summary(review)
    room = LARGEST_SUMMARY - _size(head) - _size(end) - 200
    parts: list[str] = []
    sections = [text.replace("```suggestion", "```python") for text in markdown.sections(review)]
    for section in sections:
        room -= _size(section) + _size(markdown.RULE)
        if room < 0:
            break
        parts.append(section)
    left = len(sections) - len(parts)
    if left:
        parts.append(f"{plural(left, 'more comment')} did not fit; the SARIF file has all.")
    return head + markdown.RULE.join([end, *parts]) + "\n"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def nothing_summary(reason: str) -> str:
    """The job's summary when nothing was looked at."""
    return f"## Hostside: skipped\n\nNothing was reviewed: {prose(reason)}.\n"


def failed_summary(problem: str) -> str:
    """The job's summary when the review failed."""
    return f"## Hostside: failed\n\nNothing was reviewed: {prose(problem)}\n"


def leave_sarif(review: Review, path: Path) -> None:
    """Write the SARIF file."""
    write(path, sarif.render(review))


def leave_artifact(review: Review, ref: PullRef, folder: Path) -> None:
    """Write what the workflow uploads when the review could not be posted."""
    write(folder / action_artifact.NAME, action_artifact.content(ref))
    write(folder / "review.json", json.render(review))


def outputs(review: Review, sarif_file: Path, artifact: str) -> dict[str, str]:
    """The Action's outputs."""
    sure = [c for c in review.comments if c.finding.confidence is not Confidence.POSSIBLE]
    clicks = sum(1 for c in sure if c.suggestion and c.suggestion.one_click)
    return {
        "findings": str(len(sure)),
        "suggestions": str(clicks),
        "sarif": str(sarif_file),
        "conclusion": review.conclusion.value,
        "artifact": artifact,
    }


def no_outputs(conclusion: str) -> dict[str, str]:
    """The outputs when nothing was reviewed."""
    return {
        "findings": "0",
        "suggestions": "0",
        "sarif": "",
        "conclusion": conclusion,
        "artifact": "",
    }


def mention(review: Review) -> str:
    """The review in one line of the log."""
    return f"{review.subject}: {review.conclusion.value}, {plural(len(review.comments), 'finding')}"
