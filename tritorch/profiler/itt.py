"""Marks for Intel's profilers: their library is not there, as PyTorch says without it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Whether marks reach a profiler."""
    return False


def mark(*args: Any, **kwargs: Any) -> NoReturn:
    """Says that ITT is not there."""
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


range_push = range_pop = mark


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A named range while it is entered."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
