"""The parent's end of the conversation with a harness: every answer is checked before it is used.

The other end is a stranger's process. Nothing it says about time is asked for; what it says about
values is plain bytes; and every sentence of it is stripped of whatever a terminal would act on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpu_runner.compare import Output
from gpu_runner.errors import RunnerError
from gpu_runner.frames import Header
from gpu_runner.plain import one_line
from gpu_runner.select import Benchmark
from gpu_runner.session import Reply, Session

Short = Annotated[str, Field(max_length=2_000)]
Pair = Annotated[list[Short], Field(min_length=2, max_length=2)]
Model = TypeVar("Model", bound="_Answer")
BENCHES = "/bench"


class HarnessError(RunnerError):
    """The code under test raised, or its harness could not do what was asked."""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class Hello(_Answer):
    """The interpreter and libraries of the process."""

    python: Short
    system: Short
    packages: Annotated[list[Pair], Field(max_length=100)]
    by_driver: bool


class CaseFacts(_Answer):
    """One benchmark with one set of parameters, as its file declares it."""

    name: Short
    parameters: Annotated[list[Pair], Field(max_length=50)] = []
    tolerance: Annotated[float, Field(ge=0, le=1e6)] | None = None
    mutates: Annotated[list[Short], Field(max_length=100)] = []
    target: Short | None = None
    checked: bool = False


class _Cases(_Answer):
    cases: Annotated[list[CaseFacts], Field(max_length=1_000)]


class _Digests(_Answer):
    inputs: Annotated[list[Pair], Field(max_length=1_000)]


class _Collected(_Answer):
    output: dict[str, Any]
    changed: Annotated[list[Short], Field(max_length=1_000)]
    threads: Annotated[int, Field(ge=0, le=1 << 20)]
    checked: bool | None = None


class _Touched(_Answer):
    functions: Annotated[dict[Short, list[int]], Field(max_length=50_000)]


class Farewell(_Answer):
    """What a process says when it is told to go."""

    peak: Annotated[int, Field(ge=0, le=1 << 60)]
    source: Literal["torch", "host"]


class _Left(_Answer):
    failed: Short | None = None


@dataclass(frozen=True)
class Collected:
    """The last call's output with the arguments it changed."""

    output: Output
    changed: tuple[str, ...]
    threads: int
    checked: bool | None
    waited_ns: int


@dataclass
class Conversation:
    """Asks one harness, one thing at a time."""

    session: Session
    _kind: str = field(default="", init=False)

    def hello(self) -> Hello:
        """Who is there."""
        return self._checked(Hello, self._ask({"op": "hello"}))

    def cases(self, benchmark: Benchmark, modelled: bool = False) -> list[CaseFacts]:
        """The cases in the benchmark's file: one per function and set of parameters."""
        asked = {"op": "list", **self._file(benchmark)}
        if modelled:
            asked["kind"] = "model"
        return self._checked(_Cases, self._ask(asked)).cases

    def model(self, benchmark: Benchmark, index: int) -> bytes:
        """The recording, as JSON, of one program on the stream model."""
        return self._ask({"op": "model", **self._file(benchmark), "index": index}).payload

    def open(self, benchmark: Benchmark, name: str, index: int) -> CaseFacts:
        """Loads one case; pytest tests by name, the others by their place in the file."""
        self._kind = benchmark.kind
        asked = {"op": "open", **self._file(benchmark), "name": name, "index": index}
        return self._checked(CaseFacts, self._ask(asked))

    def prepare(self, seeds: list[int]) -> int:
        """Makes fresh inputs for these seeds; how long that took in nanoseconds."""
        return self._ask({"op": "prepare", "seeds": seeds}).waited_ns

    def run(self, calls: int) -> int:
        """Runs the case and waits for the device; the time on our clock, pipe included."""
        return self._ask({"op": "run", "calls": calls}).waited_ns

    def digest(self) -> tuple[tuple[str, str], ...]:
        """Names and fingerprints of the first prepared input's arguments."""
        told = self._checked(_Digests, self._ask({"op": "digest"}))
        return tuple((one_line(name, 200), mark) for name, mark in told.inputs)

    def collect(self, inputs: bool) -> Collected:
        """The last output and, if asked for, the arguments that differ from before."""
        reply = self._ask({"op": "collect", "inputs": inputs})
        told = self._checked(_Collected, reply)
        changed = tuple(one_line(name, 200) for name in told.changed)
        output = Output(told.output, reply.payload)
        return Collected(output, changed, told.threads, told.checked, reply.waited_ns)

    def touched(self) -> dict[str, list[int]]:
        """First lines, by file, of every function that one call executes."""
        return self._checked(_Touched, self._ask({"op": "touch"})).functions

    def trace(self, warm_up: int, calls: int, lines: bool = False) -> bytes:
        """A gzipped Kineto trace of some calls; `lines`: with the lines that ran noted in it."""
        wanted = {"op": "trace", "warm_up": warm_up, "calls": calls, "lines": lines}
        return self._ask(wanted).payload

    def leave(self) -> Farewell:
        """Lets the test around the benchmark end, if there is one, and then the process."""
        if self._kind == "pytest-benchmark":
            failed = self._checked(_Left, self._ask({"op": "leave"})).failed
            if failed:
                raise HarnessError(one_line(failed))
        return self._checked(Farewell, self._ask({"op": "close"}))

    def _file(self, benchmark: Benchmark) -> dict[str, str]:
        root = self.session.box.seen_at(BENCHES)
        return {"kind": benchmark.kind, "file": f"{root}/{benchmark.path}", "root": root}

    def _ask(self, header: Header) -> Reply:
        reply = self.session.ask(header)
        error = reply.header.get("error")
        if error is not None:
            raise HarnessError(one_line(str(error)))
        return reply

    def _checked(self, model: type[Model], reply: Reply) -> Model:
        try:
            return model.model_validate(reply.header)
        except ValidationError:
            raise HarnessError("the harness gave an answer that makes no sense") from None
