"""What is asked about modes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tritorch._native_dispatch import DisableTorchDispatch

T = TypeVar("T")


@contextmanager
def no_dispatch() -> Iterator[None]:
    """Inside, neither classes nor dispatch modes see operators."""
    with DisableTorchDispatch():
        yield


def all_same_mode(modes: Any) -> bool:
    """Whether modes are one object."""
    return all(mode == modes[0] for mode in modes)
