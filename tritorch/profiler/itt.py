"""Marks for Intel's profilers (`profiling/itt.py`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tritorch.profiling import itt

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Whether marks can be made; they reach a profiler where one runs."""
    return True


def range_push(msg: str) -> None:
    """Begins a range within the open one."""
    itt.push(msg)


def range_pop() -> None:
    """Ends the innermost range."""
    itt.pop()


def mark(msg: str) -> None:
    """A point in time."""
    itt.mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A named range while it is entered."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
