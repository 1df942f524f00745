"""Traces a few calls with torch.profiler and gives back the Kineto JSON; inside the sandbox.

CUPTI is process-wide, so kernels launched by Numba, CuPy or Triton appear as well; the only thing
asked of the environment is that torch can be imported.
"""

from __future__ import annotations

import gzip
import importlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

REGION = "gpu_bench_region"


def kineto(once: Callable[[int], None], warm_up: int, calls: int) -> bytes:
    """Gzipped trace of `calls` calls inside one named region."""
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
    with tools.profile(activities=kinds) as profile, tools.record_function(REGION):
        for index in range(calls):
            once(warm_up + index)
    handle, path = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    profile.export_chrome_trace(path)
    with open(path, "rb") as file:
        return gzip.compress(file.read(), 1)
