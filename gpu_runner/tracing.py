"""The trace pass: separate processes, a few calls under the profiler, never a source of times."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from gpu_runner.conversation import Conversation
from gpu_runner.gate import Subject
from gpu_runner.records import Link, Protocol, Round, Site, TraceSummary, Variant
from gpu_runner.stats import samples_of
from gpu_runner.timeline import text_timeline, track_of
from gpu_runner.trace.events import Trace
from gpu_runner.trace.metrics import DeviceMetrics, device_metrics
from gpu_runner.trace.read import read_trace
from gpu_runner.trace.report import device_json
from gpu_runner.trace.sites import sites_of
from gpu_runner.tracks import lanes_of

REGION = "gpu_bench_region"
WARM_UP = 2
LONGEST_TIMELINE = 16_000


def trace_once(
    talk: Conversation, subject: Subject, protocol: Protocol, seed: int, lines: bool = False
) -> bytes:
    """The Kineto trace of one pass in this process; `lines`: that which tells where waits are."""
    talk.open(subject.benchmark, subject.facts.name, subject.index)
    talk.prepare([seed + index for index in range(WARM_UP + protocol.traced_calls)])
    packed = talk.trace(WARM_UP, protocol.traced_calls, lines)
    talk.leave()
    return packed


def summarised(
    packed: bytes, variant: Variant, number: int, rounds: Sequence[Round], calls: int
) -> TraceSummary:
    """The pass's numbers under the names of `hostside trace`, with its timeline."""
    metrics = device_metrics(_read(packed), region=REGION)[0]
    return summary_of(metrics, variant, number, _ratio(metrics, variant, rounds, calls))


def sites(packed: bytes) -> tuple[Site, ...]:
    """The lines that ran in a pass which notes them, with the waits at each."""
    return sites_of(_read(packed))


def _read(packed: bytes) -> Trace:
    with tempfile.NamedTemporaryFile(suffix=".json.gz") as file:
        file.write(packed)
        file.flush()
        return read_trace(Path(file.name), REGION)


def summary_of(
    metrics: DeviceMetrics, variant: Variant, number: int, wall_ratio: float | None = None
) -> TraceSummary:
    """One device's metrics as the record that travels in a report."""
    numbers: dict[str, Any] = device_json(metrics)
    known = {each.name for each in fields(TraceSummary)}
    taken = {key: value for key, value in numbers.items() if key in known}
    track = track_of(metrics, f"{variant}, pass {number + 1}")
    taken.update(variant=variant, traced_pass=number, wall_ratio=wall_ratio)
    taken.update(timeline=text_timeline([track])[:LONGEST_TIMELINE])
    taken.update(length_ns=track.length, lanes=lanes_of(track))
    taken["kernel_copy_overlap_us"] = taken.get("kernel_copy_overlap_us") or 0.0
    return TraceSummary(**taken)


def least_ns(traces: Sequence[TraceSummary], link: Link | None, calls: int) -> float | None:
    """The least time per call that the copies need at the link's measured rates, if known.

    Of all variants the least one: a variant may well copy less than another.
    """
    if link is None or not link.h2d_gb_per_s or not link.d2h_gb_per_s or not traces:
        return None
    needs = (
        max(
            (each.h2d_gb_per_s or 0.0) * each.h2d_busy_us / link.h2d_gb_per_s,
            (each.d2h_gb_per_s or 0.0) * each.d2h_busy_us / link.d2h_gb_per_s,
        )
        for each in traces
    )
    return min(needs) * 1000 / calls or None


def _ratio(
    metrics: DeviceMetrics, variant: Variant, rounds: Sequence[Round], calls: int
) -> float | None:
    """How much longer a call took under the profiler than without it."""
    samples = samples_of(rounds, variant)
    untraced = statistics.median(samples) if samples else 0.0
    return metrics.region / calls / untraced if untraced else None
