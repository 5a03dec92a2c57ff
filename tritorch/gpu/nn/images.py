"""Arrays (N, C, spatial...) as kernels see them: always with three spatial dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.core.dtype import dtype
from tritorch.gpu.pointwise.layout import INT32_MAX, reach

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


def last_strides(shape: Sequence[int]) -> Ints:
    """The strides of dense images whose channels lie side by side."""
    strides, step = [], shape[1]
    for size in reversed(shape[2:]):
        strides.append(step)
        step *= max(size, 1)
    return (step, 1, *reversed(strides))


def new_images(shape: Sequence[int], like: Array, last: bool) -> Array:
    """An uninitialised array of the type of `like`; last: its channels lie side by side."""
    if not last:
        return _C.empty(shape, like.dtype, like.device_index)
    return _C.empty_strided(shape, last_strides(shape), like.dtype, like.device_index)


def empty_images(shape: Sequence[int], kind: dtype, like: Array) -> Array:
    """An uninitialised array, with its channels last if those of `like` are."""
    if not is_channels_last(like):
        return _C.empty(shape, kind, like.device_index)
    return _C.empty_strided(shape, last_strides(shape), kind, like.device_index)


def channels_dense(x: Array) -> bool:
    """Whether the channels lie side by side and the images are dense; both orders may be one."""
    return x.permute(0, *range(2, x.ndim), 1).is_contiguous()


def is_wide(*arrays: Array) -> bool:
    """Whether offsets need 64 bits."""
    return any(reach(x.shape, x.strides) > INT32_MAX // 2 for x in arrays)


def grouped(weight: Array, groups: int, swap: bool) -> Array:
    """A weight as (group, out, in, three spatial dims); swap: its first dim is `in`."""
    rows = weight.shape[0] // groups
    strides, spatial = weight.strides, three(weight.shape[2:])
    shape, steps = (rows, weight.shape[1]), strides[:2]
    if swap:
        shape, steps = (shape[1], shape[0]), (steps[1], steps[0])
    return weight.as_strided(
        (groups, *shape, *spatial), (rows * strides[0], *steps, *three(strides[2:], 0))
    )
