"""Marks for NVIDIA's profilers, where NVTX's library can be opened; else PyTorch's error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tritorch.profiling import nvtx

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(msg: str) -> int:
    """Begins a range within the open one; how deep that is."""
    return nvtx.push(msg)


def range_pop() -> int:
    """Ends the innermost range; how deep it was."""
    return nvtx.pop()


def range_start(msg: str) -> int:
    """Begins a range that any thread can end."""
    return nvtx.start(msg)


def range_end(range_id: int) -> None:
    """Ends a range that was started."""
    nvtx.end(range_id)


def mark(msg: str) -> None:
    """A point in time."""
    nvtx.mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A named range while it is entered."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
