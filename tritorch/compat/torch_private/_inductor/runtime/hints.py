"""Hints about a kernel for those who launch it."""

from __future__ import annotations

import enum
import functools
from typing import Any, NamedTuple

TRITON_MAX_BLOCK = {"X": 4096, "Y": 1024, "Z": 1024, "R0_": 4096 * 16, "R1_": 2048 * 16}
TRITON_MAX_RSPLIT = 64
TRITON_MAX_TENSOR_NUMEL = 1 << 20


class ReductionHint(enum.Enum):
    """The dim that a reduction is over, by where it lies in memory."""

    INNER = 0
    OUTER = 1
    OUTER_TINY = 2
    DEFAULT = 3


class TileHint(enum.Enum):
    """The shape of tiles."""

    SQUARE = 0
    DEFAULT = 1


class HeuristicType(enum.Enum):
    """The kind of a kernel."""

    PERSISTENT_REDUCTION = enum.auto()
    POINTWISE = enum.auto()
    REDUCTION = enum.auto()
    SPLIT_SCAN = enum.auto()
    TEMPLATE = enum.auto()
    USER_AUTOTUNE = enum.auto()
    FIXED = enum.auto()


class AutotuneHint(enum.Enum):
    """Configurations that autotuning tries beside the rest."""

    ONE_ELEMENT_PER_THREAD = 0

    def __repr__(self) -> str:
        return self.__str__()


class DeviceProperties(NamedTuple):
    """A device as those who choose launches know it."""

    type: str
    index: int  # type: ignore[assignment]
    multi_processor_count: int
    cc: Any
    major: int | None = None
    regs_per_multiprocessor: int | None = None
    max_threads_per_multi_processor: int | None = None
    max_threads_per_block: int | None = None
    warp_size: int | None = None

    @classmethod
    @functools.cache
    def create(cls, device: Any) -> DeviceProperties:
        """The properties of a device."""
        from tritorch import cuda

        if device.type != "cuda":
            return cls(device.type, device.index or 0, 1, device.type)
        index = cuda.current_device() if device.index is None else device.index
        found = cuda.get_device_properties(index)
        return cls(
            "cuda", index, found.multi_processor_count, 10 * found.major + found.minor,
            found.major, found.regs_per_multiprocessor, found.max_threads_per_multi_processor,
            getattr(found, "max_threads_per_block", None), found.warp_size,
        )  # fmt: skip
