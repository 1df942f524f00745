"""A benchmark on its way from a comment to numbers, as values: what was asked, where it stands."""

from __future__ import annotations

import enum
import json
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Self


class Stage(enum.StrEnum):
    """Where a benchmark stands."""

    QUEUED = "queued"
    PREPARING = "preparing"  # a machine took it, and fetches and builds
    RUNNING = "running"
    DONE = "done"  # its report is there
    FAILED = "failed"  # `problem` says why and what helps
    CANCELLED = "cancelled"  # by a person, by a newer push, by a closed pull request


ACTIVE = (Stage.QUEUED, Stage.PREPARING, Stage.RUNNING)
HELD = (Stage.PREPARING, Stage.RUNNING)  # a machine has it


class Way(enum.StrEnum):
    """How a GPU is reached."""

    RUNNER = "runner"  # `hostside gpu-runner`
    WORKFLOW = "workflow"  # a dispatched workflow on a self-hosted Actions runner


@dataclass(frozen=True)
class Order:
    """What somebody asked to have measured; nothing in it changes afterwards."""

    repo: str  # owner/name
    number: int
    installation: int
    base_sha: str
    head_sha: str  # the head when the comment was written
    author: str
    comment: int = 0  # the comment that asked; 0: the check run's button
    on_line: bool = False
    targets: tuple[str, ...] = ()
    rounds: int = 0  # 0: the protocol's default
    gpu: str = ""  # label; empty: any machine
    suggestion: str = ""  # what the third variant is, in words; empty: there is none
    patch: str = ""  # unified diff on the head
    fingerprints: tuple[str, ...] = ()  # of the findings whose suggestions the patch holds
    paths: tuple[str, ...] = ()  # where else benchmarks are, by the base's configuration
    way: Way = Way.RUNNER
    workflow: str = ""  # file name of the workflow that is dispatched

    @property
    def text(self) -> str:
        """This order as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The order that `text` gave."""
        said: dict[str, Any] = json.loads(text)
        lists = {name: tuple(said[name]) for name in ("targets", "fingerprints", "paths")}
        return replace(cls(**said), way=Way(said["way"]), **lists)


@dataclass(frozen=True)
class Progress:
    """How far a running benchmark is."""

    done: int = 0  # processes that have run
    total: int = 0  # of at most so many; 0: not known yet
    doing: str = ""
    seconds_left: float = 0.0  # 0: not known

    @property
    def text(self) -> str:
        """This progress as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The progress that `text` gave."""
        return cls(**json.loads(text)) if text else cls()


@dataclass(frozen=True)
class BenchState:
    """A benchmark as the table has it."""

    id: int
    token: str  # 32 hex digits that nobody can guess: its name in addresses and workflow runs
    order: Order
    stage: Stage
    progress: Progress
    problem: str  # of FAILED and CANCELLED: one sentence with the way out
    runner: str  # the machine's name, or the workflow run's address
    external: int  # the workflow run's number; 0: none
    attempts: int
    created: float  # seconds since 1970, as the next two
    started: float
    finished: float
    version: int  # counts what was worth saying
    has_report: bool

    @property
    def active(self) -> bool:
        """Whether it may still come to a result."""
        return self.stage in ACTIVE

    @property
    def subject(self) -> str:
        """The pull request as people write it."""
        return f"{self.order.repo}#{self.order.number}"


@dataclass(frozen=True)
class Leased:
    """A benchmark in the hands of the machine that knows the lease."""

    bench: BenchState
    lease: str
    seconds: float  # until it counts as lost, unless renewed


@dataclass(frozen=True)
class Refused:
    """Why an order was not taken: one sentence with the way out."""

    why: str
    standing: BenchState | None = None  # the benchmark that is in the way


@dataclass(frozen=True)
class Quota:
    """How many benchmarks may be asked for within 24 hours; 0: as many as they like."""

    repository: int = 50
    person: int = 20


@dataclass(frozen=True)
class RunnerState:
    """A machine that measures, as it last reported."""

    name: str
    labels: tuple[str, ...]
    device: str  # what it measures on, in words
    seen: float  # seconds since 1970


NO_RUNNER_SECONDS = 90.0  # silence after which a runner counts as offline
MOST_QUEUED_SECONDS = 3600.0  # an order that waited longer is given up
RUN_TITLE = "hostside gpu-bench {}"  # a workflow run's name; by the token in it it is found again
RUN_PATTERN = re.compile(r"hostside gpu-bench ([0-9a-f]{32})\Z")


def watch_key(token: str) -> str:
    """What makes two looks at a benchmark's workflow run the same job."""
    return f"watch:{token}"
