"""Defaults, errors and levels that all of torch.distributed shares."""

from __future__ import annotations

import enum
import functools
import os
from datetime import timedelta

from tritorch import _C

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_timeout: timedelta = timedelta(minutes=30)
default_pg_nccl_timeout: timedelta | None = None  # there is no NCCL

DistError = _C.distributed.DistError
DistBackendError = _C.distributed.DistBackendError
DistNetworkError = _C.distributed.DistNetworkError
DistStoreError = _C.distributed.DistStoreError
QueueEmptyError = _C.distributed.QueueEmptyError


class DebugLevel(enum.Enum):
    """How much TORCH_DISTRIBUTED_DEBUG asks for."""

    OFF = 0
    INFO = 1
    DETAIL = 2


_level = DebugLevel.OFF


def get_debug_level() -> DebugLevel:
    """The level that is set."""
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Sets the level."""
    global _level
    _level = level


def set_debug_level_from_env() -> None:
    """Sets the level that TORCH_DISTRIBUTED_DEBUG names."""
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise RuntimeError(
            "The value of TORCH_DISTRIBUTED_DEBUG must be one of OFF, INFO, or DETAIL."
        )
    set_debug_level(DebugLevel[name])


@functools.lru_cache(256)
def milliseconds(timeout: timedelta) -> int:
    """A timeout as the native half takes it."""
    return max(0, min(int(timeout.total_seconds() * 1000), 2**31 - 1))
