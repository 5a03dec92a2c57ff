"""What NVIDIA's management library says of the GPUs, loaded when it is first asked.

The library counts the machine's GPUs, CUDA the visible ones: they are matched by their uuid.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from tritorch import _C
from tritorch.core.device import cuda_index

_ERRORS = {
    2: "invalid argument", 3: "not supported by this GPU", 4: "no permission", 6: "not found",
    9: "the driver is not loaded", 15: "the GPU is lost",
}  # fmt: skip


@functools.cache
def _library() -> Any:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        missing = ModuleNotFoundError(
            "nvidia-ml-py does not seem to be installed or it can't be imported."
        )
        missing.add_note(
            "libnvidia-ml.so.1 could not be loaded: it comes with NVIDIA's driver, and tells "
            "utilization, temperature, power and clocks of a GPU"
        )
        raise missing from error
    _check(library.nvmlInit_v2(), "nvmlInit")
    return library


def _check(status: int, call: str) -> None:
    if status:
        raise RuntimeError(f"{call}: {_ERRORS.get(status, 'error')} (NVML status {status})")


def _ask(call: str, *arguments: Any) -> None:
    _check(getattr(_library(), call)(*arguments), call)


def _handle(device: Any) -> Any:
    _library()
    wanted = str(_C.device_properties(cuda_index(device))["uuid"])
    name = (wanted if wanted.startswith("GPU-") else f"GPU-{wanted}").encode()
    handle = ctypes.c_void_p()
    _ask("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(name), ctypes.byref(handle))
    return handle


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Utilization(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in ("gpu", "memory")]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


def _number(call: str, device: Any, *kind: int) -> int:
    found = ctypes.c_uint()
    _ask(call, _handle(device), *map(ctypes.c_int, kind), ctypes.byref(found))
    return found.value


def _utilization(device: Any) -> _Utilization:
    found = _Utilization()
    _ask("nvmlDeviceGetUtilizationRates", _handle(device), ctypes.byref(found))
    return found


def device_memory_used(device: Any = None) -> int:
    """Bytes of the GPU's memory that are in use, by any process."""
    found = _Memory()
    _ask("nvmlDeviceGetMemoryInfo", _handle(device), ctypes.byref(found))
    return found.used


def memory_usage(device: Any = None) -> int:
    """Percent of the last sample's time in which memory was read or written."""
    return _utilization(device).memory


def utilization(device: Any = None) -> int:
    """Percent of the last sample's time in which a kernel ran."""
    return _utilization(device).gpu


def temperature(device: Any = None) -> int:
    """The GPU's temperature, in degrees Celsius."""
    return _number("nvmlDeviceGetTemperature", device, 0)


def power_draw(device: Any = None) -> int:
    """The GPU's power, in milliwatts."""
    return _number("nvmlDeviceGetPowerUsage", device)


def clock_rate(device: Any = None) -> int:
    """The clock of the multiprocessors, in MHz."""
    return _number("nvmlDeviceGetClockInfo", device, 1)


def list_gpu_processes(device: Any = None) -> str:
    """The processes that use a GPU, one a line, with their memory."""
    try:
        handle = _handle(device)
    except ModuleNotFoundError as error:
        return str(error)
    count = ctypes.c_uint(0)
    call = "nvmlDeviceGetComputeRunningProcesses_v3"
    getattr(_library(), call)(handle, ctypes.byref(count), None)  # how many there are
    found = (_Process * (count.value + 8))()
    count.value = len(found)
    _ask(call, handle, ctypes.byref(count), found)
    lines = [f"GPU:{cuda_index(device)}"]
    lines += [
        f"process {p.pid:>10d} uses {p.used / 2**20:>12.3f} MB GPU memory"
        for p in found[: count.value]
    ]
    return "\n".join(lines if count.value else [*lines, "no processes are running"])
