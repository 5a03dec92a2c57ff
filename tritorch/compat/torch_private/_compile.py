"""Functions that a compiler leaves as they are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def _disable_dynamo(fn: Callable[..., Any] | None = None, recursive: bool = True) -> Any:
    """A function that is not followed; the compiler is not loaded before its first call."""
    if fn is None:
        return lambda function: _disable_dynamo(function, recursive)
    disabled: Any = None

    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        nonlocal disabled
        if disabled is None:
            from tritorch.compiler import disable

            disabled = disable(fn, recursive, reason="torch._disable_dynamo")
        return disabled(*args, **kwargs)

    return inner
