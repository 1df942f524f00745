"""A pull request on the stand-in, and the bot's side of it, for tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bot import config
from bot.github import Access, connect
from bot.github_turns import MemoryTurns
from bot.lifecycle import plan
from bot.pulls import Plan, Posted, PullClient, PullRef
from bot.review import Review, build_review
from tests.standin.model import Installation, LineComment, Pull, Repo
from tests.standin.running import Running, running
from tests.standin.world import APP_ID, World

BASE = """\
import torch


def train(model, steps):
    for step in range(steps):
        model(step)


def evaluate(model, steps):
    return [model(step) for step in range(steps)]
"""
HEAD = """\
import torch


def train(model, steps):
    for step in range(steps):
        mask = torch.zeros(16, 16).cuda()
        model(mask)


def evaluate(model, steps):
    weight = torch.ones(64).cuda()
    return [model(weight) for step in range(steps)]
"""
CLEAN = HEAD.replace("zeros(16, 16).cuda()", 'zeros(16, 16, device="cuda")').replace(
    "ones(64).cuda()", 'ones(64, device="cuda")'
)


@dataclass
class Scene:
    """One repository, one pull request, one installation."""

    running: Running
    repo: Repo
    pull: Pull
    installation: Installation
    access: Access

    @property
    def world(self) -> World:
        return self.running.world

    @property
    def ref(self) -> PullRef:
        """The pull request as a webhook would name it now."""
        return PullRef(
            "acme", "train", self.pull.number, self.pull.base_sha, self.pull.head_sha,
            self.installation.id,
        )  # fmt: skip

    def client(self, **changes: object) -> PullClient:
        access = replace(self.access, **changes) if changes else self.access
        return connect(access, self.installation.id, repository="acme/train")

    def review(self, ref: PullRef | None = None) -> tuple[Review, Plan, Posted]:
        """What a job does from start to end."""
        client, ref = self.client(), ref or self.ref
        try:
            settings = config.load(client.reader(ref))
            review = build_review(client.changed_files(ref), settings)
            todo = plan(review, client.earlier(ref), ref)
            return review, todo, client.post(ref, todo)
        finally:
            client.close()

    @property
    def comments(self) -> list[LineComment]:
        """The bot's comments on lines and files."""
        return [c for c in self.world.comments_on(self.pull) if c.user is self.world.bot]


@contextmanager
def scene(
    directory: Path,
    base: dict[str, str | bytes | None] | None = None,
    head: dict[str, str | bytes | None] | None = None,
    **options: object,
) -> Iterator[Scene]:
    """A running stand-in with an open pull request; fails if anything broke GitHub's contract."""
    with running(directory / "standin") as stand_in:
        world = stand_in.world
        repo = world.repository("acme/train", base or {"train.py": BASE})
        installation = world.install([repo])
        pull = world.open_pull(repo, head or {"train.py": HEAD}, **options)
        repo.roles["lead"] = "write"
        world.user("lead")
        access = Access(
            api_url=world.url,
            app_id=str(APP_ID),
            private_key=world.private_key,
            timeout=10.0,
            turns=MemoryTurns(),
            write_gap=0.005,
            patience=3.0,
        )
        yield Scene(stand_in, repo, pull, installation, access)
        assert not stand_in.complaints, "\n".join(stand_in.complaints)[:4000]


@contextmanager
def quiet_scene(directory: Path) -> Iterator[Scene]:
    """The same for connections that break off on purpose: the stand-in's log says nothing."""
    logging.disable(logging.CRITICAL)
    with scene(directory) as made:
        yield made
    logging.disable(logging.NOTSET)
