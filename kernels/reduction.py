"""Reductions: one template over rows (what is kept) and columns (what is reduced)."""

import triton
import triton.language as tl

from .copy import convert
from .pointwise import maximum, minimum, strided


@triton.jit
def across(acc, COMBINE: tl.constexpr):
    """The columns of a tile combined (Triton wants the function by name here)."""
    if COMBINE is plus:
        return tl.reduce(acc, 1, plus)
    elif COMBINE is times:
        return tl.reduce(acc, 1, times)
    elif COMBINE is larger:
        return tl.reduce(acc, 1, larger)
    elif COMBINE is exclusive:
        return tl.reduce(acc, 1, exclusive)
    else:
        return tl.reduce(acc, 1, smaller)


@triton.jit
def reduce_columns(
    x_ptr, r_ptr, y_ptr, n_rows, n_cols, segment, row_shape, row_strides, col_shape, col_strides,
    power, PRE: tl.constexpr, COMBINE: tl.constexpr, IDENTITY: tl.constexpr, ACC: tl.constexpr,
    HAS_ROW: tl.constexpr, ROW_DIMS: tl.constexpr, COL_DIMS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y[row, s] = COMBINE over the columns of segment s of PRE(x[row, col], r[row]).

    One program reduces one segment of BLOCK_ROWS rows.  r holds a value for each row (a mean, a
    maximum), if PRE wants one; `power` is the bits of a float64 for |x|^power.
    """
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    part = tl.program_id(1)
    if WIDE:
        rows = rows.to(tl.int64)
        part = part.to(tl.int64)
    row_mask = rows < n_rows
    row_offsets = strided(rows, row_shape, row_strides, ROW_DIMS)
    if HAS_ROW:
        r = tl.load(r_ptr + rows, mask=row_mask)[:, None].to(ACC)
    else:
        r = power.to(tl.int64).to(tl.float64, bitcast=True).to(ACC)
    acc = tl.full([BLOCK_ROWS, BLOCK_COLS], IDENTITY, ACC)
    end = tl.minimum((part + 1) * segment, n_cols)
    for start in range(part * segment, end, BLOCK_COLS):
        cols = start + tl.arange(0, BLOCK_COLS)
        if WIDE:
            cols = cols.to(tl.int64)
        mask = row_mask[:, None] & (cols < end)[None, :]
        offsets = row_offsets[:, None] + strided(cols, col_shape, col_strides, COL_DIMS)[None, :]
        x = convert(tl.load(x_ptr + offsets, mask=mask), ACC)
        value = PRE(x, r, cols[None, :]).to(ACC)
        acc = COMBINE(acc, tl.where(mask, value, tl.full(value.shape, IDENTITY, ACC)))
    y = across(acc, COMBINE)
    n_parts = tl.num_programs(1)
    tl.store(y_ptr + rows * n_parts + part, convert(y, y_ptr.dtype.element_ty), mask=row_mask)


@triton.jit
def first_equal(
    x_ptr, best_ptr, y_ptr, n_rows, n_cols, row_shape, row_strides, col_shape, col_strides,
    ACC: tl.constexpr, ROW_DIMS: tl.constexpr, COL_DIMS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y[row] = the first col where x[row, col] is best[row] (or both are NaN)."""
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    if WIDE:
        rows = rows.to(tl.int64)
    row_mask = rows < n_rows
    row_offsets = strided(rows, row_shape, row_strides, ROW_DIMS)
    best = convert(tl.load(best_ptr + rows, mask=row_mask), ACC)[:, None]
    found = tl.full([BLOCK_ROWS, BLOCK_COLS], 9223372036854775807, tl.int64)
    for start in range(0, n_cols, BLOCK_COLS):
        cols = start + tl.arange(0, BLOCK_COLS)
        if WIDE:
            cols = cols.to(tl.int64)
        mask = row_mask[:, None] & (cols < n_cols)[None, :]
        offsets = row_offsets[:, None] + strided(cols, col_shape, col_strides, COL_DIMS)[None, :]
        x = convert(tl.load(x_ptr + offsets, mask=mask), ACC)
        equal = mask & ((x == best) | ((x != x) & (best != best)))
        found = tl.minimum(found, tl.where(equal, cols.to(tl.int64)[None, :], 9223372036854775807))
    tl.store(y_ptr + rows, tl.min(found, 1), mask=row_mask)


# ---- what is reduced -----------------------------------------------------------------------------


@triton.jit
def same(x, r, cols):
    return x


@triton.jit
def truth(x, r, cols):
    return x != 0


@triton.jit
def size(x, r, cols):
    return tl.abs(x)


@triton.jit
def squared(x, r, cols):
    return x * x


@triton.jit
def squared_distance(x, r, cols):
    return (x - r) * (x - r)


@triton.jit
def size_to_power(x, r, cols):
    return tl.where(
        x == 0,
        tl.where(r > 0, 0.0, tl.where(r == 0, 1.0, float("inf"))),
        tl.exp2(r * tl.log2(tl.abs(x))),
    )


@triton.jit
def exp_above(x, r, cols):
    return tl.where(x == r, 1.0, tl.exp(x - r))


# ---- how -----------------------------------------------------------------------------------------


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def larger(a, b):
    return maximum(a, b)


@triton.jit
def smaller(a, b):
    return minimum(a, b)


@triton.jit
def exclusive(a, b):
    return a ^ b
