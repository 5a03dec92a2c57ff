"""torch.utils.deterministic: whether deterministic algorithms fill memory nobody has written."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

from tritorch.core import defaults

if TYPE_CHECKING:  # what is made at run time
    from tritorch.utils.deterministic_made import *  # noqa: F403


class _Settings(types.ModuleType):
    """The module, whose attribute is the setting."""

    @property
    def keep_own(self) -> bool:
        """True if operators run, while `use_deterministic_algorithms` is on, that are
        deterministic here and have no deterministic form in PyTorch."""
        return defaults.keeps_own_deterministic

    @keep_own.setter
    def keep_own(self, mode: bool) -> None:
        defaults.keeps_own_deterministic = bool(mode)

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether `torch.empty` and its like give NaN, or the largest integer, while
        `use_deterministic_algorithms` is on."""
        return defaults.get_fill_uninitialized_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        defaults.set_fill_uninitialized_memory(mode)


sys.modules[__name__].__class__ = _Settings
