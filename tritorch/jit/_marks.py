"""Marks in a program's source that the compiler reads."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def _unwrap_optional(x: T | None) -> T:
    """The value; AssertionError for None."""
    assert x is not None, "Unwrapping null optional"
    return x


def annotate(the_type: Any, the_value: T) -> T:
    """The value, which is of this type where it is compiled."""
    return the_value
