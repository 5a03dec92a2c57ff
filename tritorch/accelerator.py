"""The GPU without its name, as torch.accelerator: CUDA where there is a device, else nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tritorch import _C, cuda
from tritorch.core.device import cuda_index, device as Device
from tritorch.core.scopes import ABOUT_TO_CHANGE, Scope

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
    "device_count", "device_index", "empty_cache", "empty_host_cache", "get_device_capability",
    "get_memory_info", "get_rng_state", "is_available", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx",
    "set_device_index", "set_rng_state", "set_stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether there is a GPU."""
    return cuda.is_available()


def device_count() -> int:
    """How many GPUs there are."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> Device | None:
    """`device("cuda")`, or None where there is no GPU."""
    return Device("cuda") if cuda.is_available() else None


def empty_host_cache() -> None:
    """Gives back page-locked memory that nothing uses."""
    _there()
    _C.empty_pinned_cache()


def _there() -> None:
    if not cuda.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def _of_cuda(name: str) -> Callable[..., Any]:
    """torch.cuda's function, where there is a GPU."""
    function = getattr(cuda, name)

    @functools.wraps(function)
    def asked(*args: Any, **kwargs: Any) -> Any:
        _there()
        return function(*args, **kwargs)

    asked.__module__ = __name__
    return asked


empty_cache = _of_cuda("empty_cache")
get_rng_state = _of_cuda("get_rng_state")
set_rng_state = _of_cuda("set_rng_state")
max_memory_allocated = _of_cuda("max_memory_allocated")
max_memory_reserved = _of_cuda("max_memory_reserved")
memory_allocated = _of_cuda("memory_allocated")
memory_reserved = _of_cuda("memory_reserved")
memory_stats = _of_cuda("memory_stats")
reset_accumulated_memory_stats = _of_cuda("reset_accumulated_memory_stats")
reset_peak_memory_stats = _of_cuda("reset_peak_memory_stats")
get_memory_info = _of_cuda("mem_get_info")
current_stream = _of_cuda("current_stream")
set_stream = _of_cuda("set_stream")
synchronize = _of_cuda("synchronize")


def current_device_index() -> int:
    """The index of the current GPU of this thread."""
    _there()
    return cuda.current_device()


def set_device_index(device: Any) -> None:
    """Makes a GPU the current one of this thread; None does nothing."""
    _there()
    if device is not None:
        cuda.set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """What a device can: `supported_dtypes`."""
    import tritorch
    from tritorch.core import dtype as dtypes

    _there()
    cuda.get_device_properties(cuda_index(device))  # raises for one that is not there
    found = (getattr(tritorch, name, None) for name in dir(tritorch))
    return {"supported_dtypes": {d for d in found if isinstance(d, dtypes.dtype)}}


class device_index(Scope):
    """`with device_index(1):` makes that GPU current; None does nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self.prev_idx: int | None = None

    def changes(self) -> Any:
        if self.idx is None:
            return ()
        self.prev_idx = current_device_index()
        return ABOUT_TO_CHANGE, (_C.exchange_device, self.idx)
