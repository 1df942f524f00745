"""What a runner and the service say to each other: names and shapes, the same on both sides."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.bench_work import Progress
from bot.errors import BotError
from gpu_runner.wire import Sentence

PROTOCOL = 1  # counts the changes that an older side would not understand
LEASE = "Hostside-Lease"  # header
IDLE_SECONDS = 30.0  # an idle runner asks at least this often
BEAT_SECONDS = 5.0  # at most; a sixth of the lease where that is less
LARGEST_WORD = 16 << 10  # bytes of everything but results and files

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Words = Annotated[str, Field(max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]
T = TypeVar("T", bound="Said")


class WireError(BotError):
    """The other side said something that makes no sense."""


class Said(BaseModel):
    """One message."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @classmethod
    def read(cls: type[T], data: bytes | str) -> T:
        """The message in this JSON; a WireError names the field that is wrong."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"][:4]) or "the message"
            raise WireError(f"{place[:80]}: {first['msg'][:200]}") from None


class Claim(Said):
    """An idle runner asks for work, and says by it that it is there."""

    name: Name
    labels: Annotated[tuple[Name, ...], Field(max_length=20)] = ()
    device: Words = ""
    wants: bool = True  # false: it only says that it is there
    protocol: int = 0
    version: Words = ""


class Lent(Said):
    """A benchmark for it."""

    bench: Annotated[int, Field(gt=0)]
    lease: str
    seconds: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    request: dict[str, Any]


class Beat(Said):
    """A runner is at work; without progress it still prepares."""

    done: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    total: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    doing: Words = ""
    seconds_left: Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)] = 0.0
    running: bool = False

    @property
    def progress(self) -> Progress | None:
        """How far it is, once it runs."""
        if not self.running:
            return None
        return Progress(self.done, self.total, self.doing, self.seconds_left)


class Answer(Said):
    """What the service says to everything else."""

    go_on: bool = True
    why: str = ""
    error: str = ""


class Trouble(Said):
    """Why a runner gives a benchmark up."""

    problem: Sentence
