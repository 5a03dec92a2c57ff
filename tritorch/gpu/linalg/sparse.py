"""Products with sparse matrices on the GPU; see kernels/matrices/sparse.py."""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch.gpu.linalg.matmul import triton_name
from tritorch.gpu.pointwise.layout import INT32_MAX, reach
from tritorch.gpu.reduce.reduction import accumulator
from tritorch.triton.kernel import kernel

Array = _C.Array


def _power_of_two(n: int, least: int, most: int) -> int:
    return min(max(1 << max(n - 1, 0).bit_length(), least), most)


def _wide(*arrays: Array) -> bool:
    return max(reach(a.shape, a.strides) for a in arrays) > INT32_MAX


def spmm(values: Array, x: Array, pattern: Any) -> Array:
    """y[r] = sum of values[k] x[col[k]] over row r's entries."""
    pointers, cols = pattern.pointers._array, pattern.cols._array
    n, m = pattern.shape[0], x.shape[1]
    out = _C.empty((n, m), x.dtype, x.device_index)
    values = values.contiguous()
    if out.numel() == 0:
        return out
    if x.dtype.is_complex:
        return _complex(values, x, pattern)
    block = _power_of_two(m, 16, 128)
    kernel("sparse", "spmm")(
        (n, -(-m // block)), values, cols, pointers, x, out, m, x.strides, m,
        COMPUTE=triton_name(accumulator(x.dtype)), WIDE=_wide(x, out),
        BLOCK_ENTRIES=1024 // block, BLOCK_COLS=block, num_warps=4,
    )  # fmt: skip
    return out


def _complex(values: Array, x: Array, pattern: Any) -> Array:
    """Gathered, multiplied and added in the entries' order, by other kernels."""
    wrap = _C.wrap
    rows, cols = pattern.rows, pattern.cols
    products = wrap(values).unsqueeze(1) * wrap(x).index_select(0, cols)
    out = products.new_zeros((pattern.shape[0], x.shape[1]))
    return out.index_add(0, rows, products)._array


def sampled_mm(x: Array, y: Array, pattern: Any) -> Array:
    """out[k] = sum over j of x[row[k], j] y[col[k], j]."""
    rows, cols = pattern.rows._array, pattern.cols._array
    out = _C.empty(rows.shape, x.dtype, x.device_index)
    if out.numel() == 0:
        return out
    if x.dtype.is_complex:
        wrap = _C.wrap
        left = wrap(x).index_select(0, pattern.rows)
        return (left * wrap(y).index_select(0, pattern.cols)).sum(1)._array
    inner = _power_of_two(x.shape[1], 16, 128)
    entries = 1024 // inner
    kernel("sparse", "sampled_mm")(
        (-(-out.numel() // entries),), x, y, rows, cols, out, out.numel(), x.shape[1], x.strides,
        y.strides, COMPUTE=triton_name(accumulator(x.dtype)), WIDE=_wide(x, y),
        BLOCK_ENTRIES=entries, BLOCK_INNER=inner, num_warps=4,
    )  # fmt: skip
    return out
