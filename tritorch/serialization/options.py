"""What save() and load() are told outside their arguments: byte order, mmap flags, checksums."""

from __future__ import annotations

import enum
import mmap
import threading
from typing import Any

from tritorch.core.scopes import Scope, ScopeWhenMade
from tritorch.core.thread_state import carried


class LoadEndianness(enum.Enum):
    """The byte order of checkpoints that don't say theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Options(threading.local):
    """Those of one thread, within context managers."""

    skip_data = False


class _Settings:
    """Those of the process."""

    endianness: LoadEndianness | None = None
    mmap_flags = mmap.MAP_PRIVATE
    compute_crc32 = True
    storage_alignment = 64


options = carried(_Options())
settings = _Settings()


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order assumed for checkpoints without a `byteorder` record; None is little."""
    return settings.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Sets the byte order assumed for checkpoints without a `byteorder` record."""
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    settings.endianness = endianness


def get_crc32_options() -> bool:
    """Whether save() computes a crc32 for each record."""
    return settings.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Whether save() computes a crc32 for each record; without, damage goes unnoticed."""
    settings.compute_crc32 = bool(compute_crc32)


def get_default_mmap_options() -> int:
    """How load(mmap=True) maps: mmap.MAP_PRIVATE or mmap.MAP_SHARED."""
    return settings.mmap_flags


class set_default_mmap_options(ScopeWhenMade):
    """Sets how load(mmap=True) maps, for good or, as a context manager, for a while."""

    def changes(self, flags: int) -> Any:
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected "
                f"mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got {flags}"
            )
        return ((settings, "mmap_flags", flags),)


class skip_data(Scope):
    """Within, save() leaves storages as empty space and load() leaves them as zeros."""

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def changes(self) -> Any:
        return ((options, "skip_data", True),)
