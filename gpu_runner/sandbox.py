"""Where a stranger's code runs: a bubblewrap box, a container, or, only when asked, no box at all.

`choose` says which, or refuses in one sentence; `Box.command` is the whole command line. What the
code sees: the system read-only, its own tree read-only, a small scratch space, no network, no
other process, no credentials, a user id that owns nothing. `session.Session` starts it, talks to
it over two inherited pipes, and kills it whole.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from gpu_runner.errors import RunnerError
from gpu_runner.records import Limits

Setting = Literal["auto", "bubblewrap", "container", "none"]

NOBODY = "65534"
SHARED_MEMORY = 1 << 30  # at most this much of the scratch size again under /dev/shm
SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps", "dxg")
REFUSAL = (
    "no sandbox works on this machine ({why}), and benchmarks run code from the pull request; "
    "install bubblewrap (apt-get install bubblewrap), set sandbox to container, "
    'or set sandbox = "none" for a repository whose every author you trust'
)


class SandboxError(RunnerError):
    """No isolation that the settings allow works here."""


class Isolation(StrEnum):
    """What stands between the code and the machine."""

    BUBBLEWRAP = "bubblewrap"
    CONTAINER = "container"
    NONE = "none"


@dataclass(frozen=True)
class Place:
    """A file or folder of this machine that the code may read, and where it finds it."""

    source: Path
    target: str


@dataclass(frozen=True)
class Box:
    """Everything about one sandboxed process except the command it runs."""

    isolation: Isolation
    limits: Limits
    places: tuple[Place, ...] = ()
    directory: str = "/tmp"
    environment: tuple[tuple[str, str], ...] = ()
    cuda: bool = False
    image: str | None = None
    name: str = "hostside"

    def seen_as(self, path: Path) -> str:
        """What the code calls this path of the machine: its target, unless nothing is boxed."""
        if self.isolation is Isolation.NONE:
            return str(path)
        for place in sorted(self.places, key=lambda each: -len(str(each.source))):
            if path == place.source or place.source in path.parents:
                return str(Path(place.target) / path.relative_to(place.source))
        return str(path)

    def seen_at(self, target: str) -> str:
        """Where the code finds the place with this target; its source when nothing is boxed."""
        for place in self.places:
            if place.target == target:
                return self.seen_as(place.source)
        return target

    def command(self, inner: Sequence[str], capped: bool) -> list[str]:
        """The command line that runs `inner` in the box; `capped` when a control group holds it."""
        for place in self.places:
            _refuse_wide(place.source)
        match self.isolation:
            case Isolation.BUBBLEWRAP:
                return [*self._bubblewrap(), "--", *self._limited(inner, capped)]
            case Isolation.CONTAINER:
                return [*self._container(), *inner]
            case Isolation.NONE:
                variables = [f"{key}={value}" for key, value in self._variables()]
                return ["/usr/bin/env", "-i", *variables, *self._limited(inner, capped)]

    def _limited(self, inner: Sequence[str], capped: bool) -> list[str]:
        seconds = self.limits.cpu_seconds
        caps = [
            "--core=0",
            f"--cpu={seconds}:{seconds + 2}",
            f"--fsize={self.limits.scratch_bytes}",
        ]
        if self.isolation is Isolation.BUBBLEWRAP:
            caps.append(f"--nproc={self.limits.processes}")  # the kernel ignores it for root
        if not capped and not self.cuda:  # CUDA reserves address space far beyond its use
            caps.append(f"--as={self.limits.memory_bytes}")
        return ["/usr/bin/prlimit", *caps, "--", *inner]

    def _variables(self) -> Iterator[tuple[str, str]]:
        yield "PATH", "/usr/bin:/bin"
        yield "HOME", "/tmp"
        yield "USER", "nobody"
        yield "LANG", "C.UTF-8"
        yield from self.environment

    def _bubblewrap(self) -> list[str]:
        words = [
            shutil.which("bwrap") or "bwrap",
            "--unshare-user",
            "--uid",
            NOBODY,
            "--gid",
            NOBODY,
            "--disable-userns",
        ]
        words += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
        words += ["--unshare-cgroup-try", "--die-with-parent", "--new-session"]
        words += ["--cap-drop", "ALL", "--clearenv"]
        for key, value in self._variables():
            words += ["--setenv", key, value]
        words += ["--ro-bind", "/usr", "/usr", *_system_folders()]
        for file in SYSTEM_FILES:
            words += ["--ro-bind-try", file, file]
        words += ["--proc", "/proc", "--dev", "/dev", *self._scratch(), *self._devices()]
        for place in sorted(self.places, key=lambda each: len(each.target)):
            words += ["--ro-bind", str(place.source), place.target]
        # The box's own root and /dev are memory without a size; and to a root caller the files
        # under /proc/sys (core_pattern!) would be writable in spite of the dropped capabilities.
        for folder in ("/proc", "/dev", "/"):
            words += ["--remount-ro", folder]
        return [*words, "--chdir", self.directory]

    def _scratch(self) -> Iterator[str]:
        size = self.limits.scratch_bytes
        yield from ("--size", str(min(size, SHARED_MEMORY)), "--tmpfs", "/dev/shm")
        yield from ("--size", str(size), "--tmpfs", "/tmp")

    def _devices(self) -> Iterator[str]:
        if self.cuda:
            boards = (node.name for node in sorted(Path("/dev").glob("nvidia[0-9]*")))
            for name in (*boards, *DEVICES):
                yield from ("--dev-bind-try", f"/dev/{name}", f"/dev/{name}")
            yield from ("--ro-bind", "/sys", "/sys")

    def _container(self) -> list[str]:
        limits, engine = self.limits, container_engine()
        if engine is None or self.image is None:
            raise SandboxError(
                "sandbox = container needs podman or docker and an image; "
                "name the image with HOSTSIDE_SANDBOX_IMAGE"
            )
        words = [engine, "run", "--rm", "--interactive", "--name", self.name]
        words += ["--network", "none", "--read-only", "--cap-drop", "ALL", "--user", NOBODY]
        words += ["--security-opt", "no-new-privileges", "--workdir", self.directory]
        words += ["--tmpfs", f"/tmp:size={limits.scratch_bytes},mode=1777"]
        words += ["--pids-limit", str(limits.processes), "--memory", str(limits.memory_bytes)]
        words += ["--memory-swap", str(limits.memory_bytes), "--ulimit", "core=0"]
        words += ["--ulimit", f"cpu={limits.cpu_seconds}", "--pull", "never"]
        if self.cuda:
            podman = Path(engine).name == "podman"
            words += ["--device", "nvidia.com/gpu=all"] if podman else ["--gpus", "all"]
        for key, value in self._variables():
            words += ["--env", f"{key}={value}"]
        for place in self.places:
            words += ["--volume", f"{place.source}:{place.target}:ro"]
        return [*words, self.image]


def choose(setting: Setting, image: str | None = None) -> Isolation:
    """The isolation that the setting asks for and this machine offers; refuses otherwise."""
    if setting == "none":
        return Isolation.NONE
    if setting == "container" or (setting == "auto" and image and bubblewrap_problem()):
        problem = container_problem(image)
        if problem is None:
            return Isolation.CONTAINER
    else:
        problem = bubblewrap_problem()
        if problem is None:
            return Isolation.BUBBLEWRAP
    raise SandboxError(REFUSAL.format(why=problem))


def bubblewrap_problem() -> str | None:
    """Why bubblewrap cannot be used here, or None when a box was just opened and closed."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    probe = Box(Isolation.BUBBLEWRAP, Limits(scratch_bytes=1 << 20)).command(["true"], capped=True)
    try:
        done = subprocess.run(probe, capture_output=True, timeout=30, text=True, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"bubblewrap does not start: {type(problem).__name__}"
    if done.returncode == 0:
        return None
    return f"bubblewrap fails: {done.stderr.strip().splitlines()[-1:] or done.returncode}"


def container_problem(image: str | None) -> str | None:
    """Why a container cannot be used here, or None when the engine has the image."""
    engine = container_engine()
    if engine is None:
        return "neither podman nor docker is installed"
    if image is None:
        return "no container image is set (HOSTSIDE_SANDBOX_IMAGE)"
    try:
        done = subprocess.run(
            [engine, "image", "inspect", image], capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"{Path(engine).name} does not answer"
    if done.returncode == 0:
        return None
    return f"{Path(engine).name} does not run here or does not have the image {image}"


def container_engine() -> str | None:
    """Path of podman, else docker, else None."""
    return shutil.which("podman") or shutil.which("docker")


def _system_folders() -> Iterator[str]:
    """/bin, /lib and their kin: links where /usr is merged, real folders where it is not."""
    for name in SYSTEM_FOLDERS:
        folder = Path("/") / name
        if folder.is_symlink():
            yield from ("--symlink", os.readlink(folder), f"/{name}")
        elif folder.is_dir():
            yield from ("--ro-bind", f"/{name}", f"/{name}")


def _refuse_wide(source: Path) -> None:
    """A place must not open a home, or the whole machine, to the code."""
    real = source.resolve()
    if real == Path("/") or real in (Path.home().resolve(), Path("/etc"), Path("/root")):
        raise SandboxError(
            f"{source} would show all of {real} to the benchmarked code; "
            "use a virtual environment and a checkout in folders of their own"
        )
