"""Functions that run in a forked process before anything else."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = ["register_after_fork"]


def register_after_fork(func: Callable[[], Any]) -> None:
    """Calls a function in every process that is forked from this one."""
    os.register_at_fork(after_in_child=func)
