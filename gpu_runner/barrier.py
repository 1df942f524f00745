"""Waits until the device has finished everything, by the driver's own call where there is one.

Made before any code under test is imported: Python code can replace `torch.cuda.synchronize`, but
not the driver's function that ctypes has already looked up. Runs inside the sandbox.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

INVALID_CONTEXT = 201  # nothing was launched from this thread yet


class DeviceError(RuntimeError):
    """The device reported an error while finishing its work."""


class Barrier:
    """Calls the driver's device-wide wait; without a driver it only asks the frameworks."""

    def __init__(self, cuda: bool) -> None:
        self._driver: Any = None
        self._context = ctypes.c_void_p()
        if cuda:
            self._open()

    def _open(self) -> None:
        try:
            driver: Any = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return
        device = ctypes.c_int()
        ready = (
            driver.cuInit(0) == 0
            and driver.cuDeviceGet(ctypes.byref(device), 0) == 0
            and driver.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), device) == 0
        )
        if ready:
            self._driver = driver

    @property
    def by_driver(self) -> bool:
        """True when the wait is the driver's."""
        return self._driver is not None

    def wait(self, output: Any = None) -> None:
        """Returns once no work is pending on the device; `output` is what a call returned."""
        if self._driver is None:
            _ask_frameworks(output)
            return
        own = self._driver.cuCtxSynchronize()  # a context of the code's own, such as PyCUDA's
        popped = ctypes.c_void_p()
        self._driver.cuCtxPushCurrent_v2(self._context)
        shared = self._driver.cuCtxSynchronize()
        self._driver.cuCtxPopCurrent_v2(ctypes.byref(popped))
        for code in (own, shared):
            if code not in (0, INVALID_CONTEXT):
                raise DeviceError(f"the device reports CUDA error {code}")


def _ask_frameworks(output: Any) -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():  # ROCm speaks through the same name
        torch.cuda.synchronize()
    jax = sys.modules.get("jax")
    if jax is not None:
        jax.block_until_ready(output)
