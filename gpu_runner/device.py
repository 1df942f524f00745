"""Which hardware there is, what it is doing, and at which clocks: from NVML, the driver, /proc.

NVML is optional (`pip install hostside[gpu]`). Every question to it may go unanswered on some
board or driver; an unanswered question is None in the record, never a guess.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpu_runner import link
from gpu_runner.errors import RunnerError
from gpu_runner.plain import one_line
from gpu_runner.records import Backend, Clocks, Device, Link

SM_CLOCK, MEMORY_CLOCK = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM


class DeviceMissingError(RunnerError):
    """The asked-for device is not in this machine."""


@dataclass(frozen=True)
class Found:
    """The backend that will be used, its device record, and how to read its clocks."""

    backend: Backend
    device: Device | None
    nvml: Any = None

    def clocks(self) -> Clocks | None:
        """The device's clocks now; None where nothing tells them."""
        if self.nvml is None or self.device is None or self.device.identifier is None:
            return None
        return clocks_of(self.nvml, self.device.identifier)


def find(asked: Backend, gpu: str | None = None) -> Found:
    """The hardware for this backend; `auto` is CUDA where a GPU answers, else the CPU."""
    if gpu is not None and asked in (Backend.MODEL, Backend.CPU):
        raise DeviceMissingError(f"the {asked} backend uses no GPU; leave out --gpu {gpu}")
    if asked is Backend.MODEL:
        return Found(Backend.MODEL, Device("model", "modelled GPU (modelled, not measured)"))
    if asked is not Backend.CPU:
        nvml = open_nvml()
        boards = tuple(nvml_devices(nvml)) if nvml is not None else tuple(driver_devices())
        chosen = _chosen(boards, gpu)
        if chosen is not None:
            return Found(Backend.CUDA, chosen, nvml)
        if asked is Backend.CUDA or gpu is not None:
            wanted = f" {gpu}" if gpu else ""
            there = ", ".join(each.name for each in boards) or "none"
            raise DeviceMissingError(
                f"no CUDA device{wanted} answers here (devices: {there}); `hostside doctor` "
                "says why, and --backend cpu measures wall time without one"
            )
    return Found(Backend.CPU, processor())


def with_link(found: Found, device: Device) -> Found:
    """The same with the link's measured rates, which say what times are possible at all."""
    measured = link.measure(device.identifier)
    if measured is None:
        return found
    known = device.link or Link()
    whole = replace(measured, generation=known.generation, width=known.width)
    return replace(found, device=replace(device, link=whole))


def _chosen(boards: tuple[Device, ...], gpu: str | None) -> Device | None:
    for index, board in enumerate(boards):
        if gpu is None or gpu in (str(index), board.identifier) or gpu in board.name:
            return board
    return None


def processor() -> Device:
    """This machine's CPU."""
    name = platform.machine() or "unknown processor"
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = one_line(value, 200) or name
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0))
    return Device("cpu", name, memory_bytes=memory, cores=cores)


def open_nvml() -> Any:
    """The initialised NVML module, or None where it or the driver is missing."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # NVML's own errors, a missing library, an ancient module: all mean "no"
        return None
    return nvml


def nvml_devices(nvml: Any) -> Iterator[Device]:
    """A record per board that NVML knows."""
    driver = _ask(nvml, "nvmlSystemGetDriverVersion")
    for index in range(_ask(nvml, "nvmlDeviceGetCount") or 0):
        handle = _ask(nvml, "nvmlDeviceGetHandleByIndex", index)
        memory = _ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
        busy = _ask(nvml, "nvmlDeviceGetComputeRunningProcesses", handle)
        link = Link(
            generation=_ask(nvml, "nvmlDeviceGetCurrPcieLinkGeneration", handle),
            width=_ask(nvml, "nvmlDeviceGetCurrPcieLinkWidth", handle),
        )
        yield Device(
            "cuda",
            _text(_ask(nvml, "nvmlDeviceGetName", handle)) or "CUDA device",
            identifier=_text(_ask(nvml, "nvmlDeviceGetUUID", handle)),
            driver=_text(driver),
            memory_bytes=getattr(memory, "total", None),
            link=link,
            shared=bool(busy),
            persistence=_flag(_ask(nvml, "nvmlDeviceGetPersistenceMode", handle)),
            ecc=_flag(_ask(nvml, "nvmlDeviceGetEccMode", handle)),
            mig=_flag(_ask(nvml, "nvmlDeviceGetMigMode", handle)),
        )


def clocks_of(nvml: Any, identifier: str) -> Clocks:
    """Clocks, temperature, power and the reasons for which the clocks are not higher."""
    handle = _ask(nvml, "nvmlDeviceGetHandleByUUID", identifier)
    reasons = _ask(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
    if reasons is None:  # its name before driver 535
        reasons = _ask(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    power = _ask(nvml, "nvmlDeviceGetPowerUsage", handle)
    return Clocks(
        sm_mhz=_ask(nvml, "nvmlDeviceGetClockInfo", handle, SM_CLOCK),
        default_sm_mhz=_ask(nvml, "nvmlDeviceGetDefaultApplicationsClock", handle, SM_CLOCK),
        memory_mhz=_ask(nvml, "nvmlDeviceGetClockInfo", handle, MEMORY_CLOCK),
        temperature=_ask(nvml, "nvmlDeviceGetTemperature", handle, 0),
        watts=None if power is None else power / 1000,
        reasons=reasons or 0,
    )


def _ask(nvml: Any, question: str, *about: Any) -> Any:
    try:
        return getattr(nvml, question)(*about)
    except Exception:  # not supported by this board, or not known to this NVML
        return None


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return one_line(value if isinstance(value, bytes) else str(value), 200) or None


def _flag(value: Any) -> bool | None:
    """NVML answers with a number, or with current and pending."""
    with contextlib.suppress(TypeError, LookupError):
        value = value[0]
    return None if value is None else bool(value)


def driver_devices() -> Iterator[Device]:
    """A record per board as the CUDA driver tells it, where NVML cannot be asked."""
    try:
        driver: Any = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    count, version = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return
    driver.cuDriverGetVersion(ctypes.byref(version))
    for index in range(count.value):
        name, raw, size = (
            ctypes.create_string_buffer(200),
            (ctypes.c_ubyte * 16)(),
            ctypes.c_size_t(),
        )
        driver.cuDeviceGetName(name, 200, index)
        driver.cuDeviceGetUuid(raw, index)
        driver.cuDeviceTotalMem_v2(ctypes.byref(size), index)
        word = bytes(raw).hex()
        parts = (word[:8], word[8:12], word[12:16], word[16:20], word[20:])
        yield Device(
            "cuda",
            _text(name.value) or "CUDA device",
            identifier="GPU-" + "-".join(parts),
            driver=f"CUDA {version.value // 1000}.{version.value % 1000 // 10}",
            memory_bytes=size.value,
        )
