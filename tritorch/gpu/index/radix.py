"""The radix sort on the GPU: see Note [Radix passes] in kernels/radix.py."""

from __future__ import annotations

import math

from tritorch import _C
from tritorch.core.dtype import dtype, int64
from tritorch.gpu.pointwise.layout import INT32_MAX, reach
from tritorch.gpu.reduce import scan
from tritorch.triton.kernel import kernel

Array = _C.Array

_PART = 32  # keys that a warp compares with each other
_FEW = 2**17  # keys that are not enough for programs of many
_SIGNIFICANT = {"float16": 19, "bfloat16": 16}  # high bits, of their order as float32


def passes(kind: dtype) -> tuple[list[int], bool]:
    """The first bit of each digit of a dtype's keys, and whether the last digit holds a sign."""
    if kind.name in _SIGNIFICANT:
        return list(range(32 - _SIGNIFICANT[kind.name], 32, 8)), True
    signed = kind.itemsize > 2 or kind.is_signed  # keys of 32 and 64 bits always are
    return list(range(0, kind.itemsize * 8, 8)), signed


def sort_rows(
    x: Array, shifts: list[int], signed: bool, descending: bool, key_kind: dtype, order_kind: dtype
) -> tuple[Array, Array]:
    """Keys (kernels/sorting.py, `ordered`) in order and where each was, along the last dim, as
    (rows, n).  shifts, signed: the digits, see `passes`."""
    n, n_rows, index = x.shape[-1], math.prod(x.shape[:-1]), x.device_index
    block = 256 if n_rows * n <= _FEW else 1024
    n_blocks = -(-n // block)
    n_counts = n_rows * 256 * n_blocks
    counts = _C.empty((n_counts + 1,), int64, index)
    fresh = lambda: (
        _C.empty((n_rows, n), key_kind, index), _C.empty((n_rows, n), order_kind, index)
    )  # fmt: skip
    wide = max(reach(x.shape, x.strides), n_rows * n) > INT32_MAX - block
    keys, order = x, None
    spare: list[tuple[Array, Array]] = []
    for shift in shifts:
        first = shift == shifts[0]
        dims, (row_strides,) = _C.collapse(keys.shape[:-1], [keys.strides[:-1]])
        if not dims:
            dims, row_strides = (1,), (0,)
        layout = dims, row_strides, keys.strides[-1]
        digit = n, n_blocks, shift, 128 if signed and shift == shifts[-1] else 0
        constants = {
            "DESCENDING": descending and first, "NDIM": len(dims), "WIDE": wide, "BLOCK": block,
        }  # fmt: skip
        grid = (n_rows * n_blocks,)
        kernel("radix", "radix_count")(
            grid, keys, counts, *digit, *layout, **constants, num_warps=4
        )
        scan.sums_before(counts, n_counts)
        target = spare.pop() if spare else fresh()
        kernel("radix", "radix_move")(
            grid, keys, target[1] if order is None else order, counts, *target, *digit,
            int(first), *layout, PART=_PART, **constants, num_warps=1,
        )  # fmt: skip
        if order is not None:
            spare.append((keys, order))
        keys, order = target
    assert order is not None
    return keys, order
