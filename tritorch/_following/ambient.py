"""What calls depend on beside their arguments, as far as it is set in Python.

Whoever sets such a thing calls `_C.ambient_changes()` before; grad mode and inference mode are
compared natively.
"""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch.amp.state import state as autocast
from tritorch.core import defaults, precision

_numbers: dict[Any, int] = {}


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
