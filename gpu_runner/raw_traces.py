"""Keeps the profiler's own files of traced passes, for whoever wants to open them in Perfetto."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.model_trace import kineto
from gpu_runner.recording import Recording
from gpu_runner.records import Variant

MOST_FILES = 40
LARGEST = 32 << 20  # bytes of one file; larger ones are left out
LONGEST = 80  # characters of a benchmark's name in a file's name


@dataclass(frozen=True)
class RawTraces:
    """Where they are put; without a folder they are forgotten once they are summarised."""

    folder: Path | None = None

    def keep(self, benchmark: str, variant: Variant, number: int, packed: bytes) -> None:
        """One pass, gzipped, as BENCHMARK.VARIANT.PASS.json.gz; it is a stranger's file."""
        if self.folder is None or len(packed) > LARGEST:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if sum(1 for _ in self.folder.iterdir()) >= MOST_FILES:
            return
        name, again = _short(benchmark), 1
        while (path := self.folder / f"{name}.{variant}.{number + 1}.json.gz").exists():
            again += 1  # two benchmarks may differ only in what no file name can hold
            name = f"{_short(benchmark)}-{again}"
        path.write_bytes(packed)

    def keep_modelled(self, benchmark: str, variant: Variant, recording: Recording) -> None:
        """A program's run on the model, as a profiler would have written it."""
        if self.folder is not None:
            text = json.dumps(kineto(recording), separators=(",", ":"))
            self.keep(benchmark, variant, 0, gzip.compress(text.encode(), 1, mtime=0))


def _short(benchmark: str) -> str:
    """The last words of its name, with nothing but letters, digits, - and _."""
    words = re.sub(r"[^A-Za-z0-9_]+", "-", benchmark.replace(".py::", "-")).strip("-_")
    return words[-LONGEST:].strip("-_") or "benchmark"
