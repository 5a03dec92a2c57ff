"""Reads of reference functions by name: each is the public operator of that name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tritorch.core.tensor import Tensor

Getter = Callable[[str], Any]


def getter(own: str, public: str) -> Getter:
    """A module's `__getattr__` that gives the functions of a public module of tritorch."""

    def get(name: str) -> Any:
        places = () if name.startswith("__") else (importlib.import_module(public), Tensor)
        for place in places:
            function = getattr(place, name, None)
            if callable(function) and not isinstance(function, type):
                return function
        raise AttributeError(f"module {own!r} has no attribute {name!r}")

    return get
