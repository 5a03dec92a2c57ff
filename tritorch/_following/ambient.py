"""What calls depend on beside their arguments, as far as it is set in Python.

Whoever sets such a thing calls `_C.ambient_changes()` before; grad mode and inference mode are
compared natively.
"""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch.amp.state import set_autocast_dtype, set_autocast_enabled, state as autocast
from tritorch.core import defaults, precision

_numbers: dict[Any, int] = {}


class Ambience:
    """What is set now: `with ambience:` it is set again."""

    def __init__(self) -> None:
        self.enabled, self.dtypes = dict(autocast.enabled), dict(autocast.dtypes)
        self.dtype = defaults.dtype()

    def __enter__(self) -> None:
        self.before = Ambience()
        self._set()

    def __exit__(self, *exception: object) -> None:
        self.before._set()

    def _set(self) -> None:
        for kind in self.enabled:
            set_autocast_enabled(kind, self.enabled[kind])
            set_autocast_dtype(kind, self.dtypes[kind])
        defaults.set_default_dtype(self.dtype)


def number() -> int:
    """A number for what is set now."""
    where: tuple[int, ...] = ()
    if _C.driver_loaded():
        device = _C.current_device()
        where = (device, _C.current_stream(device))
    settings = (
        defaults.dtype(), defaults.device(), defaults.typed_home, defaults.fills_memory,
        defaults._deterministic, precision.matmul, precision.convolution, autocast.caches,
        *autocast.enabled.values(), *autocast.dtypes.values(), where,
    )  # fmt: skip
    return _numbers.setdefault(settings, len(_numbers) + 1)
