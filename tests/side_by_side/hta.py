"""Hostside and HolisticTraceAnalysis on the same traces in one run: values and wall time.

    python -m venv hta && hta/bin/python -m pip install HolisticTraceAnalysis
    python tests/side_by_side/hta.py --hta hta/bin/python TRACE.json.gz …

Both run as fresh processes, in turn, so start-up and imports count for both. HTA is asked for its
last profiler step too; idle time, region and NCCL overlap are the numbers that both report.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

Json = dict[str, Any]

# Runs in HTA's environment. Its rounding to whole microseconds is its default.
PROBE = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(
    trace_files={0: sys.argv[1]}, trace_dir="", include_last_profiler_step=True
)
row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
overlap = analysis.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"]
print(json.dumps({
    "gpu_idle_us": float(row["idle_time(us)"]),
    "region_us": float(row["kernel_time(us)"]),
    "nccl_compute_overlap_percent": None if overlap != overlap else float(overlap),
}))
"""
WORK = ("kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset")
HOST = ("cuda_runtime", "cuda_driver", "Runtime")
KEYS = ("region_us", "gpu_idle_us", "nccl_compute_overlap_percent")


def main() -> int:
    """Print one table; 1 if the fivefold is missed somewhere."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hta", required=True, help="a Python that has HolisticTraceAnalysis")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("traces", nargs="+", type=Path)
    arguments = parser.parse_args()
    missed = False
    print("| trace | number | Hostside | HTA | |\n|---|---|---:|---:|---|")
    for trace in arguments.traces:
        ours = [sys.executable, "-m", "bot", "trace", str(trace), "--format", "json"]
        theirs = [arguments.hta, "-c", PROBE, str(trace)]
        mine, other, ratio = compare(ours, theirs, arguments.rounds)
        missed = missed or ratio < 5
        unrounded = json.loads(last_line(theirs, HTA_DISABLE_NS_ROUNDING="1"))
        for key in KEYS:
            why = explained(mine, other, key, trace, unrounded)
            print(f"| {trace.name} | {key} | {mine[key]} | {other[key]} | {why} |", flush=True)
        walls = f"{mine['wall']:.2f} s | {other['wall']:.2f} s | {ratio:.1f} ×"
        print(f"| | wall time, median | {walls} |", flush=True)
    return int(missed)


def compare(ours: list[str], theirs: list[str], rounds: int) -> tuple[Json, Json, float]:
    """Numbers and median wall time of both, run in turn."""
    walls: tuple[list[float], list[float]] = ([], [])
    found: list[Json] = [{}, {}]
    for _ in range(rounds):
        for side, command in enumerate((ours, theirs)):
            started = time.perf_counter()
            output = last_line(command) if side else output_of(command)
            walls[side].append(time.perf_counter() - started)
            found[side] = json.loads(output)
    mine: Json = {**found[0]["devices"][0], "wall": statistics.median(walls[0])}
    other: Json = {**found[1], "wall": statistics.median(walls[1])}
    return mine, other, other["wall"] / mine["wall"]


def output_of(command: list[str], **environment: str) -> str:
    """Standard output of a command that must succeed."""
    run = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return run.stdout


def last_line(command: list[str], **environment: str) -> str:
    """The last line of its output: HTA prints others before."""
    return output_of(command, **environment).splitlines()[-1]


def explained(mine: Json, other: Json, key: str, trace: Path, unrounded: Json) -> str:
    """Whether the values agree, and if not, what in the file HTA takes differently."""
    if near(mine[key], other[key]):
        return "equal"
    if near(mine[key], unrounded[key]):
        return "equal once HTA_DISABLE_NS_ROUNDING=1 stops its rounding to whole microseconds"
    rows = rows_with_a_stream(trace)
    strange = Counter(row["cat"] for row in rows if row["cat"].lower() not in WORK)
    if strange:
        listed = ", ".join(f"{count} of {category}" for category, count in strange.items())
        return f"HTA counts rows with a stream that are no work of the GPU: {listed}"
    launched = {row["args"]["correlation"] for row in complete_rows(trace, *HOST)}
    orphans = sum(row["args"].get("correlation") not in launched for row in rows)
    if orphans:
        return f"HTA drops GPU work without its launch in the file: {orphans} of {len(rows)}"
    return "not explained"


def near(one: float | None, two: float | None) -> bool:
    return one == two or (one is not None and two is not None and abs(one - two) < 0.01)


def rows_with_a_stream(trace: Path) -> list[Json]:
    return [row for row in complete_rows(trace) if row.get("args", {}).get("stream", -1) >= 0]


def complete_rows(trace: Path, *categories: str) -> list[Json]:
    opened = gzip.open if trace.suffix == ".gz" else open
    with opened(trace, "rt", errors="replace") as file:
        events = json.load(file)["traceEvents"]
    rows = [event for event in events if event.get("ph") == "X" and "cat" in event]
    return [row for row in rows if not categories or row["cat"] in categories]


if __name__ == "__main__":
    sys.exit(main())
