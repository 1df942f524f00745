"""What works on this machine for measuring, each by trying it, and what to do about the rest."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gpu_runner import cgroup, link
from gpu_runner.conversation import Hello
from gpu_runner.device import driver_devices, nvml_devices, open_nvml
from gpu_runner.errors import RunnerError
from gpu_runner.plain import one_line
from gpu_runner.records import Backend, Limits, Variant
from gpu_runner.sandbox import (
    Isolation,
    bubblewrap_problem,
    container_engine,
    container_problem,
)
from gpu_runner.select import Benchmark
from gpu_runner.tracing import summarised
from gpu_runner.workshop import Workshop, interpreter

SMOKE = """
import torch

def bench_smoke():
    host = torch.ones(1 << 20).pin_memory()
    return (host.cuda(non_blocking=True) * 2).cpu()
"""
LIMITS = Limits(process_seconds=120.0)


class State(StrEnum):
    """How well one thing works."""

    WORKS = "works"
    LIMITED = "limited"
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """One thing that was tried, what was found, and what to do if it is not enough."""

    name: str
    state: State
    finding: str
    remedy: str | None = None
    needed: bool = False


def examine(python: Path | None = None) -> tuple[Check, ...]:
    """Everything that measuring rests on, from git to the trace of a kernel in the sandbox."""
    boxed = _bubblewrap()
    return (
        _git(),
        boxed,
        _namespaces(),
        _container(),
        _groups(),
        *_harness(python, boxed),
        *_graphics(python, boxed),
    )


def _git() -> Check:
    if shutil.which("git"):
        return Check("git", State.WORKS, "found", needed=True)
    return Check("git", State.MISSING, "not installed", "apt-get install git", needed=True)


def _bubblewrap() -> Check:
    problem = bubblewrap_problem()
    if problem is None:
        found = "a box was opened: own processes, no network, read-only system"
        if os.geteuid() == 0:
            remedy = "run as a user of its own: files the box can reach are reached as root"
            return Check("bubblewrap", State.LIMITED, f"{found}; but you are root", remedy, True)
        return Check("bubblewrap", State.WORKS, found, needed=True)
    remedy = "apt-get install bubblewrap, or set HOSTSIDE_SANDBOX=container with an image"
    if shutil.which("bwrap"):
        remedy = "allow unprivileged user namespaces (next line), or use a container"
    return Check("bubblewrap", State.MISSING, problem, remedy, needed=True)


def _namespaces() -> Check:
    """User namespaces, which bubblewrap is built on."""
    name = "user namespaces"
    barriers = {
        "/proc/sys/kernel/unprivileged_userns_clone": "kernel.unprivileged_userns_clone=1",
        "/proc/sys/user/max_user_namespaces": "user.max_user_namespaces=15000",
    }
    for path, setting in barriers.items():
        if _content(path) == "0":
            return Check(name, State.MISSING, f"{path} is 0", f"sysctl -w {setting}")
    if _content("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        remedy = "give bwrap an AppArmor profile with `userns,` (Ubuntu 24.04 and later)"
        return Check(name, State.LIMITED, "restricted by AppArmor", remedy)
    return Check(name, State.WORKS, "allowed")


def _container() -> Check:
    engine = container_engine()
    image = os.environ.get("HOSTSIDE_SANDBOX_IMAGE")
    if engine is None:
        return Check(
            "container", State.MISSING, "neither podman nor docker; not needed with bubblewrap"
        )
    problem = container_problem(image)
    if problem is None:
        return Check("container", State.WORKS, f"{Path(engine).name} has the image {image}")
    return Check("container", State.LIMITED, f"{problem}; not needed with bubblewrap")


def _groups() -> Check:
    group = cgroup.create(f"hostside-doctor-{os.getpid()}", 64 << 20, 16)
    if group is not None:
        group.remove()
        return Check("control groups", State.WORKS, "memory and process caps can be set")
    return Check(
        "control groups",
        State.LIMITED,
        "no group of our own can be made: memory is capped per process only",
        "run the service with systemd's Delegate=yes (deploy/ has a unit), or as a user session",
    )


def _harness(python: Path | None, boxed: Check) -> Iterator[Check]:
    """The interpreter of the benchmarks, started inside the sandbox."""
    if boxed.state is State.MISSING:
        return
    try:
        hello = _greeting(python)
    except RunnerError as problem:
        remedy = "name the interpreter of the benchmarks with --python"
        yield Check("harness", State.MISSING, one_line(str(problem)), remedy, needed=True)
        return
    known = ", ".join(f"{name} {version}" for name, version in hello.packages)
    found = f"Python {hello.python} answers from inside the sandbox; {known or 'no GPU library'}"
    yield Check("harness", State.WORKS, one_line(found), needed=True)


def _greeting(python: Path | None) -> Hello:
    workshop = Workshop(interpreter(python), Isolation.BUBBLEWRAP, Backend.CPU, LIMITS)
    with (
        tempfile.TemporaryDirectory(prefix="hostside-doctor-") as area,
        workshop.process(Path(area), Path(area)) as talk,
    ):
        return talk.hello()


def _graphics(python: Path | None, boxed: Check) -> Iterator[Check]:
    boards = tuple(driver_devices())
    if not boards:
        found = "no CUDA driver or device: only wall time can be measured, and no overlap"
        yield Check("driver", State.MISSING, found, "run on a machine with a GPU and its driver")
        return
    yield Check("driver", State.WORKS, f"{boards[0].name}, {boards[0].driver}")
    yield _nvml()
    yield _counters()
    if boxed.state is not State.MISSING:
        yield _traced(python)
    measured = link.measure()
    if measured is None:
        yield Check("pinned bandwidth", State.MISSING, "the driver refused the measurement")
    else:
        found = f"{measured.h2d_gb_per_s:.1f} GB/s up, {measured.d2h_gb_per_s:.1f} GB/s down, "
        found += f"{measured.both_gb_per_s:.1f} GB/s both at once"
        yield Check("pinned bandwidth", State.WORKS, found)


def _nvml() -> Check:
    nvml = open_nvml()
    if nvml is None:
        remedy = "pip install 'hostside[gpu]'"
        found = "not available: clocks and throttling are not seen, no round is discarded for them"
        return Check("NVML", State.LIMITED, found, remedy)
    shared = [each.name for each in nvml_devices(nvml) if each.shared]
    if shared:
        remedy = "stop other processes on the GPU while measuring"
        return Check("NVML", State.LIMITED, f"{shared[0]} is used by other processes", remedy)
    return Check("NVML", State.WORKS, "clocks, throttling and other processes are seen")


def _counters() -> Check:
    """Older drivers keep all of CUPTI to administrators; newer ones only the counters."""
    limited = "RmProfilingAdminOnly: 1" in _content("/proc/driver/nvidia/params")
    if not limited:
        return Check("CUPTI", State.WORKS, "not kept to administrators")
    remedy = "load nvidia with NVreg_RestrictProfilingToAdminUsers=0 if the next check fails"
    return Check("CUPTI", State.LIMITED, "counters are kept to administrators", remedy)


def _traced(python: Path | None) -> Check:
    """A kernel and two copies, traced inside the sandbox."""
    name = "trace in the sandbox"
    try:
        found = _smoke(python)
    except RunnerError as problem:
        remedy = "install torch in the benchmarks' environment; see the CUPTI line above"
        return Check(name, State.MISSING, one_line(str(problem)), remedy)
    return Check(name, State.WORKS, found)


def _smoke(python: Path | None) -> str:
    workshop = Workshop(interpreter(python), Isolation.BUBBLEWRAP, Backend.CUDA, LIMITS)
    with tempfile.TemporaryDirectory(prefix="hostside-doctor-") as area:
        (Path(area) / "bench_smoke.py").write_text(SMOKE)
        with workshop.process(Path(area), Path(area)) as talk:
            one = Benchmark("gpu_bench", "bench_smoke.py", "bench_smoke")
            talk.open(one, one.name, 0)
            talk.prepare([1, 2, 3])
            packed = talk.trace(1, 2)
    seen = summarised(packed, Variant.BASE, 0, (), 2)
    return f"{seen.launches or 0} launches, {seen.copy_busy_us:.0f} us of copies seen"


def _content(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
