"""The parts a benchmark's request, run and report are made of.

Times are integer nanoseconds while they are samples and microseconds (float) once they are
metrics of a trace. `None` always means "not measured here", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from gpu_runner.wire import Amount, Count, Label, Number, Positive, Record, Sentence, Share, Text

FEWEST_ROUNDS, MOST_ROUNDS = 2, 60


class Backend(StrEnum):
    """Where the benchmarked code runs; `auto` is only a request, never a result."""

    AUTO = "auto"
    CUDA = "cuda"
    CPU = "cpu"
    MODEL = "model"


class Variant(StrEnum):
    """Which tree a process ran: base, head, or head with the suggested patch."""

    BASE = "base"
    HEAD = "head"
    SUGGESTION = "suggestion"


class Verdict(StrEnum):
    """What may be said about one variant against another."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    NO_MEASURABLE_DIFFERENCE = "NO MEASURABLE DIFFERENCE"
    INCONCLUSIVE = "INCONCLUSIVE"
    WRONG_RESULT = "WRONG RESULT"
    SUSPICIOUS = "SUSPICIOUS"
    INCOMPLETE_TRACE = "INCOMPLETE TRACE"


@dataclass(frozen=True)
class Protocol(Record):
    """How a benchmark is measured; the defaults are those of the published method."""

    rounds: Annotated[int, Field(ge=FEWEST_ROUNDS, le=MOST_ROUNDS)] = 10
    most_rounds: Annotated[int, Field(ge=FEWEST_ROUNDS, le=MOST_ROUNDS)] = 20
    warm_up_calls: Annotated[int, Field(ge=0, le=1_000)] = 3
    warm_up_seconds: Annotated[float, Field(ge=0, le=60)] = 0.5
    calls: Annotated[int, Field(ge=1, le=10_000)] = 30
    seconds: Annotated[float, Field(gt=0, le=60)] = 0.5
    longest_seconds: Annotated[float, Field(gt=0, le=600)] = 5.0
    relevant_effect: Annotated[float, Field(ge=0, le=1)] = 0.02
    seeds: Annotated[int, Field(ge=1, le=20)] = 3
    trace_passes: Annotated[int, Field(ge=0, le=5)] = 2
    traced_calls: Annotated[int, Field(ge=1, le=50)] = 3


@dataclass(frozen=True)
class Limits(Record):
    """What the sandboxed processes may use before they are killed."""

    run_seconds: Annotated[float, Field(gt=0, le=86_400)] = 1_200.0
    process_seconds: Annotated[float, Field(gt=0, le=3_600)] = 120.0
    cpu_seconds: Annotated[int, Field(ge=1, le=36_000)] = 600
    memory_bytes: Positive = 8 << 30
    scratch_bytes: Positive = 2 << 30
    processes: Annotated[int, Field(ge=1, le=65_536)] = 512
    output_bytes: Positive = 1 << 20


@dataclass(frozen=True)
class Link(Record):
    """What the link between host and device was measured to carry, in GB/s (10⁹ bytes)."""

    h2d_gb_per_s: Amount | None = None
    d2h_gb_per_s: Amount | None = None
    both_gb_per_s: Amount | None = None
    generation: Count | None = None
    width: Count | None = None


@dataclass(frozen=True)
class Device(Record):
    """The hardware that ran the code; without one, nothing may be called measured."""

    kind: Literal["cuda", "cpu", "model"]
    name: Label
    identifier: Label | None = None
    driver: Label | None = None
    memory_bytes: Count | None = None
    cores: Count | None = None
    link: Link | None = None
    shared: bool = False
    persistence: bool | None = None
    ecc: bool | None = None
    mig: bool | None = None
    locked_clocks: bool | None = None


@dataclass(frozen=True)
class Environment(Record):
    """The software around the code: interpreter, libraries, and the variables that were set."""

    python: Label
    system: Label
    packages: tuple[tuple[Label, Label], ...] = ()
    variables: tuple[tuple[Label, Sentence], ...] = ()
    sandbox: Literal["bubblewrap", "container", "reduced", "none"] = "none"
    load: Amount | None = None


@dataclass(frozen=True)
class Clocks(Record):
    """State of the device while one process ran; throttled processes are discarded."""

    sm_mhz: Count | None = None
    default_sm_mhz: Count | None = None
    memory_mhz: Count | None = None
    temperature: Number | None = None
    watts: Amount | None = None
    reasons: Count = 0


@dataclass(frozen=True)
class Process(Record):
    """Samples of one fresh process: nanoseconds per call, each over `inner` calls."""

    variant: Variant
    samples_ns: Annotated[tuple[Amount, ...], Field(max_length=10_000)]
    inner: Positive = 1
    parent_ns: Count | None = None
    clocks: Clocks | None = None
    peak_memory_bytes: Count | None = None
    memory_source: Literal["torch", "cupy", "numba", "nvml sampled", "host"] | None = None


@dataclass(frozen=True)
class Round(Record):
    """One round: a process per variant, in the order in which they ran."""

    number: Count
    processes: Annotated[tuple[Process, ...], Field(max_length=6)]
    discarded: Sentence | None = None


@dataclass(frozen=True)
class Correctness(Record):
    """Whether a variant's outputs equal the base's; when not, no speed is printed."""

    variant: Variant
    passed: bool
    seeds: tuple[Count, ...] = ()
    reason: Sentence | None = None
    largest_absolute: Amount | None = None
    largest_relative: Amount | None = None
    repeat_difference: Amount | None = None
    inputs_changed: tuple[Label, ...] = ()
    checked_after_timing: bool = False


@dataclass(frozen=True)
class LaneSpans(Record):
    """When one kind of activity went on, in nanoseconds from the track's start; coarsened."""

    name: Label
    spans: Annotated[tuple[tuple[Count, Count], ...], Field(max_length=200)] = ()


@dataclass(frozen=True)
class Site(Record):
    """A line of the measured code: how often it ran in a pass, and what the host waited there."""

    path: Label
    line: Positive
    runs: Count
    waits: Count = 0
    wait_us: Amount = 0.0


@dataclass(frozen=True)
class TraceSummary(Record):
    """Device view of one traced pass, under the names that `hostside trace` prints."""

    variant: Variant
    traced_pass: Count
    region_us: Amount
    kernel_busy_us: Amount
    h2d_busy_us: Amount
    d2h_busy_us: Amount
    copy_busy_us: Amount
    kernel_copy_overlap_us: Amount
    exposed_copy_us: Amount
    gpu_idle_us: Amount
    no_kernel_us: Amount
    host_sync_us: Amount
    host_sync_stall_us: Amount
    overlap_percent: Amount | None = None
    overlap_ceiling_percent: Amount | None = None
    overlap_efficiency_percent: Amount | None = None
    duplex_percent: Amount | None = None
    h2d_gb_per_s: Amount | None = None
    d2h_gb_per_s: Amount | None = None
    pinned_share: Share | None = None
    launches: Count | None = None
    coverage: Share | None = None
    complete: bool = True
    wall_ratio: Amount | None = None
    timeline: Text | None = None
    length_ns: Count = 0  # of the track that the lanes lie in
    lanes: Annotated[tuple[LaneSpans, ...], Field(max_length=8)] = ()
    sites: Annotated[tuple[Site, ...], Field(max_length=2_000)] = ()  # of a pass of their own
