"""What only a CUDA machine can show: one script, prepared to end within ten minutes.

Run it with `python -m pytest tests/gpu -m gpu` in an environment that has torch with CUDA. It
records the traces it took under `$OUT` where that is set.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runner import link
from gpu_runner.bench import run_bench
from gpu_runner.device import driver_devices, find
from gpu_runner.doctor import State, examine
from gpu_runner.models import BenchReport, BenchRequest
from gpu_runner.records import Backend, Limits, Protocol, Variant, Verdict

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not tuple(driver_devices()), reason="needs a CUDA device and its driver"),
]

QUICK = Protocol(rounds=4, most_rounds=4, warm_up_seconds=0.3, seconds=0.3, trace_passes=1)
SERIAL = """
import torch

def process(images):
    results = []
    for image in images:
        results.append((image.cuda() * 2 + 1).cpu())
    return results
"""
RING = """
import torch

def process(images):
    streams = [torch.cuda.Stream() for _ in range(3)]
    results = [torch.empty_like(image).pin_memory() for image in images]
    for number, image in enumerate(images):
        with torch.cuda.stream(streams[number % 3]):
            results[number].copy_(image.cuda(non_blocking=True) * 2 + 1, non_blocking=True)
    torch.cuda.synchronize()
    return results
"""
UNSYNCHRONISED = RING.replace("    torch.cuda.synchronize()\n", "")
BENCH = """
import torch
from pkg.glue import process

def setup_process(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(3, 2048, 2048, generator=generator).pin_memory() for _ in range(6)]

def bench_process(images):
    return process(images)
"""


def repository(folder: Path, *versions: str) -> list[str]:
    """A repository with a commit per version of the glue; the hashes."""
    files = {"gpu_bench/bench_process.py": BENCH, "pkg/__init__.py": ""}
    hashes: list[str] = []

    def git(*words: str) -> str:
        who = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
        line = ["git", "-C", str(folder), *who, *words]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    for version in versions:
        for name, text in {**files, "pkg/glue.py": version}.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", "a version")
        hashes.append(git("rev-parse", "HEAD"))
    return hashes


def bench(folder: Path, base: str, head: str) -> BenchReport:
    """The report of both commits on the GPU; kept where `$OUT` says."""
    request = BenchRequest(str(folder), base, head, backend=Backend.CUDA, protocol=QUICK)
    limits = Limits(memory_bytes=32 << 30, process_seconds=120.0)
    report = run_bench(replace(request, limits=limits))
    if "OUT" in os.environ:
        (Path(os.environ["OUT"]) / f"{folder.name}.json").write_text(report.to_json())
    return report


def test_the_doctor_finds_everything() -> None:
    checks = {each.name: each for each in examine()}
    assert checks["driver"].state is State.WORKS
    assert checks["trace in the sandbox"].state is State.WORKS, checks["trace in the sandbox"]
    assert checks["pinned bandwidth"].state is State.WORKS


def test_the_link_carries_a_believable_amount() -> None:
    found = link.measure()
    assert found is not None
    assert found.h2d_gb_per_s is not None
    assert 1 < found.h2d_gb_per_s < 1000


def test_the_device_is_recorded() -> None:
    found = find(Backend.AUTO)
    assert found.backend is Backend.CUDA
    assert found.device is not None
    assert found.device.identifier is not None


def test_a_pinned_ring_is_faster_and_overlaps(tmp_path: Path) -> None:
    base, head = repository(tmp_path, SERIAL, RING)
    report = bench(tmp_path, base, head)
    found = report.comparisons[0]
    assert report.basis == "measured"
    assert found.verdict in (Verdict.FASTER, Verdict.INCONCLUSIVE), found.because
    shown = {each.variant: each for each in report.run.benchmarks[0].traces}
    assert shown[Variant.BASE].copy_busy_us > 0
    ours, theirs = shown[Variant.HEAD], shown[Variant.BASE]
    assert (ours.duplex_percent or 0) > (theirs.duplex_percent or 0)


def test_work_on_an_unsynchronised_stream_gains_nothing(tmp_path: Path) -> None:
    base, head = repository(tmp_path, RING, UNSYNCHRONISED)
    found = bench(tmp_path, base, head).comparisons[0]
    assert found.verdict is not Verdict.FASTER, found.because
