"""A run of the Action against the stand-in: the event's file, the runner's files, what came out."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.action import run
from bot.pool import run_here
from tests.github_scene import Scene, scene
from tests.standin.model import Pull, Token, User

EVENTS = Path(__file__).parent / "events"
READ = {"contents": "read", "metadata": "read", "pull_requests": "read"}
WRITE = READ | {"pull_requests": "write"}


@dataclass(frozen=True)
class Outcome:
    """What a step left."""

    code: int
    log: str
    outputs: dict[str, str]
    summary: str
    folder: Path  # the runner's temporary one

    @property
    def annotations(self) -> list[str]:
        return [line for line in self.log.splitlines() if line.startswith("::")]


@dataclass
class Stage:
    """A pull request, and the runner that looks at it."""

    github: Scene
    directory: Path
    runs: list[Outcome] = field(default_factory=list)

    @property
    def bot(self) -> User:
        """The account of every workflow's own token."""
        return self.github.world.user("github-actions[bot]", "Bot")

    def token(self, permissions: dict[str, str] | None = None) -> str:
        value = f"ghs_{next(self.github.world.ids)}_{'t' * 60}"
        granted = dict(WRITE if permissions is None else permissions)
        self.github.world.tokens[value] = Token(
            value, self.bot, granted, [self.github.repo], time.time() + 3600,
            self.github.installation,
        )  # fmt: skip
        return value

    def event(self, name: str, **changes: Any) -> Path:
        """The recorded event with this repository, its commits and these changes in it."""
        pull = self.github.pull
        known = {
            "acme/example": "acme/train",
            "HEAD_SHA": pull.head_sha,
            "BASE_SHA": pull.base_sha,
            "HEAD_BRANCH": pull.head_ref,
        }
        text = (EVENTS / f"{name}.json").read_text()
        for old, new in known.items():
            text = text.replace(old, new)
        payload = json.loads(text)
        payload.update(changes)
        file = self.directory / "event.json"
        file.write_text(json.dumps(payload))
        return file

    def environment(
        self,
        name: str,
        inputs: dict[str, str],
        permissions: dict[str, str] | None = None,
        **changes: Any,
    ) -> dict[str, str]:
        """What a runner sets for the step."""
        number = len(self.runs)
        folder = self.directory / f"runner {number}"
        workspace = self.directory / "work space"
        workspace.mkdir(exist_ok=True)
        folder.mkdir(exist_ok=True)
        given = {"token": self.token(permissions)} | inputs
        event = changes.pop("event", name)
        return {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.github.world.url,
            "GITHUB_SERVER_URL": self.github.world.url,
            "GITHUB_EVENT_NAME": name,
            "GITHUB_EVENT_PATH": str(self.event(event, **changes)),
            "GITHUB_REPOSITORY": "acme/train",
            "GITHUB_SHA": self.github.pull.head_sha,
            "GITHUB_WORKSPACE": str(workspace),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "RUNNER_TEMP": str(folder),
            "HOSTSIDE_WRITE_SECONDS": "0.002",
        } | {f"HOSTSIDE_INPUT_{k.upper().replace('-', '_')}": v for k, v in given.items()}

    def act(
        self,
        name: str = "pull_request",
        inputs: dict[str, str] | None = None,
        permissions: dict[str, str] | None = None,
        **changes: Any,
    ) -> Outcome:
        """Run the Action's entry point."""
        environment = self.environment(name, inputs or {}, permissions, **changes)
        out = io.StringIO()
        code = run(environment, out, run_here)
        self.runs.append(outcome(code, out.getvalue(), environment))
        return self.runs[-1]

    @property
    def comments(self) -> list[str]:
        """What stands at the lines of the pull request by the workflow's account."""
        found = self.github.world.comments_on(self.github.pull)
        return [c.body for c in found if c.user is self.bot]

    @property
    def summaries(self) -> list[str]:
        said = self.github.world.conversation(self.github.pull)
        return [c.body for c in said if c.user is self.bot]

    @property
    def reviews(self) -> list[str]:
        said = self.github.world.reviews_on(self.github.pull)
        return [f"{r.state}: {r.body}" for r in said if r.user is self.bot]

    def from_fork(self) -> Pull:
        """The same change, from a fork."""
        world, repo = self.github.world, self.github.repo
        from tests.github_scene import HEAD

        fork = world.fork(repo, "guest")
        self.github.pull = world.open_pull(repo, {"train.py": HEAD}, "guest", fork, "patch-1")
        return self.github.pull


def outcome(code: int, log: str, environment: dict[str, str]) -> Outcome:
    """What the step left in the runner's files."""

    def read(name: str) -> str:
        file = Path(environment[name])
        return file.read_text() if file.exists() else ""

    found = re.findall(r"(?ms)^([\w-]+)<<(\S+)\n(.*?)\n\2$", read("GITHUB_OUTPUT"))
    outputs = {name: value for name, _, value in found}
    folder = Path(environment["RUNNER_TEMP"])
    return Outcome(code, log, outputs, read("GITHUB_STEP_SUMMARY"), folder)


@contextmanager
def stage(directory: Path, **options: Any) -> Iterator[Stage]:
    """A running stand-in with an open pull request, and a runner."""
    with scene(directory, **options) as github:
        yield Stage(github, directory)
