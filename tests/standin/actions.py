"""What GitHub Actions remembers, and what a runner does there."""

from __future__ import annotations

import io
import json
import time
import uuid
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

import yaml

from tests.standin.model import Delivery, RefusedError, Repo
from tests.standin.shapes import node, repository, user
from tests.standin.world import World

FOLDER = ".github/workflows"
MOST_INPUTS, MOST_CHARACTERS = 10, 65_535  # of GitHub Enterprise Server


@dataclass
class Artifact:
    id: int
    name: str
    content: bytes
    expired: bool = False
    said_size: int | None = None  # what the list says when it is not the truth


@dataclass
class Run:
    id: int
    repo: Repo
    workflow: str
    title: str
    branch: str
    inputs: dict[str, str]
    event: str = "workflow_dispatch"
    status: str = "queued"
    conclusion: str | None = None
    created: float = field(default_factory=time.time)
    hidden: int = 0  # lists that do not show it yet
    artifacts: list[Artifact] = field(default_factory=list)

    def end(self, conclusion: str = "success") -> None:
        self.status, self.conclusion = "completed", conclusion


@dataclass
class Actions:
    """The workflow runs of a world."""

    world: World
    runs: list[Run] = field(default_factory=list)
    disabled: set[str] = field(default_factory=set)
    lag: int = 0  # how many lists do not show a new run
    blobs: str = ""  # address of the other server, where artifacts lie
    on_start: Callable[[Run], None] | None = None

    def text_of(self, repo: Repo, workflow: str) -> str:
        found = repo.git.blob(repo.git.tip(repo.ref("main")) or "", f"{FOLDER}/{workflow}")
        if found is None:
            raise RefusedError(404, "Not Found")
        return found[1].decode()

    def start(self, repo: Repo, workflow: str, ref: str, inputs: dict[str, str]) -> Run:
        described = yaml.safe_load(self.text_of(repo, workflow))
        if not repo.git.tip(repo.ref(ref)):
            raise RefusedError(422, f"No ref found for: {ref}")
        if workflow in self.disabled:
            raise RefusedError(422, "Cannot trigger a 'workflow_dispatch' on a disabled workflow")
        # YAML takes the word `on` for true.
        events = described.get(True) or described.get("on")
        trigger = events.get("workflow_dispatch", 0) if isinstance(events, dict) else 0
        if trigger == 0:
            raise RefusedError(422, "Workflow does not have 'workflow_dispatch' trigger")
        known = (trigger or {}).get("inputs", {})
        if stray := sorted(set(inputs) - set(known)):
            raise RefusedError(422, f"Unexpected inputs provided: {json.dumps(stray)}")
        for name, facts in known.items():
            if facts.get("required") and not inputs.get(name):
                raise RefusedError(422, f"Required input '{name}' not provided")
        if len(inputs) > MOST_INPUTS or len(json.dumps(inputs)) > MOST_CHARACTERS:
            raise RefusedError(422, "inputs are too large.")
        title = str(described["run-name"]).replace("${{ inputs.bench }}", inputs.get("bench", ""))
        run = Run(next(self.world.ids), repo, workflow, title, ref, inputs, hidden=self.lag)
        self.runs.append(run)
        if self.on_start is not None:
            self.on_start(run)
        return run

    def find(self, repo: Repo, number: int) -> Run:
        for run in self.runs:
            if run.id == number and run.repo is repo:
                return run
        raise RefusedError(404, "Not Found")

    def cancel(self, run: Run) -> None:
        if run.status == "completed":
            raise RefusedError(409, "Cannot cancel a workflow run that is completed.")
        run.end("cancelled")

    def upload(self, run: Run, files: dict[str, bytes], name: str = "hostside-bench") -> Artifact:
        made = Artifact(next(self.world.ids), name, zipped(files))
        run.artifacts.append(made)
        return made

    def tell(self, run: Run, action: str) -> None:
        """Deliver the webhook of a run that began or ended."""
        found = self.world.installation_of(run.repo)
        if found is None or self.world.deliver is None:
            return
        body = json.dumps(
            {
                "action": action,
                "workflow_run": shape(self.world, run),
                "repository": repository(self.world, run.repo),
                "installation": {"id": found.id},
                "sender": user(self.world, self.world.bot),
            }
        ).encode()
        made = Delivery(
            next(self.world.ids), str(uuid.uuid4()), "workflow_run", action, body, time.time(),
            installation=found.id, repository=run.repo.id,
        )  # fmt: skip
        self.world.deliveries.append(made)
        made.status_code = self.world.deliver(made)


_ALL: WeakKeyDictionary[World, Actions] = WeakKeyDictionary()


def actions_of(world: World) -> Actions:
    """The Actions of this world."""
    return _ALL.setdefault(world, Actions(world))


def zipped(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def _at(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shape(world: World, run: Run) -> dict[str, Any]:
    """A run as GitHub's description has it."""
    api = f"{world.url}/repos/{run.repo.full_name}/actions/runs/{run.id}"
    links = ("jobs", "logs", "check_suite", "cancel", "rerun", "artifacts", "workflow")
    return {
        "id": run.id,
        "name": "hostside gpu-bench",
        "node_id": node("WR", run.id),
        "head_branch": run.branch,
        "head_sha": run.repo.git.tip(run.repo.ref(run.branch)),
        "path": f"{FOLDER}/{run.workflow}@{run.branch}",
        "run_number": 1,
        "event": run.event,
        "status": run.status,
        "conclusion": run.conclusion,
        "display_title": run.title,
        "workflow_id": run.repo.id,
        "url": api,
        "html_url": f"{world.url}/{run.repo.full_name}/actions/runs/{run.id}",
        "pull_requests": [],
        "created_at": _at(run.created),
        "updated_at": _at(run.created),
        "head_commit": None,
        "repository": repository(world, run.repo),
        "head_repository": repository(world, run.repo),
        **{f"{name}_url": f"{api}/{name}" for name in links},
    }


def artifact_shape(world: World, run: Run, it: Artifact) -> dict[str, Any]:
    api = f"{world.url}/repos/{run.repo.full_name}/actions/artifacts/{it.id}"
    return {
        "id": it.id,
        "node_id": node("AR", it.id),
        "name": it.name,
        "size_in_bytes": len(it.content) if it.said_size is None else it.said_size,
        "url": api,
        "archive_download_url": f"{api}/zip",
        "expired": it.expired,
        "created_at": _at(run.created),
        "expires_at": _at(run.created + 7 * 86_400),
        "updated_at": _at(run.created),
    }
