"""The trace pass's numbers, held against the stream model that made the trace."""

from __future__ import annotations

import gzip
import json

import pytest

from gpu_runner import founding
from gpu_runner.errors import RunnerError
from gpu_runner.model_trace import kineto
from gpu_runner.records import Link, Process, Round, Variant
from gpu_runner.tracing import least_ns, summarised

RING = founding.run("ring")
PACKED = gzip.compress(json.dumps(kineto(RING.recording)).encode())


def test_a_pass_is_summarised_under_the_names_of_the_trace_command() -> None:
    wall = float(RING.recording.wall_ns)
    rounds = (Round(0, (Process(Variant.HEAD, (wall / 2,)),)),)
    found = summarised(PACKED, Variant.HEAD, 1, rounds, calls=1)
    assert (found.variant, found.traced_pass, found.complete) == (Variant.HEAD, 1, True)
    assert found.copy_busy_us == pytest.approx(RING.summary.copy_busy_us)
    assert found.overlap_percent == pytest.approx(RING.summary.overlap_percent, abs=0.01)
    assert found.duplex_percent == pytest.approx(RING.summary.duplex_percent, abs=0.01)
    assert found.wall_ratio == pytest.approx(2.0, rel=0.01)
    assert found.timeline is not None
    assert "kernels" in found.timeline


def test_the_least_time_is_what_the_copies_need_at_the_measured_rates() -> None:
    found = summarised(PACKED, Variant.HEAD, 0, (), calls=1)
    moved = founding.Images().size * founding.Images().count
    least = least_ns([found], Link(25.0, 20.0, 40.0), calls=1)
    assert least == pytest.approx(moved / 20.0, rel=0.01)
    assert least_ns([found], None, calls=1) is None
    assert least_ns([], Link(25.0, 20.0), calls=1) is None


@pytest.mark.parametrize(
    "packed",
    [b"", b"not a trace", gzip.compress(b"{}")],
    ids=["empty", "no archive", "an archive of something else"],
)
def test_a_trace_that_is_none_is_one_sentence(packed: bytes) -> None:
    with pytest.raises(RunnerError):
        summarised(packed, Variant.HEAD, 0, (), calls=1)
