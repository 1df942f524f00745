"""Small traces for tests, written as the profilers write them."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

from gpu_runner.trace.metrics import DeviceMetrics, device_metrics
from gpu_runner.trace.read import read_trace
from gpu_runner.trace.report import device_json, trace_json

Json = dict[str, Any]
_numbers = iter(range(1_000_000, 10**9))


def event(cat: str, name: str, ts: Any, dur: Any, pid: int = 0, tid: int = 7, **args: Any) -> Json:
    """One complete event; times are microseconds as the file has them."""
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def gpu(cat: str, name: str, ts: Any, dur: Any, stream: int, device: int, **args: Any) -> Json:
    number = args.pop("correlation", None) or next(_numbers)
    return event(
        cat, name, ts, dur, device, stream, device=device, stream=stream, correlation=number, **args
    )


def kernel(
    ts: Any, dur: Any, stream: int = 7, device: int = 0, name: str = "gemm", **args: Any
) -> Json:
    return gpu("kernel", name, ts, dur, stream, device, **args)


def copy(
    ts: Any, dur: Any, kind: str = "HtoD", stream: int = 20, device: int = 0, **args: Any
) -> Json:
    """A copy; `memory` is what the host's side is, `bytes` its size."""
    memory = args.pop("memory", "Pinned")
    ends = {"H": memory, "D": "Device", "P": "Device", "A": "Array"}
    name = args.pop("name", f"Memcpy {kind} ({ends[kind[0]]} -> {ends[kind[-1]]})")
    return gpu("gpu_memcpy", name, ts, dur, stream, device, bytes=args.pop("bytes", 1000), **args)


def memset(ts: Any, dur: Any, stream: int = 7, device: int = 0) -> Json:
    return gpu("gpu_memset", "Memset (Device)", ts, dur, stream, device, bytes=8)


def call(
    name: str, ts: Any, dur: Any, correlation: int = 0, thread: int = 1, cat: str = "cuda_runtime"
) -> Json:
    number = correlation or next(_numbers)
    return event(cat, name, ts, dur, 4000, thread, cbid=1, correlation=number)


def region(name: str, ts: Any, dur: Any, cat: str = "user_annotation") -> Json:
    return event(cat, name, ts, dur, 4000, 1)


def kineto(path: Path, *events: Json, **top: Any) -> Path:
    """The file `path`, packed if its name says so."""
    text = json.dumps({"schemaVersion": 1, **top, "traceEvents": list(events)})
    return write(path, text)


def write(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def metrics(path: Path, region: str | None = None) -> tuple[DeviceMetrics, ...]:
    return device_metrics(read_trace(path, region), region=region)


def numbers(path: Path, region: str | None = None) -> Json:
    """The JSON of the only device."""
    (device,) = metrics(path, region)
    return device_json(device)


def report(path: Path, region: str | None = None) -> Json:
    trace = read_trace(path, region)
    return trace_json(trace, device_metrics(trace, region=region), region)


def nsys(path: Path, **tables: tuple[str, list[tuple[Any, ...]]]) -> Path:
    """An export with the tables given as `NAME=("column, column", rows)`."""
    connection = sqlite3.connect(path)
    try:
        for name, (columns, rows) in tables.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
            marks = ", ".join("?" for _ in columns.split(","))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        connection.commit()
    finally:
        connection.close()
    return path
