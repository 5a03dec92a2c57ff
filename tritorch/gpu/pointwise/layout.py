"""How the operands of a pointwise kernel lie in memory: pure functions, tested without a device."""

from __future__ import annotations

import struct
from collections.abc import Sequence

INT32_MAX = 2**31 - 1
LONG: set[str] = set()  # jit functions of which a thread computes two elements at most


def broadcast_strides(
    shape: Sequence[int], strides: Sequence[int], to: Sequence[int]
) -> tuple[int, ...]:
    """Strides by which an array of a shape is read as one of a shape that it broadcasts to."""
    lead = len(to) - len(shape)
    return (0,) * lead + tuple(
        0 if n == 1 and m != 1 else s for n, s, m in zip(shape, strides, to[lead:])
    )


def memory_order(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The dims from the slowest to the fastest in memory."""
    return sorted(range(len(shape)), key=lambda dim: (-strides[dim], dim))


def reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The largest offset of an element."""
    return sum((n - 1) * s for n, s in zip(shape, strides))


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements fill their memory without gaps or overlap, in any order of dims."""
    step = 1
    for dim in reversed(memory_order(shape, strides)):
        if shape[dim] == 1:
            continue
        if strides[dim] != step:
            return False
        step *= shape[dim]
    return True


def block_size(n_elements: int) -> tuple[int, int]:
    """Elements and warps of one program of a pointwise kernel."""
    if n_elements <= 2**14:
        return 256, 4
    return 1024, 4


def float_bits(value: float) -> int:
    """A float64 as kernels take it: arguments that are floats would arrive as float32."""
    return struct.unpack("<q", struct.pack("<d", value))[0]
