"""GitHub Actions: a workflow started once, found again by its name, watched, stopped, read.

An artifact lies on another server, behind an address that GitHub gives out for a minute. The token
stays with GitHub: that address is asked by a connection that has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from bot.errors import BotError
from bot.github_calls import Answer, Calls, Shape
from bot.github_errors import GitHubError, GoneError, TryAgainError, UnsureError

# All that starting and watching workflows needs.
ACTIONS: Any = {"actions": "write", "metadata": "read"}
_DISPATCHED = "workflow_dispatch"
_RUNS_LOOKED_AT = 300
_ARTIFACTS_LOOKED_AT = 100


class TooLargeError(BotError):
    """A download has more bytes than it may have."""


class WorkflowRun(Shape):
    """A run of a workflow."""

    id: int
    status: str | None = None  # queued, in_progress, completed, and some that mean waiting
    conclusion: str | None = None
    display_title: str = ""
    event: str = ""
    head_branch: str | None = None
    html_url: str = ""
    created_at: datetime | None = None


class Artifact(Shape):
    """Files that a run left behind."""

    id: int
    name: str = ""
    size_in_bytes: int = 0
    expired: bool = False


class _Repository(Shape):
    default_branch: str


class _Started(Shape):
    workflow_run_id: int = 0


@dataclass(frozen=True)
class Workflows:
    """The workflows of the repositories that one token reaches."""

    calls: Calls
    locate: Callable[[str], str]  # where GitHub sends us for a file
    says_run: bool = False  # whether this GitHub can be asked to name the run it starts
    seconds: float = 60.0  # for one answer while downloading
    transport: httpx.BaseTransport | None = field(default=None, repr=False)  # in tests

    def default_branch(self, repo: str) -> str:
        """The branch whose workflow file counts."""
        return self.calls.get(f"repos/{repo}").read(_Repository).default_branch

    def dispatch(self, repo: str, workflow: str, ref: str, inputs: dict[str, str]) -> int:
        """Start it; the run's number, 0 when this GitHub does not tell.

        Sent once: an UnsureError says that it may have started all the same.
        """
        body: dict[str, object] = {"ref": ref, "inputs": inputs}
        if self.says_run:
            body["return_run_details"] = True
        path = f"{_workflow(repo, workflow)}/dispatches"
        answer = self.calls.governor.write(
            self.calls.key, lambda: self.calls.send("POST", path, body=body)
        )
        return _number(answer)

    def find(
        self, repo: str, workflow: str, branch: str, title: str, since: float
    ) -> WorkflowRun | None:
        """The run of the default branch's workflow with this title, if GitHub shows it already."""
        path = f"{_workflow(repo, workflow)}/runs"
        runs = self.calls.pages(path, WorkflowRun, "workflow_runs", event=_DISPATCHED)
        for run in islice(runs, _RUNS_LOOKED_AT):  # the newest come first
            if run.created_at and run.created_at.timestamp() < since:
                break
            # A run of another branch ran that branch's own text of the workflow.
            ours = run.event == _DISPATCHED and run.head_branch == branch
            if ours and run.display_title == title:
                return run
        return None

    def run(self, repo: str, number: int) -> WorkflowRun:
        """The run as it stands now."""
        return self.calls.get(f"repos/{repo}/actions/runs/{number}").read(WorkflowRun)

    def cancel(self, repo: str, number: int) -> None:
        """Stop the run; one that has ended, or is gone, is left alone."""
        try:
            self.calls.edit("POST", f"repos/{repo}/actions/runs/{number}/cancel", None)
        except GoneError:
            return
        except GitHubError as problem:
            if problem.status != 409:
                raise

    def artifact(self, repo: str, number: int, name: str) -> Artifact | None:
        """The artifact of that run with this name, if there is one."""
        path = f"repos/{repo}/actions/runs/{number}/artifacts"
        for found in islice(self.calls.pages(path, Artifact, "artifacts"), _ARTIFACTS_LOOKED_AT):
            if found.name == name:
                return found
        return None

    def download(self, repo: str, artifact: Artifact, most: int) -> bytes:
        """The zip file; a TooLargeError when it has more than `most` bytes."""
        address = self.locate(f"repos/{repo}/actions/artifacts/{artifact.id}/zip")
        if urlsplit(address).scheme not in ("http", "https"):
            raise GitHubError("GitHub's answer does not lead to the artifact")
        try:
            with (
                httpx.Client(timeout=self.seconds, transport=self.transport) as client,
                client.stream("GET", address) as answer,
            ):
                if answer.status_code in (404, 410):
                    raise GoneError("the artifact has expired", answer.status_code)
                if answer.status_code != 200:
                    raise TryAgainError(f"the artifact's server answers {answer.status_code}")
                return _at_most(answer, most)
        except httpx.HTTPError:
            raise TryAgainError("the download of the artifact broke off") from None

    def close(self) -> None:
        """Let go of the connection."""
        self.calls.close()


def _at_most(answer: httpx.Response, most: int) -> bytes:
    content = bytearray()
    for part in answer.iter_raw():
        content += part
        if len(content) > most:
            raise TooLargeError(f"it has more than {most >> 20} MiB")
    return bytes(content)


def _workflow(repo: str, workflow: str) -> str:
    return f"repos/{repo}/actions/workflows/{quote(workflow, safe='')}"


def _number(answer: Answer) -> int:
    if not answer.content.strip():
        return 0
    try:
        return answer.read(_Started).workflow_run_id
    except UnsureError:  # it was accepted all the same; the run is found by its name
        return 0
