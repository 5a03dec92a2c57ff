"""Sorting and searching on the GPU."""

from __future__ import annotations

import math
from typing import Any

from tritorch import _C
from tritorch._triton.kernel import kernel
from tritorch.core.dtype import int32, int64
from tritorch.gpu.layout import INT32_MAX, reach

Array = _C.Array
_WIDE_KEYS = ("int64", "uint64", "float64")


def _power_of_2(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _grid(n: int, block: int) -> tuple[int]:
    return (-(-n // block),)


def block_of(n: int) -> int:
    """How many elements one program sorts."""
    return min(max(_power_of_2(n), 16), 1024)


def sort_last(x: Array, descending: bool = False, keep: int | None = None) -> tuple[Array, Array]:
    """Sorted keys (see kernels/sorting.py, `ordered`) and places along the last dim, as (rows, n).

    Rows are the other dims, row-major.  keep: only the first so many are needed.
    """
    n = x.shape[-1]
    n_rows = math.prod(x.shape[:-1])
    keep = n if keep is None else keep
    block = block_of(n)
    if n > block and keep * 2 <= block:
        keys, order = _sort_blocks(x, None, descending, keep)
        while keys.shape[1] > block_of(keys.shape[1]):
            keys, order = _sort_blocks(keys, order, False, keep)
        keys, order = _sort_blocks(keys, order, False, keep)
        return keys, order
    keys, order = _sort_blocks(x, None, descending, block)
    run = block
    total = n_rows * n
    wide = total > INT32_MAX // 2
    while run < n:
        into = _C.empty(keys.shape, keys.dtype, x.device_index)
        order_into = _C.empty(order.shape, order.dtype, x.device_index)
        kernel("sorting", "merge_runs")(
            _grid(total, 512), keys, order, into, order_into, total, n, run, run.bit_length(),
            WIDE=wide, BLOCK=512, num_warps=4,
        )  # fmt: skip
        keys, order = into, order_into
        run *= 2
    return keys, order


def _sort_blocks(
    x: Array, order_in: Array | None, descending: bool, keep: int
) -> tuple[Array, Array]:
    """Blocks of rows sorted by themselves, the first `keep` of each."""
    n = x.shape[-1]
    rows = x.shape[:-1]
    n_rows = math.prod(rows)
    block = block_of(n)
    blocks = -(-n // block)
    # All blocks but the last are full, so that they keep as many.
    n_out = (blocks - 1) * min(keep, block) + min(keep, n - (blocks - 1) * block)
    keep = min(keep, block)
    index = x.device_index
    wide_keys = x.dtype.name in _WIDE_KEYS
    keys = _C.empty((n_rows, n_out), int64 if wide_keys else int32, index)
    order = _C.empty((n_rows, n_out), int32 if n <= INT32_MAX else int64, index)
    if order_in is not None:
        order = _C.empty((n_rows, n_out), order_in.dtype, index)
    if n_rows * n == 0:
        return keys, order
    block_rows = max(1, min(512 // block, _power_of_2(n_rows)))
    strides = x.strides
    dims, (row_strides,) = _C.collapse(rows, [strides[:-1]])
    if not dims:
        dims, row_strides = (1,), (0,)
    wide = max(reach(x.shape, strides), n_rows * n) > INT32_MAX // 2
    kernel("sorting", "sort_blocks")(
        (blocks * -(-n_rows // block_rows),), x, order if order_in is None else order_in, keys,
        order, n_rows, n, n_out, keep, dims, row_strides, strides[-1],
        HAS_ORDER=order_in is not None, DESCENDING=descending, NDIM=len(dims), WIDE=wide,
        BLOCK_ROWS=block_rows, BLOCK=block,
        LOG_BLOCK=block.bit_length() - 1, num_warps=4 if block_rows * block >= 256 else 1,
    )  # fmt: skip
    return keys, order
