"""What goes into a benchmark, what comes out of it, and what may be said about it.

`BenchRequest` names commits, targets and limits; `BenchRun` holds every sample, the environment
and the traces; `BenchReport` holds the run and the comparisons drawn from it. All three are frozen
and travel as versioned JSON that is read as hostile input (`from_json`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from gpu_runner.records import (
    Backend,
    Correctness,
    Device,
    Environment,
    Limits,
    Protocol,
    Round,
    TraceSummary,
    Variant,
    Verdict,
)
from gpu_runner.wire import (
    Amount,
    Count,
    Label,
    Message,
    Number,
    Record,
    Sentence,
    Sha,
    Share,
    Text,
)

Version = Annotated[int, Field(ge=1, le=1)]


@dataclass(frozen=True)
class BenchRequest(Message):
    """Which commits to compare, on what, and how far to go."""

    repository: Label
    base: Sha
    head: Sha
    targets: Annotated[tuple[Label, ...], Field(max_length=100)] = ()
    patch: Annotated[str, Field(max_length=1 << 20)] | None = None
    backend: Backend = Backend.AUTO
    benchmarks_from: Literal["head", "base"] = "head"
    sandbox: Literal["auto", "bubblewrap", "container", "none"] = "auto"
    protocol: Protocol = field(default_factory=Protocol)
    limits: Limits = field(default_factory=Limits)
    identifier: Label | None = None
    gpu: Label | None = None
    paths: Annotated[tuple[Label, ...], Field(max_length=100)] = ()  # besides gpu_bench folders
    version: Version = 1

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The trees to build: the suggestion only when a patch was given."""
        both = (Variant.BASE, Variant.HEAD)
        return both if self.patch is None else (*both, Variant.SUGGESTION)


@dataclass(frozen=True)
class Build(Record):
    """One variant's tree: its commit, and why it could not be built if it could not."""

    variant: Variant
    commit: Sha
    patched: bool = False
    lock_differs: bool = False
    problem: Sentence | None = None


@dataclass(frozen=True)
class BenchmarkRun(Record):
    """Everything recorded for one benchmark with one set of parameters."""

    name: Label
    source: Literal["gpu_bench", "pytest-benchmark", "asv", "model"]
    parameters: tuple[tuple[Label, Sentence], ...] = ()
    variants: Annotated[tuple[Variant, ...], Field(min_length=1, max_length=3)] = (
        Variant.BASE,
        Variant.HEAD,
    )
    correctness: Annotated[tuple[Correctness, ...], Field(max_length=3)] = ()
    rounds: Annotated[tuple[Round, ...], Field(max_length=80)] = ()
    traces: Annotated[tuple[TraceSummary, ...], Field(max_length=20)] = ()
    least_ns: Amount | None = None
    alarms: Annotated[tuple[Sentence, ...], Field(max_length=50)] = ()
    stopped: Sentence | None = None
    problem: Sentence | None = None
    log: Text | None = None

    @property
    def kept_rounds(self) -> tuple[Round, ...]:
        """Rounds that count: those no throttling or failure has spoilt."""
        return tuple(each for each in self.rounds if each.discarded is None)

    @property
    def correct(self) -> bool:
        """True when every variant other than the base was checked and nothing failed."""
        checked = {each.variant for each in self.correctness} | {Variant.BASE}
        return checked.issuperset(self.variants) and all(each.passed for each in self.correctness)


@dataclass(frozen=True)
class BenchRun(Message):
    """All samples of a request, with the machine they were taken on."""

    request: BenchRequest
    backend: Literal[Backend.CUDA, Backend.CPU, Backend.MODEL]
    started: Label
    seconds: Amount
    environment: Environment
    device: Device | None = None
    builds: Annotated[tuple[Build, ...], Field(max_length=3)] = ()
    benchmarks: Annotated[tuple[BenchmarkRun, ...], Field(max_length=500)] = ()
    notes: Annotated[tuple[Sentence, ...], Field(max_length=100)] = ()
    problem: Sentence | None = None
    offer: Text | None = None  # a ready-made benchmark file where no benchmark was found
    version: Version = 1

    def __post_init__(self) -> None:
        if self.device is not None and self.device.kind != self.backend:
            raise ValueError(
                f"the device record is of kind {self.device.kind}, the backend is {self.backend}"
            )

    @property
    def basis(self) -> Literal["measured", "modelled", "unattested"]:
        """The word that may stand before this run's numbers; measured needs a device record."""
        if self.backend == Backend.MODEL:
            return "modelled"
        return "measured" if self.device is not None else "unattested"

    @property
    def overlap_measured(self) -> bool:
        """Whether copy/compute overlap can be spoken of at all: a CPU has none."""
        return self.backend == Backend.CUDA and self.device is not None


@dataclass(frozen=True)
class Interval(Record):
    """Paired log-ratio interval of variant over baseline: below zero is faster.

    `confidence` holds over all `looks` at the data together; `detectable` is the smallest relative
    change that these rounds would have shown four times in five.
    """

    log_ratio: Number
    low: Number
    high: Number
    rounds: Count
    deviation: Amount
    detectable: Amount
    p_value: Share
    confidence: Share = 0.95
    looks: Count = 1


@dataclass(frozen=True)
class Latency(Record):
    """Percentiles of all kept samples of one variant, in nanoseconds per call."""

    variant: Variant
    p50_ns: Amount
    p90_ns: Amount
    samples: Count


@dataclass(frozen=True)
class Comparison(Record):
    """What is said about one variant of one benchmark against its baseline, and why."""

    benchmark: Label
    variant: Variant
    baseline: Variant
    verdict: Verdict
    because: Sentence
    interval: Interval | None = None
    adjusted_p: Share | None = None
    latencies: Annotated[tuple[Latency, ...], Field(max_length=2)] = ()


@dataclass(frozen=True)
class Overlap(Record):
    """Copy/compute overlap of one variant, as the range over its traced passes.

    The verdict is None when the numbers stand, and INCOMPLETE TRACE when there are none to give.
    """

    benchmark: Label
    variant: Variant
    because: Sentence
    verdict: Verdict | None = None
    low_percent: Amount | None = None
    high_percent: Amount | None = None
    ceiling_low_percent: Amount | None = None
    ceiling_high_percent: Amount | None = None


@dataclass(frozen=True)
class BenchReport(Message):
    """The run, its comparisons, and the headlines: head over base, suggestion over head."""

    run: BenchRun
    comparisons: Annotated[tuple[Comparison, ...], Field(max_length=2_000)] = ()
    overlaps: Annotated[tuple[Overlap, ...], Field(max_length=2_000)] = ()
    headline: Verdict = Verdict.INCONCLUSIVE
    suggestion_headline: Verdict | None = None
    summary: Sentence = ""
    version: Version = 1

    @property
    def basis(self) -> Literal["measured", "modelled", "unattested"]:
        """The word that may stand before this report's numbers."""
        return self.run.basis

    def comparison(self, benchmark: str, variant: Variant) -> Comparison | None:
        """What was found for that benchmark and variant against the base, if anything."""
        for each in self.comparisons:
            if (each.benchmark, each.variant, each.baseline) == (benchmark, variant, Variant.BASE):
                return each
        return None


if __name__ == "__main__":  # writes the published schema: python -m gpu_runner.models
    import json
    from pathlib import Path

    target = Path(__file__).parent.parent / "docs" / "schema" / "bench.schema.json"
    target.write_text(json.dumps(BenchReport.schema(), indent=1) + "\n")
