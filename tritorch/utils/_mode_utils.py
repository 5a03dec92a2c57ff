"""What is asked about modes."""

from __future__ import annotations

from typing import Any, TypeVar

from tritorch.compat.native.dispatch import DisableTorchDispatch

T = TypeVar("T")


def no_dispatch() -> DisableTorchDispatch:
    """Inside, neither classes nor dispatch modes see operators."""
    return DisableTorchDispatch()


def all_same_mode(modes: Any) -> bool:
    """Whether modes are one object."""
    return all(mode == modes[0] for mode in modes)
