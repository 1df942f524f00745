"""Which part of a trace is measured.

Without a name it is everything from a device's first GPU event to its last: the profiler's own
wait at the stop, which begins after that, then counts as nobody's. With a name it is the time
covered by the ranges of that name, on the host's side where the file has them there.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from gpu_runner.errors import RunnerError
from gpu_runner.trace.events import GpuEvent, Trace
from gpu_runner.trace.intervals import Intervals, hull, union


def whole_scope(events: Sequence[GpuEvent]) -> Intervals:
    """From the first start to the last end."""
    return hull(union((event.start, event.end) for event in events))


def named_scope(trace: Trace, name: str) -> Intervals:
    """The time covered by the ranges called `name` (or matching it as a pattern)."""
    hosts = [entry for entry in trace.annotations if not entry.on_gpu]
    found = union((entry.start, entry.end) for entry in hosts or trace.annotations)
    if found:
        return found
    if not trace.region_names:
        raise RunnerError(f"{trace.source} has no named regions, so leave --region out")
    near = difflib.get_close_matches(name, trace.region_names, n=3, cutoff=0.5)
    listed = ", ".join(f"`{entry}`" for entry in near or trace.region_names[:5])
    raise RunnerError(f"{trace.source} has no region `{name}`; there are {listed}")
