"""Functions that PyTorch advises against: they say so and work."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from tritorch.core.defaults import warn_once


def deprecated(
    message: str, category: type[Warning] = FutureWarning, *, once: bool = False
) -> Callable[[Any], Any]:
    """Marks a function, or the class whose instances are made, as one that warns of itself; once:
    the first time in a process.

    A class warns in its own `__init__`, or in its own `__new__` (of named tuples)."""

    def decorate(function: Any) -> Any:
        plain: Any = function
        maker = ""
        if isinstance(function, type):
            maker = "__init__" if "__init__" in vars(function) else "__new__"
            plain = getattr(function, maker)

        @functools.wraps(plain)
        def warns(*args: Any, **kwargs: Any) -> Any:
            if once:
                warn_once(message, category, stacklevel=3)
            else:
                warnings.warn(message, category, stacklevel=2)
            return plain(*args, **kwargs)

        if not maker:
            return warns
        setattr(function, maker, staticmethod(warns) if maker == "__new__" else warns)
        return function

    return decorate
