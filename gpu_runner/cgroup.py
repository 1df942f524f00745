"""A control group for one sandboxed process tree: memory and process caps, and a kill that holds.

Optional: version 2 where a group of ours may be made (root, or a delegated systemd unit), version 1
for root. Where neither is possible the sandbox goes without and the report says so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
STALE = 24 * 3600  # seconds; no benchmark process lives that long


@dataclass(frozen=True)
class ControlGroup:
    """The directories that make up one group (one in version 2, one per controller in 1)."""

    places: tuple[Path, ...]

    @property
    def entrances(self) -> tuple[Path, ...]:
        """Files into which a process writes its id to be held by the group."""
        return tuple(place / "cgroup.procs" for place in self.places)

    def members(self) -> frozenset[int]:
        """Ids of the processes that are still alive in the group."""
        found: set[int] = set()
        for entrance in self.entrances:
            found.update(int(word) for word in _read(entrance).split())
        return frozenset(found)

    def ran_out_of_memory(self) -> bool:
        """True when the kernel killed a member for exceeding the memory cap."""
        for place in self.places:
            for name in ("memory.events", "memory.oom_control"):
                for line in _read(place / name).splitlines():
                    key, _, count = line.partition(" ")
                    if key == "oom_kill" and count.strip() not in ("", "0"):
                        return True
        return False

    def kill(self) -> None:
        """Ends every member, also those that fork while they are being killed."""
        for place in self.places:
            _write(place / "cgroup.kill", "1")
        until = time.monotonic() + 10
        while (members := self.members()) and time.monotonic() < until:
            for member in members:
                try:
                    os.kill(member, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.01)

    def remove(self) -> None:
        """Kills what is left and deletes the group; harmless when it is gone already."""
        self.kill()
        for place in self.places:
            for _ in range(50):
                try:
                    place.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)  # the kernel is still burying the last member
                else:
                    break


def create(name: str, memory_bytes: int, processes: int) -> ControlGroup | None:
    """A new group with these caps, or None where this user may not make one."""
    makers = (_version_2, _version_1)
    for maker in makers:
        group = maker(name, memory_bytes, processes)
        if group is not None:
            return group
    return None


def _sweep(parent: Path) -> None:
    """Removes groups that a killed runner left behind; those with members refuse to go."""
    for place in parent.glob("hostside-*"):
        with contextlib.suppress(OSError):
            if time.time() - place.stat().st_mtime > STALE:
                place.rmdir()


def _version_2(name: str, memory_bytes: int, processes: int) -> ControlGroup | None:
    if not (ROOT / "cgroup.controllers").exists():
        return None
    own = ROOT / _paths().get("", "").lstrip("/")
    for parent in (own, own.parent):
        _sweep(parent)
        place = parent / name
        try:
            place.mkdir()
        except OSError:
            continue
        caps = {"memory.max": memory_bytes, "pids.max": processes}
        if all(_write(place / key, str(cap)) for key, cap in caps.items()):
            _write(place / "memory.swap.max", "0")
            if os.access(parent / "cgroup.procs", os.W_OK):
                return ControlGroup((place,))
        place.rmdir()
    return None


def _version_1(name: str, memory_bytes: int, processes: int) -> ControlGroup | None:
    paths = _paths()
    caps = {
        "memory": ("memory.limit_in_bytes", memory_bytes),
        "pids": ("pids.max", processes),
    }
    places: list[Path] = []
    for controller, (key, cap) in caps.items():
        parent = ROOT / controller / paths.get(controller, "/").lstrip("/")
        _sweep(parent)
        place = parent / name
        try:
            place.mkdir()
        except OSError:
            break
        places.append(place)
        if not _write(place / key, str(cap)):
            break
        if controller == "memory":
            _write(place / "memory.memsw.limit_in_bytes", str(cap))
    else:
        return ControlGroup(tuple(places))
    for place in places:
        place.rmdir()
    return None


def _paths() -> dict[str, str]:
    """Own group per controller, as /proc tells it; version 2 is under the empty name."""
    found: dict[str, str] = {}
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _write(path: Path, text: str) -> bool:
    try:
        path.write_text(text)
    except OSError:
        return False
    return True
