"""Products and running combinations of complex numbers, which are pairs of reals."""

import triton
import triton.language as tl

from ..copy import convert
from ..pointwise import strided
from ..reduction import rows_of
from .complex import logaddexp, mul


@triton.jit
def times(a, b, c, d):
    return mul(a, b, c, d)


@triton.jit
def log_plus(a, b, c, d):
    return logaddexp(a, b, c, d)


@triton.jit
def both_parts(ptr, at, mask, ACC: tl.constexpr, IDENTITY: tl.constexpr):
    """Numbers as (re, im); the identity where there are none."""
    re = convert(tl.load(ptr + at, mask=mask), ACC)
    im = convert(tl.load(ptr + at + 1, mask=mask), ACC)
    return tl.where(mask, re, IDENTITY), tl.where(mask, im, 0.0)


@triton.jit
def product_of_columns(
    x_ptr, y_ptr, n_rows, n_cols, segment, row_shape, row_strides, col_shape, col_strides,
    ACC: tl.constexpr, ROW_DIMS: tl.constexpr, COL_DIMS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y[row, s] = the product of the columns of segment s of x[row]; strides count reals.

    One program multiplies one segment of BLOCK_ROWS rows, each lane by itself until the end.
    """
    rows, row_mask, row_offsets = rows_of(
        n_rows, row_shape, row_strides, ROW_DIMS, WIDE, BLOCK_ROWS
    )
    part = tl.program_id(1)
    if WIDE:
        part = part.to(tl.int64)
    re = tl.full([BLOCK_ROWS, BLOCK_COLS], 1.0, ACC)
    im = tl.zeros([BLOCK_ROWS, BLOCK_COLS], ACC)
    end = tl.minimum((part + 1) * segment, n_cols)
    for start in range(part * segment, end, BLOCK_COLS):
        cols = start + tl.arange(0, BLOCK_COLS)
        mask = row_mask[:, None] & (cols < end)[None, :]
        at = row_offsets[:, None] + strided(cols, col_shape, col_strides, COL_DIMS)[None, :]
        a, b = both_parts(x_ptr, at, mask, ACC, 1.0)
        re, im = mul(re, im, a, b)
    re, im = tl.reduce((re, im), 1, times)
    at = 2 * (rows * tl.num_programs(1) + part)
    tl.store(y_ptr + at, re, mask=row_mask)
    tl.store(y_ptr + at + 1, im, mask=row_mask)


@triton.jit
def scan_pairs(
    x_ptr, carry_ptr, y_ptr, n_rows, n_cols, segment, x_stride, y_stride, row_shape, x_row_strides,
    y_row_strides, COMBINE: tl.constexpr, IDENTITY: tl.constexpr, ACC: tl.constexpr,
    TOTALS: tl.constexpr, HAS_CARRY: tl.constexpr, ROW_DIMS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y[row, i] = COMBINE over x[row, 0..i]; as scan_columns in scan.py, strides count reals."""
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    part = tl.program_id(1)
    n_parts = tl.num_programs(1)
    row_mask = rows < n_rows
    if WIDE:
        rows = rows.to(tl.int64)
        part = part.to(tl.int64)
    x_rows = strided(rows, row_shape, x_row_strides, ROW_DIMS)[:, None]
    y_rows = strided(rows, row_shape, y_row_strides, ROW_DIMS)[:, None]
    re = tl.full([BLOCK_ROWS], IDENTITY, ACC)
    im = tl.zeros([BLOCK_ROWS], ACC)
    if HAS_CARRY:
        before = row_mask & (part + tl.zeros_like(rows) > 0)
        re, im = both_parts(carry_ptr, 2 * (rows * n_parts + part - 1), before, ACC, IDENTITY)
    end = tl.minimum((part + 1) * segment, n_cols)
    last = (tl.arange(0, BLOCK_COLS) == BLOCK_COLS - 1)[None, :]
    for start in range(part * segment, end, BLOCK_COLS):
        cols = (start + tl.arange(0, BLOCK_COLS))[None, :]
        mask = row_mask[:, None] & (cols < end)
        a, b = both_parts(x_ptr, x_rows + cols * x_stride, mask, ACC, IDENTITY)
        if COMBINE is times:
            a, b = tl.associative_scan((a, b), 1, times)
        else:
            a, b = tl.associative_scan((a, b), 1, log_plus)
        zeros = tl.zeros_like(a)
        a, b = COMBINE(re[:, None] + zeros, im[:, None] + zeros, a, b)
        if not TOTALS:
            at = y_ptr + y_rows + cols * y_stride
            tl.store(at, a, mask=mask)
            tl.store(at + 1, b, mask=mask)
        re = tl.sum(tl.where(last, a, zeros), 1)
        im = tl.sum(tl.where(last, b, zeros), 1)
    if TOTALS:
        at = y_ptr + 2 * (rows * n_parts + part)
        tl.store(at, re, mask=row_mask)
        tl.store(at + 1, im, mask=row_mask)
