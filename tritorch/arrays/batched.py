"""Arrays with a hidden batch dim: what tensors hold inside `vmap`."""

from __future__ import annotations

import math
from typing import Any

from tritorch.arrays import arrays


class BatchedArray:
    """A batch of arrays of one shape that operators see as one array.

    `array` has the batch as its first dim; it may itself be batched (by an outer vmap).
    """

    __slots__ = ("array", "level", "ndim", "shape")

    def __init__(self, array: Any, level: int) -> None:
        self.array = array
        self.level = level
        self.shape: tuple[int, ...] = array.shape[1:]  # of one
        self.ndim = len(self.shape)

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.array.dtype

    @property
    def size(self) -> int:
        """The elements of one."""
        return math.prod(self.shape)

    def numel(self) -> int:
        """The elements of one."""
        return self.size

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides of one, in elements."""
        return arrays.strides_of(self.array)[1:]

    def storage_offset(self) -> int:
        """0: one is seen as if its memory began with it."""
        return 0

    @property
    def storage_nbytes(self) -> int:
        """The bytes from the first to the last element of one."""
        if self.size == 0:
            return 0
        reach = sum((n - 1) * step for n, step in zip(self.shape, self.strides)) + 1
        return reach * arrays.dtype_of(self.array).itemsize

    @property
    def device(self) -> Any:
        """Where the elements are."""
        return arrays.device_of(self.array)

    def is_contiguous(self) -> bool:
        """Whether each one is dense."""
        return arrays.is_contiguous(self.array)

    def numpy(self) -> Any:
        """Refused: a batch has no single value."""
        raise RuntimeError(
            "vmap: It looks like you're calling .item() or .numpy() on a Tensor. We don't support "
            "vmap over calling .item() on a Tensor, please try to rewrite what you're doing with "
            "other operations."
        )

    def data_ptr(self) -> int:
        """Refused: a batch has no single address."""
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


def innermost(array: Any) -> Any:
    """What a batch of batches is made of; any other array as it is."""
    while type(array) is BatchedArray:
        array = array.array
    return array
