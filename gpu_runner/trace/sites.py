"""Which lines of the project ran in a trace, and for how long the host waited at each.

Only what one thread did is told: the one whose lines were noted. A call lies within its line, but
the notes and the profiler have clocks of their own: where those decide, nothing is said.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpu_runner.records import Site
from gpu_runner.trace.events import HostCall, LineRun, Role, Trace
from gpu_runner.trace.host import waits_implicitly
from gpu_runner.trace.quality import key_of

SLACK = 20_000  # ns by which the two clocks may differ
MOST = 2_000  # lines; those with waits come first


@dataclass
class _Line:
    runs: int = 0
    waits: int = 0
    waited: int = 0  # ns
    doubtful: bool = field(default=False)  # something blocked that may have been a wait


def sites_of(trace: Trace) -> tuple[Site, ...]:
    """Each line that ran; nothing when the file does not tell whose calls were whose."""
    regions = [each for each in trace.annotations if not each.on_gpu]
    if len(regions) != 1 or not trace.lines or trace.partial:
        return ()
    start = regions[0].start
    runs = sorted(run._replace(start=run.start + start, end=run.end + start) for run in trace.lines)
    found: dict[tuple[str, int], _Line] = defaultdict(_Line)
    for run in runs:
        found[run.path, run.line].runs += 1
    if not _attribute(trace, runs, found):
        return ()
    ordered = sorted(found.items(), key=lambda each: (-each[1].waited, each[0]))
    return tuple(
        Site(path, line, known.runs, known.waits, known.waited / 1000)
        for (path, line), known in ordered
        if known.waits or not known.doubtful
    )[:MOST]


def _attribute(trace: Trace, runs: Sequence[LineRun], found: dict[tuple[str, int], _Line]) -> bool:
    """Give each wait to its line; whether any call was made while lines were noted."""
    works = {key_of(event): event for event in trace.events if event.correlation >= 0}
    ends = [run.end for run in runs]  # ascending, as they follow each other
    given = False
    for call in trace.calls:
        near = _near(runs, ends, call)
        given = given or bool(near)
        waits = call.role is Role.WAIT or waits_implicitly(call, works.get(key_of(call)))
        if not near or not (waits or call.role in (Role.ALLOCATE, Role.COPY)):
            continue
        best = max(near, key=lambda run: _shared(run, call))
        long = waits and call.end - call.start > SLACK
        sure = long and _shared(best, call) >= call.end - call.start - SLACK
        for run in near:
            line = found[run.path, run.line]
            if sure and run is best:
                line.waits += 1
                line.waited += call.end - call.start
            else:
                line.doubtful = True
    return given


def _near(runs: Sequence[LineRun], ends: Sequence[int], call: HostCall) -> list[LineRun]:
    """The lines that ran about when this call was made, in its thread."""
    found: list[LineRun] = []
    for place in range(bisect.bisect_left(ends, call.start - SLACK), len(runs)):
        run = runs[place]
        if run.start > call.end + SLACK:
            break
        if run.thread == call.thread:
            found.append(run)
    return found


def _shared(run: LineRun, call: HostCall) -> int:
    return min(run.end, call.end) - max(run.start, call.start)
