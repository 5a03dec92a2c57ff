"""torch.backends.mkldnn: there is no oneDNN here."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from tritorch.backends import _flags, mkl

VERBOSE_OFF = 0
VERBOSE_ON = 1
VERBOSE_ON_CREATION = 2


def is_available() -> bool:
    """False: the CPU is NumPy."""
    return False


class verbose(mkl.verbose):
    """`with verbose(level):` changes nothing without oneDNN."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.level = level


class mkldnn:
    """The settings, which nothing asks for."""

    enabled = _flags.Flag(True)
    deterministic = _flags.Flag(False)
    allow_tf32 = _flags.Flag(True)


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[Any, ...]:
    """Sets those that are not None, and tells what all were."""
    values = {"enabled": _enabled, "deterministic": _deterministic, "allow_tf32": _allow_tf32}
    return tuple(_flags.exchange(sys.modules[__name__], values).values())


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> contextlib.AbstractContextManager[None]:
    """Within it, the settings are these."""
    values = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32}
    return _flags.within(sys.modules[__name__], values)


_flags.install(__name__, mkldnn)
