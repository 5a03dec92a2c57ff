"""NVTX by the library that NVIDIA's toolkits bring, where it can be opened: ranges and marks."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

_LIBRARIES = ("libnvToolsExt.so.1", "libnvToolsExt.so")
MISSING = "NVTX functions not installed. Are you sure you have a CUDA build?"


@functools.cache
def _library() -> Any:
    for name in _LIBRARIES:
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        found.nvtxRangeStartA.restype = ctypes.c_uint64
        found.nvtxRangeEnd.argtypes = [ctypes.c_uint64]
        return found
    return None


def require() -> Any:
    """The library; RuntimeError without it."""
    found = _library()
    if found is None:
        raise RuntimeError(MISSING)
    return found


def push(message: str) -> int:
    """Begins a range within the open one; how deep that is."""
    return int(require().nvtxRangePushA(message.encode()))


def pop() -> int:
    """Ends the innermost range; how deep it was."""
    return int(require().nvtxRangePop())


def start(message: str) -> int:
    """Begins a range that any thread can end."""
    return int(require().nvtxRangeStartA(message.encode()))


def end(number: int) -> None:
    """Ends a range that was started."""
    require().nvtxRangeEnd(number)


def mark(message: str) -> None:
    """A point in time."""
    require().nvtxMarkA(message.encode())
