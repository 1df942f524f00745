"""What is to be done, as values: the jobs that a delivery asks for, and those it makes needless."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

REVIEW_QUEUE, GPU_QUEUE = "review", "gpu"


class Kind(enum.StrEnum):
    """What a job does."""

    REVIEW = "review"
    COMMAND = "command"
    BENCH = "bench"  # bring the comment of a benchmark up to date
    WATCH = "watch"  # look at the workflow run that measures one


class State(enum.StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    DROPPED = "dropped"  # needless: superseded, closed, a draft, paused
    PARKED = "parked"  # given up after several attempts; a person may run it again


@dataclass(frozen=True)
class JobSpec:
    """A job to be queued; the same key twice is the same job."""

    key: str
    kind: Kind
    repo: str  # owner/name
    number: int
    installation: int
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    stamp: str = ""
    queue: str = REVIEW_QUEUE
    anew: bool = False  # to be done again even when it was done

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return json.dumps(dict(self.arguments), sort_keys=True)


@dataclass(frozen=True)
class Drop:
    """Queued reviews that nobody needs any more."""

    reason: str
    installation: int
    repo: str = ""  # empty: every repository of the installation
    number: int = 0  # 0: every pull request
    until: str = ""  # only what GitHub says happened before; empty: all


@dataclass(frozen=True)
class Work:
    """All that follows from one delivery."""

    jobs: tuple[JobSpec, ...] = ()
    drops: tuple[Drop, ...] = ()


NOTHING = Work()


@dataclass(frozen=True)
class Delivery:
    """A webhook delivery, verified and understood."""

    id: str
    event: str
    action: str
    work: Work


@dataclass(frozen=True)
class Job:
    """A job in hand; whoever holds its lease may finish it."""

    id: int
    key: str
    kind: Kind
    repo: str
    number: int
    installation: int
    arguments: Mapping[str, Any]
    attempts: int
    lease: str
    delivery: str

    @property
    def subject(self) -> str:
        """The pull request as people write it."""
        return f"{self.repo}#{self.number}"


@dataclass(frozen=True)
class Bell:
    """A job that somebody should look at now."""

    job: int
    queue: str


@dataclass(frozen=True)
class Parked:
    """A job that was given up."""

    id: int
    key: str
    outcome: str
    attempts: int
