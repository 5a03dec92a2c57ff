"""Reordering by index arithmetic: flip and roll, reflected padding, triangles, ranges."""

import triton
import triton.language as tl

from .copy import convert
from .pointwise import block_offsets, strided
from .softmax import number


@triton.jit
def reorder(
    x_ptr, y_ptr, n_elements, shape, x_strides, flips, shifts, NDIM: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[i] = x[j]: in each dim j = (i - shift) mod n, or n - 1 - i where flips is 1; y is dense."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    rest = index
    offsets = tl.zeros_like(index)
    for k in tl.static_range(NDIM):
        n = shape[NDIM - 1 - k]
        i = rest % n
        rest = rest // n
        j = i - shifts[NDIM - 1 - k]
        j = tl.where(j < 0, j + n, j)
        j = tl.where(flips[NDIM - 1 - k] == 1, n - 1 - i, j)
        offsets += j * x_strides[NDIM - 1 - k]
    tl.store(y_ptr + index, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def triangle(
    x_ptr, y_ptr, n_elements, n_rows, n_cols, diagonal, shape, x_strides, UPPER: tl.constexpr,
    NDIM: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = x on one side of a diagonal of the last two dims, 0 on the other; y is dense."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    col = index % n_cols
    row = (index // n_cols) % n_rows
    keep = (col - row >= diagonal) if UPPER else (col - row <= diagonal)
    x = tl.load(x_ptr + strided(index, shape, x_strides, NDIM), mask=mask & keep, other=0)
    tl.store(y_ptr + index, x, mask=mask)


@triton.jit
def pad_dim(
    x_ptr, y_ptr, n_elements, n_in, n_out, before, inner, MODE: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y[o, i, r] = x[o, source(i), r] for one padded dim of dense arrays.

    MODE 0: replicate, 1: reflect, 2: circular.
    """
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    r = index % inner
    i = (index // inner) % n_out - before
    o = index // (inner * n_out)
    if MODE == 0:
        j = tl.minimum(tl.maximum(i, 0), n_in - 1)
    elif MODE == 1:
        j = tl.abs(i)
        j = tl.where(j >= n_in, 2 * (n_in - 1) - j, j)
    else:
        j = (i + n_in) % n_in
    x = tl.load(x_ptr + (o * n_in + j) * inner + r, mask=mask)
    tl.store(y_ptr + index, x, mask=mask)


@triton.jit
def pad_dim_backward(
    g_ptr, y_ptr, n_elements, n_in, n_out, before, inner, MODE: tl.constexpr, ACC: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[o, j, r] = the sum of g[o, i, r] over the padded positions i that show j."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    r = index % inner
    j = (index // inner) % n_in
    o = index // (inner * n_in)
    row = o * n_out
    own = j + before
    shown = mask & (own >= 0) & (own < n_out)
    total = convert(tl.load(g_ptr + (row + own) * inner + r, mask=shown, other=0), ACC)
    if MODE == 0:
        for k in range(tl.minimum(before, n_out)):
            first = mask & (j == 0)
            total += convert(tl.load(g_ptr + (row + k) * inner + r, mask=first, other=0), ACC)
        for k in range(tl.maximum(before + n_in, 0), n_out):
            last = mask & (j == n_in - 1)
            total += convert(tl.load(g_ptr + (row + k) * inner + r, mask=last, other=0), ACC)
    elif MODE == 1:
        left = before - j
        right = before + 2 * (n_in - 1) - j
        from_left = mask & (j > 0) & (left >= 0)
        from_right = mask & (j < n_in - 1) & (right < n_out)
        total += convert(tl.load(g_ptr + (row + left) * inner + r, mask=from_left, other=0), ACC)
        total += convert(tl.load(g_ptr + (row + right) * inner + r, mask=from_right, other=0), ACC)
    else:
        left = j + before - n_in
        right = j + before + n_in
        total += convert(
            tl.load(g_ptr + (row + left) * inner + r, mask=mask & (left >= 0), other=0), ACC
        )
        total += convert(
            tl.load(g_ptr + (row + right) * inner + r, mask=mask & (right < n_out), other=0), ACC
        )
    tl.store(y_ptr + index, convert(total, y_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["start", "step"])
def arange(
    y_ptr, n_elements, start, step, COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """y[i] = start + i * step; both are the bits of a float64, or integers."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    first = tl.zeros([BLOCK], tl.int64) + start.to(tl.int64)
    by = tl.zeros([BLOCK], tl.int64) + step.to(tl.int64)
    if COMPUTE.is_floating():
        y = first.to(tl.float64, bitcast=True) + index.to(tl.float64) * by.to(
            tl.float64, bitcast=True
        )
    else:
        y = first + index.to(tl.int64) * by
    tl.store(y_ptr + index, convert(y, y_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["start", "end", "step"])
def linspace(
    y_ptr, n_elements, y_stride, start, end, step, WIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """y[i] = start + i * step, from the middle on end - (n - 1 - i) * step; bits of float64."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    low = number(start, tl.float64)
    high = number(end, tl.float64)
    by = number(step, tl.float64)
    i = index.to(tl.float64)
    last = (n_elements - 1 - index).to(tl.float64)
    y = tl.where(index < n_elements // 2, low + i * by, high - last * by)
    tl.store(y_ptr + index * y_stride, convert(y, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def below(row, col, offset):
    """How many elements the lower triangle has in so many rows."""
    low = tl.minimum(tl.maximum(0 - offset, 0), row)
    high = tl.minimum(tl.maximum(col - offset, low), row)
    return (high - low) * (low + high + 1 + 2 * offset) // 2 + (row - high) * col


@triton.jit
def tri_indices(
    y_ptr, n_elements, n_rows, n_cols, offset, UPPER: tl.constexpr, STEPS: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[:, k]: row and column of the k-th element of a triangle; the row is searched for."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    k = index.to(tl.int64)
    col = tl.zeros_like(k) + n_cols
    first = tl.zeros_like(k)
    last = first + n_rows
    for _ in range(STEPS):
        middle = (first + last + 1) // 2
        if UPPER:
            before = middle * col - below(middle, col, offset - 1)
        else:
            before = below(middle, col, offset)
        first = tl.where(before <= k, middle, first)
        last = tl.where(before <= k, last, middle - 1)
    if UPPER:
        start = first * col - below(first, col, offset - 1)
        at = k - start + tl.minimum(tl.maximum(first + offset, 0), col)
    else:
        at = k - below(first, col, offset)
    tl.store(y_ptr + index, first, mask=mask)
    tl.store(y_ptr + n_elements + index, at, mask=mask)
