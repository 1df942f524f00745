"""What names in traces mean: host calls, copies, kinds of memory, helper kernels of ROCm."""

from __future__ import annotations

import functools
import re

from gpu_runner.trace.events import Kind, Role

# Order matters: the first pattern that matches decides. Names are without nsys' `_v3020` suffix.
_ROLES: tuple[tuple[Role, re.Pattern[str]], ...] = tuple(
    (role, re.compile(pattern))
    for role, pattern in (
        (Role.WAIT, r"(cuda|cu|hip)\w*Synchronize(_ptsz|_spt)?$"),
        # hipMemcpyWithStream waits like cudaMemcpy; PyTorch on ROCm uses it for blocking copies.
        (Role.BLOCKING_COPY, r"hipMemcpyWithStream$"),
        (Role.COPY, r"(cuda|cu|hip)Memcpy\w*Async"),
        (Role.WAIT, r"(cuda|cu|hip)Memcpy(?!\w*(Batch|Node))"),
        (Role.MEMSET, r"(cuda|cu|hip)Memset"),
        (Role.GRAPH_LAUNCH, r"(cuda|cu|hip)GraphLaunch"),
        (Role.LAUNCH, r"(cuda|cu|hip)\w*Launch(?!HostFunc|Attribute)\w*(Kernel|Grid|$)|cuLaunch$"),
        (Role.CAPTURE_BEGIN, r"(cuda|cu|hip)StreamBeginCapture"),
        (Role.CAPTURE_END, r"(cuda|cu|hip)StreamEndCapture"),
        (
            Role.ALLOCATE,
            r"(cuda|hip)(Malloc|Free|HostAlloc|HostMalloc|HostFree|HostRegister|HostUnregister)"
            r"(?!\w*Async)|cuMem(Alloc|Free|HostAlloc|HostRegister|HostUnregister)(?!\w*Async)",
        ),
    )
)
_VERSION = re.compile(r"_v\d+$")

_COPY = re.compile(r"memcpy\s+(\w+|<unknown>)\s*(?:\((.+?)\s*->\s*(.+?)\))?\s*$", re.IGNORECASE)

# Letters of CUPTI's spelling: Host, Device, Array (device memory), Peer.
_DIRECTIONS = {
    "HtoD": Kind.H2D,
    "HtoA": Kind.H2D,
    "DtoH": Kind.D2H,
    "AtoH": Kind.D2H,
    "DtoD": Kind.D2D,
    "DtoA": Kind.D2D,
    "AtoD": Kind.D2D,
    "AtoA": Kind.D2D,
    "HtoH": Kind.HOST,
    "PtoP": Kind.P2P,
    "UVM HtoD": Kind.UNIFIED,
    "UVM DtoH": Kind.UNIFIED,
    "UVM DtoD": Kind.UNIFIED,
}
_SPELLINGS = {spelling.upper(): spelling for spelling in _DIRECTIONS}
_PROFILER = re.compile(r"activity buffer|flush|instrument|resource|cupti", re.IGNORECASE)
UNKNOWN_COPY = "unknown"
LONGEST = 200


def printable(text: str) -> str:
    """A stranger's name cut to a bearable length, without what could steer a terminal."""
    short = text[:LONGEST]
    if short.isprintable():
        return short
    return "".join(character if character.isprintable() else "?" for character in short)


@functools.lru_cache(maxsize=4096)
def role_of(call: str) -> Role | None:
    """The meaning of a host call by its name, or None if the measurement does not need it."""
    bare = bare_call(call)
    for role, pattern in _ROLES:
        if pattern.match(bare):
            return role
    return None


def bare_call(call: str) -> str:
    """`cudaMemcpyAsync` for nsys' `cudaMemcpyAsync_v3020`."""
    return _VERSION.sub("", call)


@functools.lru_cache(maxsize=4096)
def copy_of(name: str) -> tuple[Kind, str, str]:
    """Kind, direction and host-side memory of a Kineto copy, for `Memcpy HtoD (Pinned -> Device)`.

    A direction nobody knows counts as device-side work, so that it never enters the overlap.
    """
    match = _COPY.match(name.strip())
    if match is None:
        return Kind.D2D, UNKNOWN_COPY, ""
    direction = _SPELLINGS.get(match[1].upper(), UNKNOWN_COPY)
    source, target = match[2] or "", match[3] or ""
    return direction_kind(direction), direction, host_side(direction, source, target)


def direction_kind(direction: str) -> Kind:
    """The class of a copy by CUPTI's spelling of its direction."""
    return _DIRECTIONS.get(direction, Kind.D2D)


def host_side(direction: str, source: str, target: str) -> str:
    """The kind of memory at the host's end of a copy; empty if neither end is the host's."""
    kind = direction_kind(direction)
    if kind is Kind.H2D:
        return source.strip().title()
    return target.strip().title() if kind is Kind.D2H else ""


def kernel_kind(name: str) -> tuple[Kind, str]:
    """Kind and direction of a kernel: ROCm runs some copies and memsets as kernels of its own."""
    if name.startswith("__amd_rocclr_"):
        if name.startswith("__amd_rocclr_copy"):
            return Kind.D2D, UNKNOWN_COPY
        if name.startswith("__amd_rocclr_fill"):
            return Kind.MEMSET, ""
    return Kind.KERNEL, ""


def profilers_own(overhead: str) -> bool:
    """Whether an overhead record is the profiler at work, not CUDA loading or filling its queue."""
    return _PROFILER.search(overhead) is not None


@functools.lru_cache(maxsize=4096)
def communicates(kernel: str) -> bool:
    """Whether a kernel is one of NCCL's (or RCCL's, which keeps the name)."""
    return "nccl" in kernel.lower()
