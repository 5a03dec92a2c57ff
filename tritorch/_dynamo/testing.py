"""What tests of the compiler share and need no compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.ops import factory, random

__all__ = ["rand_strided"]


def rand_strided(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: Any = None,
    device: Any = "cpu",
    extra_size: int = 0,
) -> Tensor:
    """Random numbers in memory with these strides, and `extra_size` elements behind."""
    reach = sum((n - 1) * step for n, step in zip(size, stride)) + 1 + extra_size
    if dtype is None or dtype.is_floating_point or dtype.is_complex:
        memory = random.randn(reach, dtype=dtype, device=device)
    else:
        memory = factory.zeros(reach, dtype=dtype, device=device)
    return memory.as_strided(tuple(size), tuple(stride))
