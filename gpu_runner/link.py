"""What the link between host and device carries, measured with pinned memory by the driver's API.

Run as `python -m gpu_runner.link`: a process of its own, so that no CUDA context stays in
the runner. Prints one JSON object, in GB/s (10⁹ bytes), medians of ten transfers.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_runner.errors import RunnerError
from gpu_runner.records import Link

SIZE = 256 << 20
REPEATS = 10
SECONDS = 120


class LinkError(RunnerError):
    """The driver refused one of the steps."""


def measure(identifier: str | None = None) -> Link | None:
    """The link's three rates, or None where no CUDA device answers."""
    chosen = {} if identifier is None else {"CUDA_VISIBLE_DEVICES": identifier}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gpu_runner.link"],
            capture_output=True,
            timeout=SECONDS,
            check=True,
            cwd=Path(__file__).resolve().parents[1],
            env={**os.environ, **chosen},
        )
        found = json.loads(done.stdout)
        return Link(float(found["h2d"]), float(found["d2h"]), float(found["both"]))
    except (OSError, subprocess.SubprocessError, ValueError, LookupError):
        return None


class _Driver:
    """The CUDA driver with one context and two streams."""

    def __init__(self, device: int) -> None:
        self._cuda: Any = ctypes.CDLL("libcuda.so.1")
        self.context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuCtxCreate_v2", ctypes.byref(self.context), 0, device)
        self.streams = [self._made("cuStreamCreate", 1) for _ in range(2)]
        self.on_host = [self._made("cuMemHostAlloc", ctypes.c_size_t(SIZE), 0) for _ in range(2)]
        self.on_device = [self._made("cuMemAlloc_v2", ctypes.c_size_t(SIZE)) for _ in range(2)]

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code:
            raise LinkError(f"{name} returns CUDA error {code}")

    def _made(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    def up(self) -> None:
        """Starts a copy to the device."""
        size = ctypes.c_size_t(SIZE)
        self.call("cuMemcpyHtoDAsync_v2", self.on_device[0], self.on_host[0], size, self.streams[0])

    def down(self) -> None:
        """Starts a copy to the host, on the other stream."""
        size = ctypes.c_size_t(SIZE)
        self.call("cuMemcpyDtoHAsync_v2", self.on_host[1], self.on_device[1], size, self.streams[1])

    def rate(self, starts: list[Callable[[], None]]) -> float:
        """GB/s of these copies started together."""
        rates: list[float] = []
        for repeat in range(REPEATS + 2):
            self.call("cuCtxSynchronize")
            begun = time.perf_counter_ns()
            for start in starts:
                start()
            self.call("cuCtxSynchronize")
            if repeat >= 2:  # the link wakes up from its power saving first
                rates.append(len(starts) * SIZE / (time.perf_counter_ns() - begun))
        return statistics.median(rates)


def main() -> None:
    """Measures the first visible device and prints."""
    driver = _Driver(0)
    found = {
        "h2d": driver.rate([driver.up]),
        "d2h": driver.rate([driver.down]),
        "both": driver.rate([driver.up, driver.down]),
    }
    driver.call("cuCtxDestroy_v2", driver.context)
    print(json.dumps(found))


if __name__ == "__main__":
    try:
        main()
    except (LinkError, OSError) as problem:
        sys.exit(str(problem))
