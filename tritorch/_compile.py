"""Functions that a compiler leaves as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _disable_dynamo(fn: Callable[..., Any] | None = None, recursive: bool = True) -> Any:
    """A function that a compiler calls as it is: every one, as nothing is compiled here."""
    if fn is None:
        return lambda function: function
    return fn
