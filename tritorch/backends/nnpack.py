"""torch.backends.nnpack: there is no NNPACK here."""

from __future__ import annotations

import sys

from tritorch.core.scopes import Scope, scoped

__all__ = ["flags", "is_available", "set_flags"]

_enabled_now = True


def is_available() -> bool:
    """False: convolutions on the CPU are NumPy's products."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Keeps whether it would be used, and tells what was kept."""
    global _enabled_now
    before, _enabled_now = _enabled_now, _enabled
    return (before,)


@scoped
def flags(enabled: bool = False) -> Scope:
    """Within it, the setting is this."""
    return Scope((sys.modules[__name__], "_enabled_now", enabled))
