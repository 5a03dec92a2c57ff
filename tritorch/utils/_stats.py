"""Functions of which calls are counted."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

simple_call_counter: collections.OrderedDict[str, int] = collections.OrderedDict()


def count_label(label: str) -> None:
    """One more call of what a label says."""
    simple_call_counter[label] = simple_call_counter.get(label, 0) + 1


def count(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose calls are counted by its qualified name."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        count_label(fn.__qualname__)
        return fn(*args, **kwargs)

    return wrapper
