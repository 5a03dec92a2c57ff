"""torch.backends.miopen: there is no MIOpen here."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from tritorch.backends import _flags

if TYPE_CHECKING:  # what is made at run time
    from tritorch.backends.miopen_made import *  # noqa: F403


class miopen:
    """The setting, which nothing asks for."""

    immediate = _flags.Flag(False)


def set_flags(_immediate: bool | None = None) -> tuple[Any, ...]:
    """Sets it where it is not None, and tells what it was."""
    values = {"immediate": _immediate}
    return tuple(_flags.exchange(sys.modules[__name__], values).values())


def flags(immediate: bool = False) -> contextlib.AbstractContextManager[None]:
    """Within it, the setting is this."""
    return _flags.within(sys.modules[__name__], {"immediate": immediate})


_flags.install(__name__, miopen)
