"""Devices and clocks as NVML tells them, with a board of our own behind it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpu_runner.device import DeviceMissingError, Found, clocks_of, find, nvml_devices, processor
from gpu_runner.records import Backend, Device
from gpu_runner.stats import spoilt


def board(**more: Any) -> SimpleNamespace:
    """What `pynvml` would answer for one board; a missing function is a question unanswered."""
    answers = {
        "nvmlSystemGetDriverVersion": lambda: "570.1",
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetHandleByUUID": lambda _: 0,
        "nvmlDeviceGetName": lambda _: b"Test \x1b[31mBoard",
        "nvmlDeviceGetUUID": lambda _: "GPU-1",
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=80 << 30),
        "nvmlDeviceGetComputeRunningProcesses": lambda _: [],
        "nvmlDeviceGetPersistenceMode": lambda _: 1,
        "nvmlDeviceGetEccMode": lambda _: [0, 1],
        "nvmlDeviceGetClockInfo": lambda _, kind: {1: 1980, 2: 3200}[kind],
        "nvmlDeviceGetDefaultApplicationsClock": lambda _, kind: 1980,
        "nvmlDeviceGetTemperature": lambda _, kind: 41,
        "nvmlDeviceGetPowerUsage": lambda _: 118_500,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: 0,
    }
    return SimpleNamespace(**{**answers, **more})


def test_what_nvml_answers_is_recorded_and_what_it_does_not_stays_unknown() -> None:
    (found,) = nvml_devices(board())
    assert found == Device(
        "cuda",
        "Test Board",
        identifier="GPU-1",
        driver="570.1",
        memory_bytes=80 << 30,
        link=found.link,
        shared=False,
        persistence=True,
        ecc=False,
    )
    assert found.mig is None


def test_other_processes_make_it_a_shared_gpu() -> None:
    (found,) = nvml_devices(board(nvmlDeviceGetComputeRunningProcesses=lambda _: [object()]))
    assert found.shared


def test_clocks_are_read_whatever_the_driver_calls_their_reasons() -> None:
    clocks = clocks_of(board(), "GPU-1")
    assert (clocks.sm_mhz, clocks.memory_mhz, clocks.watts) == (1980, 3200, 118.5)
    assert spoilt(clocks) is None
    hot = clocks_of(board(nvmlDeviceGetCurrentClocksEventReasons=lambda _: 0x40), "GPU-1")
    assert spoilt(hot) == "the GPU was throttled: thermal slowdown (hardware)"


def test_without_a_gpu_the_cpu_is_used_and_has_a_record() -> None:
    found = find(Backend.CPU)
    assert found == Found(Backend.CPU, processor())
    assert found.device is not None
    assert found.device.cores is not None
    assert found.device.cores > 0
    assert found.clocks() is None


def test_a_device_that_is_not_there_is_refused_with_the_way_out() -> None:
    with pytest.raises(DeviceMissingError, match=r"no CUDA device Imaginary.*doctor"):
        find(Backend.CUDA, "Imaginary")


def test_the_model_never_looks_measured() -> None:
    device = find(Backend.MODEL).device
    assert device is not None
    assert "modelled, not measured" in device.name
