"""The check run: made, shown as running, completed, with its annotations in batches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from bot.github_calls import Answer, Calls
from bot.github_shapes import CheckRun
from bot.pulls import BENCHMARK_BUTTON, CHECK_NAME, Annotation, Check, PullRef

BATCH = 50  # annotations that GitHub takes at once
_LONGEST_TEXT = 65_000  # characters; GitHub refuses more than 65,535
_LONGEST_MESSAGE = 16_000
_BUTTON = {
    "label": "Benchmark this",
    "description": "Measure base and head on the GPU runner",
    "identifier": BENCHMARK_BUTTON,
}


@dataclass(frozen=True)
class Checks:
    """Writes check runs."""

    calls: Calls
    app_id: int

    def start(self, ref: PullRef) -> int:
        """Show that the head is being analysed; the check run's id."""
        known = self._newest(ref, lambda run: run.status != "completed")
        if known:
            return known.id
        body = self._body(ref, "") | {"status": "in_progress"}
        return self._create(ref, body, lambda run: run.status != "completed")

    def finish(self, ref: PullRef, check: Check) -> int:
        """Show the outcome; the check run's id. Goes on where an earlier attempt stopped."""
        digest = _digest(check)
        run = self._newest(ref, lambda r: r.external_id == _external_id(ref, digest))
        if run is None:
            return self._complete(ref, check, digest)
        self._annotate(ref, check, run.id, run.output.annotations_count)
        return run.id

    def _complete(self, ref: PullRef, check: Check, digest: str) -> int:
        body = self._body(ref, digest) | {
            "status": "completed",
            "conclusion": check.conclusion,
            "output": _output(check, 0),
        }
        if check.benchmark:
            body["actions"] = [_BUTTON]
        # One that is done is never reopened: its annotations would stay beside the new ones.
        running = self._newest(ref, lambda r: r.status != "completed")
        if running:
            changed = {name: value for name, value in body.items() if name != "head_sha"}
            self.calls.edit("PATCH", f"{_path(ref)}/{running.id}", changed)
            number = running.id
        else:
            number = self._create(ref, body, lambda r: r.external_id == body["external_id"])
        self._annotate(ref, check, number, min(BATCH, len(check.annotations)))
        return number

    def _annotate(self, ref: PullRef, check: Check, run: int, done: int) -> None:
        """Append the annotations from number `done` on; GitHub adds them to what it has."""
        for first in range(done, len(check.annotations), BATCH):
            self.calls.edit_once(
                f"{_path(ref)}/{run}",
                {"output": _output(check, first)},
                lambda first=first: self._has(ref, run, first + 1),
            )

    def _has(self, ref: PullRef, run: int, count: int) -> Answer | None:
        answer = self.calls.get(f"{_path(ref)}/{run}")
        return answer if answer.read(CheckRun).output.annotations_count >= count else None

    def _create(self, ref: PullRef, body: dict[str, Any], same: Callable[[CheckRun], bool]) -> int:
        made = self.calls.create(_path(ref), body, lambda: self._newest(ref, same))
        return made.read(CheckRun).id if isinstance(made, Answer) else made.id

    def _newest(self, ref: PullRef, wanted: Callable[[CheckRun], bool]) -> CheckRun | None:
        """Our newest check run of this head that is as wanted."""
        path = f"repos/{ref.full_name}/commits/{ref.head_sha}/check-runs"
        pages = self.calls.pages(
            path, CheckRun, inside="check_runs", check_name=CHECK_NAME, filter="all"
        )
        prefix = _external_id(ref, "")
        mine = [
            run
            for run in pages
            if (run.external_id or "").startswith(prefix) and self._ours(run) and wanted(run)
        ]
        return max(mine, key=lambda run: run.id, default=None)

    def _ours(self, run: CheckRun) -> bool:
        return not self.app_id or run.app is None or run.app.id == self.app_id

    def _body(self, ref: PullRef, digest: str) -> dict[str, Any]:
        return {
            "name": CHECK_NAME,
            "head_sha": ref.head_sha,
            "external_id": _external_id(ref, digest),
        }


def _path(ref: PullRef) -> str:
    return f"repos/{ref.full_name}/check-runs"


def _external_id(ref: PullRef, digest: str) -> str:
    # Two pull requests may have one head.
    return f"hostside:{ref.number}:{digest}"


def _digest(check: Check) -> str:
    return hashlib.sha256(repr(asdict(check)).encode()).hexdigest()[:12]


def _output(check: Check, first: int) -> dict[str, Any]:
    batch = check.annotations[first : first + BATCH]
    return {
        "title": check.title[:255],
        "summary": check.summary[:_LONGEST_TEXT],
        "annotations": [_annotation(annotation) for annotation in batch],
    }


def _annotation(annotation: Annotation) -> dict[str, Any]:
    said: dict[str, Any] = {
        "path": annotation.path,
        "start_line": annotation.start_line,
        "end_line": annotation.end_line,
        "annotation_level": annotation.level,
        "title": annotation.title[:255],
        "message": annotation.message[:_LONGEST_MESSAGE],
    }
    one_line = annotation.start_line == annotation.end_line
    if one_line and annotation.start_column and annotation.end_column:
        columns = sorted((annotation.start_column, annotation.end_column))
        said |= {"start_column": columns[0], "end_column": columns[1]}
    return said
