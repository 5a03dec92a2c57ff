"""Arrays (N, C, spatial...) as kernels see them: always with three spatial dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.core.dtype import dtype
from tritorch.gpu.layout import INT32_MAX, reach

Array = _C.Array
Ints = tuple[int, ...]


def three(values: Sequence[Any], missing: Any = 1) -> tuple[Any, ...]:
    """A value for each of three spatial dims, the missing ones in front."""
    return (missing,) * (3 - len(values)) + tuple(values)


def five_strides(x: Array) -> Ints:
    """Strides of N, C and three spatial dims."""
    return x.strides[:2] + three(x.strides[2:], 0)


def is_channels_last(x: Array) -> bool:
    """Whether the channels lie side by side, and the images are dense in that order."""
    moved = x.permute(0, *range(2, x.ndim), 1)
    return x.ndim > 3 and not x.is_contiguous() and moved.is_contiguous()


def empty_images(shape: Sequence[int], kind: dtype, like: Array) -> Array:
    """An uninitialised array, with its channels last if those of `like` are."""
    if not is_channels_last(like):
        return _C.empty(shape, kind, like.device_index)
    moved = _C.empty((shape[0], *shape[2:], shape[1]), kind, like.device_index)
    return moved.permute(0, len(shape) - 1, *range(1, len(shape) - 1))


def is_wide(*arrays: Array) -> bool:
    """Whether offsets need 64 bits."""
    return any(reach(x.shape, x.strides) > INT32_MAX // 2 for x in arrays)
