"""A small project with mistakes whose fixes are one click, for tests of the service."""

from __future__ import annotations

from tests.standin.model import Pull, Repo
from tests.standin.world import World

CLEAN = """\
import torch


def ready(device):
    return torch.zeros(4, device=device)
"""
FAULTY = """\
import torch


def ready(device):
    return torch.zeros(4, device=device)


def first(n):
    return torch.zeros(n).cuda()


def second(n):
    return torch.ones(n, n).cuda()
"""
FINDINGS = 2  # of FAULTY, each with a suggestion


def repository(world: World, name: str = "acme/train") -> Repo:
    """A repository that has the App, and a writer called ada."""
    repo = world.repository(name, {"train.py": CLEAN, "README.md": "x\n"})
    repo.roles["ada"] = "write"
    world.install([repo])
    return repo


def open_faulty(world: World, repo: Repo, **options: object) -> Pull:
    """A pull request with the two mistakes."""
    number = 1 + sum(pull.repo is repo for pull in world.pulls)
    return world.open_pull(repo, {"train.py": FAULTY}, branch=f"faster-{number}", **options)


def marks(world: World, pull: Pull) -> list[str]:
    """The fingerprints of our comments on lines; one that occurs twice was posted twice."""
    ours = [c for c in world.comments_on(pull) if c.user is world.bot]
    return sorted(f"{c.path}:{c.body.rstrip().rpartition('<!-- ')[2]}" for c in ours)


def is_reviewed_once(world: World, pull: Pull) -> bool:
    """Whether exactly the right things stand on a pull request with FAULTY at its head."""
    found = marks(world, pull)
    summaries = [c for c in world.conversation(pull) if c.user is world.bot]
    reviews = [r for r in world.reviews_on(pull) if r.user is world.bot and r.body]
    checks = [c for c in world.checks_on(pull.head_sha) if c.name == "Hostside"]
    return (
        len(found) == len(set(found)) == FINDINGS
        and len(summaries) == len(checks) == 1
        and len(reviews) == 1
        and checks[0].conclusion == "failure"
    )
