"""Settings of Python's on which calls depend in addition to their arguments.

Whoever sets such a thing calls `_C.ambient_changes()` before; grad mode and inference mode are
compared natively.
"""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch.amp.state import state as autocast
from tritorch.core import defaults, precision
from tritorch.core.device import device_changes
from tritorch.core.scopes import ABOUT_TO_CHANGE, Scope, unchanged
from tritorch.ops.nn import attention

_numbers: dict[Any, int] = {}
_settings: list[Any] = []  # by number - 1

# Settings, by the modules and names that have them.
_KEPT: tuple[tuple[Any, str], ...] = (
    (defaults, "_default_dtype"), (defaults, "typed_home"), (defaults, "fills_memory"),
    (defaults, "_deterministic"), (defaults, "_deterministic_warn_only"),
    (defaults, "_warn_always"), (defaults, "kernels"), (precision, "matmul"),
    (precision, "convolution"), (attention, "_allowed"), (attention, "_ordered"),
)  # fmt: skip


def number() -> int:
    """A number for the present settings."""
    where = (0, 0)  # as it is before somebody loads the driver
    if _C.driver_loaded():
        device = _C.current_device()
        where = (device, _C.current_stream(device))
    settings = (
        tuple(getattr(module, name) for module, name in _KEPT), defaults.device(),
        autocast.caches, *autocast.enabled.items(), *autocast.dtypes.items(), where,
    )  # fmt: skip
    found = _numbers.get(settings)
    if found is None:
        _settings.append((*settings[:3], dict(autocast.enabled), dict(autocast.dtypes)))
        found = _numbers[settings] = len(_settings)
    return found


def as_then(then: int) -> Scope:
    """Inside, the settings are those of a number, except for streams."""
    if then == number():
        return unchanged
    kept, where, caches, enabled, dtypes = _settings[then - 1]
    return Scope(
        ABOUT_TO_CHANGE,
        (_C.set_autocast, any(enabled.values())),
        *((module, name, value) for (module, name), value in zip(_KEPT, kept)),
        (autocast, "caches", caches),
        (autocast, "enabled", dict(enabled)),
        (autocast, "dtypes", dict(dtypes)),
        (autocast, "cast", {}),
        *device_changes(where),
    )
