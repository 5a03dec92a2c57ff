"""Small functions that programs take from the compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tritorch.compiler import is_compiling as is_compiling


def wrap_inline(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function around another, for callables that are none."""

    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return inner
