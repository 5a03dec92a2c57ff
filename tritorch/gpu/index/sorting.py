"""Sorting and searching on the GPU.

Keys are integers in the order of the elements.  Blocks of rows are sorted by themselves, then runs
are merged, or, where that would take more passes than keys have bytes, long rows are sorted by
digits (radix.py).  Where a few elements of each row are wanted, blocks pass on only so many.
"""

from __future__ import annotations

import math

import numpy as np

from tritorch import _C
from tritorch.core.dtype import dtype, float32, float64, from_numpy_dtype, int32, int64
from tritorch.gpu.index import indexing, radix
from tritorch.gpu.pointwise import pointwise
from tritorch.gpu.pointwise.layout import INT32_MAX, block_size, reach
from tritorch.gpu.reduce import scan
from tritorch.triton.kernel import kernel

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
    shifts, signed = radix.passes(x.dtype)
    if n_rows and math.log2(max(n, 1) / block) > len(shifts):
        return radix.sort_rows(x, shifts, signed, descending, *_kinds(x))
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


def _kinds(x: Array) -> tuple[dtype, dtype]:
    """The dtypes of the keys of x and of places in its rows."""
    keys = int64 if x.dtype.name in _WIDE_KEYS else int32
    return keys, int32 if x.shape[-1] <= INT32_MAX else int64


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
    key_kind, order_kind = _kinds(x)
    keys = _C.empty((n_rows, n_out), key_kind, index)
    order = _C.empty((n_rows, n_out), order_kind if order_in is None else order_in.dtype, index)
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
        LOG_BLOCK=block.bit_length() - 1, N_BITS=(block_rows * block).bit_length() - 1,
        num_warps=4 if block_rows * block >= 256 else 1,
    )  # fmt: skip
    return keys, order


# ---- along a dim --------------------------------------------------------------------------------


def _last(x: Array, dim: int) -> Array:
    """A view with a dim moved to the end."""
    return x.permute([*(i for i in range(x.ndim) if i != dim), dim])


def _places(order: Array, shape: tuple[int, ...], dim: int) -> Array:
    """Rows of places as int64, dense in the shape whose dim they run along."""
    out = _C.empty(shape, int64, order.device_index)
    if out.numel():
        view = _last(out, dim)
        view.copy_(order.reshape(view.shape))
    return out


def _sized(shape: tuple[int, ...], dim: int, n: int) -> tuple[int, ...]:
    return (*shape[:dim], n, *shape[dim + 1 :])


def _with_values(x: Array, dim: int, places: Array) -> tuple[Array, Array]:
    return indexing.gather(x, dim, places), places


def sort(x: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    """Values in order, and where they were."""
    _, order = sort_last(_last(x, dim), descending)
    return _with_values(x, dim, _places(order, x.shape, dim))


def topk(x: Array, k: int, dim: int, largest: bool) -> tuple[Array, Array]:
    """The k largest or smallest, in order."""
    shape = _sized(x.shape, dim, k)
    if math.prod(shape) == 0:
        return _C.empty(shape, x.dtype, x.device_index), _C.empty(shape, int64, x.device_index)
    _, order = sort_last(_last(x, dim), largest, k)
    return _with_values(x, dim, _places(order[:, :k], shape, dim))


def _one(x: Array, dim: int, places: Array) -> tuple[Array, Array]:
    """One value of each row, without the dim."""
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    index = places.reshape(_sized(x.shape, dim, 1))
    return indexing.gather(x, dim, index).reshape(shape), places.reshape(shape)


def kthvalue(x: Array, k: int, dim: int) -> tuple[Array, Array]:
    """The k-th smallest."""
    _, order = sort_last(_last(x, dim), False, k)
    return _one(x, dim, order[:, k - 1].astype(int64))


def _median(x: Array, dim: int, ignore_nan: bool) -> tuple[Array, Array]:
    keys, order = sort_last(_last(x, dim))
    n_rows, n = order.shape
    places = _C.empty((n_rows,), int64, x.device_index)
    if n_rows:
        kernel("sorting", "median")(
            _grid(n_rows, 256), keys, order, places, n_rows, n, n.bit_length(),
            FLOAT=x.dtype.is_floating_point, IGNORE_NAN=ignore_nan, WIDE=n_rows * n > INT32_MAX,
            BLOCK=256, num_warps=4,
        )  # fmt: skip
    return _one(x, dim, places)


def median(x: Array, dim: int) -> tuple[Array, Array]:
    """The lower median; NaN if there is one."""
    return _median(x, dim, False)


def nanmedian(x: Array, dim: int) -> tuple[Array, Array]:
    """The lower median of what is not NaN."""
    return _median(x, dim, True)


def mode(x: Array, dim: int) -> tuple[Array, Array]:
    """The most frequent value (the smallest of equals), and its last place."""
    keys, order = sort_last(_last(x, dim))
    n_rows, n = order.shape
    places = _C.empty((n_rows,), int64, x.device_index)
    if n_rows:
        kernel("sorting", "mode")(
            (n_rows,), keys, order, places, n, n.bit_length(), FLOAT=x.dtype.is_floating_point,
            BLOCK=min(max(_power_of_2(n), 32), 1024), num_warps=4,
        )  # fmt: skip
    return _one(x, dim, places)


# ---- unique values ------------------------------------------------------------------------------


def _runs(x: Array, order: Array | None) -> tuple[Array, Array, Array]:
    """Runs of equal elements of a 1-d array: their values, where each came to, lengths.

    Waits for the device, to know how many there are.
    """
    n, index = x.shape[0], x.device_index
    inverse = _C.empty((n,), int64, index)
    if n == 0:
        return _C.empty((0,), x.dtype, index), inverse, _C.empty((0,), int64, index)
    block = 1024
    blocks = -(-n // block)
    wide = n * max(x.strides[0], 1) > INT32_MAX - block
    starts = _C.empty((blocks + 1,), int64, index)
    kernel("sorting", "count_runs")(
        (blocks,), x, starts, n, x.strides[0], WIDE=wide, BLOCK=block, num_warps=4
    )
    scan.sums_before(starts, blocks)
    n_runs = indexing._total(starts, blocks)
    values = _C.empty((n_runs,), x.dtype, index)
    first = _C.empty((n_runs + 1,), int64, index)
    kernel("sorting", "write_runs")(
        (blocks,), x, inverse if order is None else order, starts, values, inverse, first, n,
        n_runs, x.strides[0], HAS_ORDER=order is not None, WIDE=wide, BLOCK=block, num_warps=4,
    )  # fmt: skip
    return values, inverse, pointwise.call("sub", (first[1:], first[:-1]), int64, int64)


def unique(x: Array) -> tuple[Array, Array, Array]:
    """The different elements in order, where each came to, how often."""
    _, order = sort_last(x)
    order = order.reshape((x.shape[0],))
    return _runs(indexing.gather(x, 0, order), order)


def unique_consecutive(x: Array) -> tuple[Array, Array, Array]:
    """Runs of equal elements."""
    return _runs(x, None)


# ---- searching and counting ---------------------------------------------------------------------


def _common(a: dtype, b: dtype) -> dtype:
    """The type in which NumPy compares two types."""
    kinds = [np.dtype(np.float32) if k.is_floating_point and k.itemsize < 4 else k.numpy
             for k in (a, b)]  # fmt: skip
    return from_numpy_dtype(np.result_type(*kinds))


def searchsorted(sorted: Array, values: Array, right: bool) -> Array:
    """Where values belong in sorted rows."""
    out = _C.empty(values.shape, int64, values.device_index)
    n, n_cols = values.numel(), sorted.shape[-1]
    if n == 0:
        return out
    if sorted.dtype is not values.dtype:
        kind = _common(sorted.dtype, values.dtype)
        sorted, values = sorted.astype(kind), values.astype(kind)
    v_shape, (v_strides,) = indexing._collapse(values.shape, [values.strides])
    row_shape, (row_strides,) = indexing._collapse(sorted.shape[:-1], [sorted.strides[:-1]])
    far = max(n, reach(sorted.shape, sorted.strides), reach(values.shape, values.strides))
    kernel("sorting", "searchsorted")(
        _grid(n, 256), sorted, values, out, n, n_cols,
        n if sorted.ndim == 1 else values.shape[-1], n_cols.bit_length(), row_shape, row_strides,
        sorted.strides[-1], v_shape, v_strides, RIGHT=right, NDIM=len(row_shape),
        V_NDIM=len(v_shape), WIDE=far > INT32_MAX // 2, BLOCK=256, num_warps=4,
    )  # fmt: skip
    return out


def bincount(x: Array, weights: Array | None, minlength: int) -> Array:
    """How often each integer occurs, or the sums of weights (waits for the device)."""
    n, index = x.shape[0], x.device_index
    block, warps = block_size(n)
    wide = n * max(x.strides[0], 1) > INT32_MAX - block
    n_bins = minlength
    if n:
        top = _C.empty((1,), int64, index).fill_(-1)
        kernel("sorting", "greatest")(
            _grid(n, block), x, top, n, x.strides[0], WIDE=wide, BLOCK=block, num_warps=warps
        )
        n_bins = max(n_bins, int(top.numpy()[0]) + 1)
    if weights is not None:
        kind = float32 if weights.dtype is float32 else float64
        sums = _C.empty((n_bins,), float64, index).fill_(0)
        out = indexing.scatter_add(sums, 0, x.astype(int64), weights.astype(float64))
        return out.astype(kind)
    counts = _C.empty((n_bins,), int64, index).fill_(0)
    if n:
        kernel("sorting", "bincount")(
            _grid(n, block), x, counts, n, n_bins, x.strides[0], WIDE=wide, BLOCK=block,
            num_warps=warps,
        )  # fmt: skip
    return counts


def histc(x: Array, bins: int, low: float, high: float) -> Array:
    """A histogram of equal bins."""
    n = x.numel()
    counts = _C.empty((bins,), int64, x.device_index).fill_(0)
    if n:
        block, warps = block_size(n)
        dims, (strides,) = indexing._collapse(x.shape, [x.strides])
        kernel("sorting", "histc")(
            _grid(n, block), x, counts, n, bins, dims, strides, pointwise._bits(low, float64),
            pointwise._bits(high, float64), NDIM=len(dims),
            WIDE=max(n, reach(x.shape, x.strides)) > INT32_MAX - block, BLOCK=block,
            num_warps=warps,
        )  # fmt: skip
    return counts.astype(x.dtype)
