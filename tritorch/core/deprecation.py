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
    the first time in a process."""

    def decorate(function: Any) -> Any:
        plain: Any = vars(function)["__init__"] if isinstance(function, type) else function

        @functools.wraps(plain)
        def warns(*args: Any, **kwargs: Any) -> Any:
            if once:
                warn_once(message, category, stacklevel=3)
            else:
                warnings.warn(message, category, stacklevel=2)
            return plain(*args, **kwargs)

        if not isinstance(function, type):
            return warns
        function.__init__ = warns  # type: ignore[misc]
        return function

    return decorate
