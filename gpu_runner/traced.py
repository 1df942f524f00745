"""Traces a few calls with torch.profiler and gives back the Kineto JSON; inside the sandbox.

CUPTI is process-wide, so kernels launched by Numba, CuPy or Triton appear as well; the only thing
asked of the environment is that torch can be imported.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

from gpu_runner.line_log import LineLog, with_lines

REGION = "gpu_bench_region"


def kineto(once: Callable[[int], None], warm_up: int, calls: int, lines_of: str = "") -> bytes:
    """Gzipped trace of `calls` calls inside one named region.

    `lines_of` is a folder: which lines of its files ran when is noted too, at the cost of time.
    """
    try:
        tools: Any = importlib.import_module("torch.profiler")
    except ImportError:
        raise RuntimeError(
            "no trace was taken because torch is not installed in the benchmark's environment; "
            "install it, or record with nsys and read the file with `hostside trace`"
        ) from None
    kinds = [tools.ProfilerActivity.CPU, tools.ProfilerActivity.CUDA]
    for index in range(warm_up):
        once(index)
    log = LineLog(lines_of) if lines_of else None
    noting = log or contextlib.nullcontext()
    with tools.profile(activities=kinds) as profile, tools.record_function(REGION), noting:
        for index in range(calls):
            once(warm_up + index)
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    profile.export_chrome_trace(path)
    with open(path, "rb") as file:
        trace = file.read()
    return gzip.compress(with_lines(trace, log) if log else trace, 1)
