"""What a checker of types must be told."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def not_none(obj: T | None) -> T:
    """What is given, which is not None."""
    if obj is None:
        raise TypeError("Invariant encountered: value was None when it should not be")
    return obj
