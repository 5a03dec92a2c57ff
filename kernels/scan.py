"""Scans along columns, block after block with a carry."""

import triton
import triton.language as tl

from .copy import convert
from .pointwise import logaddexp, strided


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def log_plus(a, b):
    return logaddexp(a, b)


@triton.jit
def later_larger(a, i, b, j):
    take = (b >= a) | (b != b)
    take = take & ((a == a) | (b != b))
    return tl.where(take, b, a), tl.where(take, j, i)


@triton.jit
def later_smaller(a, i, b, j):
    take = (b <= a) | (b != b)
    take = take & ((a == a) | (b != b))
    return tl.where(take, b, a), tl.where(take, j, i)


@triton.jit
def along(x, COMBINE: tl.constexpr):
    """Rows of a tile scanned (Triton wants the function by name here)."""
    if COMBINE is plus:
        return tl.associative_scan(x, 1, plus)
    elif COMBINE is times:
        return tl.associative_scan(x, 1, times)
    else:
        return tl.associative_scan(x, 1, log_plus)


@triton.jit
def across(x, COMBINE: tl.constexpr):
    """Rows of a tile combined."""
    if COMBINE is plus:
        return tl.reduce(x, 1, plus)
    elif COMBINE is times:
        return tl.reduce(x, 1, times)
    else:
        return tl.reduce(x, 1, log_plus)


@triton.jit
def last_of(x):
    """The last column of a tile."""
    last = (tl.arange(0, x.shape[1]) == x.shape[1] - 1)[None, :]
    return tl.sum(tl.where(last, x, tl.zeros_like(x)), 1)


@triton.jit
def scan_columns(
    x_ptr, carry_ptr, y_ptr, n_rows, n_cols, segment, x_stride, y_stride, row_shape, x_row_strides,
    y_row_strides, COMBINE: tl.constexpr, IDENTITY: tl.constexpr, ACC: tl.constexpr,
    TOTALS: tl.constexpr, HAS_CARRY: tl.constexpr, EXCLUSIVE: tl.constexpr,
    ROW_DIMS: tl.constexpr, WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y[row, i] = COMBINE over x[row, 0..i] (EXCLUSIVE: of plus, over 0..i - 1).

    One program scans one segment of BLOCK_ROWS rows, with a carry from tile to tile.  TOTALS: it
    only stores what the segment comes to, as y[row, segment].  HAS_CARRY: carry[row, segment] is
    the scan of those.
    """
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    part = tl.program_id(1)
    n_parts = tl.num_programs(1)
    row_mask = rows < n_rows
    if WIDE:
        rows = rows.to(tl.int64)
        part = part.to(tl.int64)
    x_rows = strided(rows, row_shape, x_row_strides, ROW_DIMS)[:, None]
    y_rows = strided(rows, row_shape, y_row_strides, ROW_DIMS)[:, None]
    carry = tl.full([BLOCK_ROWS], IDENTITY, ACC)
    if HAS_CARRY:
        before = row_mask & (part + tl.zeros_like(rows) > 0)
        found = tl.load(carry_ptr + rows * n_parts + part - 1, mask=before)
        carry = tl.where(before, found, carry)
    end = tl.minimum((part + 1) * segment, n_cols)
    for start in range(part * segment, end, BLOCK_COLS):
        cols = (start + tl.arange(0, BLOCK_COLS))[None, :]
        mask = row_mask[:, None] & (cols < end)
        x = convert(tl.load(x_ptr + x_rows + cols * x_stride, mask=mask), ACC)
        x = tl.where(mask, x, tl.full(x.shape, IDENTITY, ACC))
        if TOTALS:
            carry = COMBINE(carry, across(x, COMBINE))
        else:
            y = COMBINE(along(x, COMBINE), carry[:, None] + tl.zeros_like(x))
            out = y - x if EXCLUSIVE else y
            at = y_ptr + y_rows + cols * y_stride
            tl.store(at, convert(out, y_ptr.dtype.element_ty), mask=mask)
            carry = last_of(y)
    if TOTALS:
        tl.store(y_ptr + rows * n_parts + part, carry, mask=row_mask)


@triton.jit
def scan_extreme(
    x_ptr, places_ptr, carry_ptr, carry_at_ptr, y_ptr, i_ptr, n_rows, n_cols, segment, x_stride,
    y_stride, row_shape, x_row_strides, y_row_strides, COMBINE: tl.constexpr,
    IDENTITY: tl.constexpr, ACC: tl.constexpr, TOTALS: tl.constexpr, HAS_CARRY: tl.constexpr,
    HAS_PLACES: tl.constexpr, ROW_DIMS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y[row, i], index: the extreme of x[row, 0..i] and the last place that holds it.

    As scan_columns.  HAS_PLACES: x are extremes of segments, places says where they were.
    """
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    part = tl.program_id(1)
    n_parts = tl.num_programs(1)
    row_mask = rows < n_rows
    if WIDE:
        rows = rows.to(tl.int64)
        part = part.to(tl.int64)
    x_rows = strided(rows, row_shape, x_row_strides, ROW_DIMS)[:, None]
    y_rows = strided(rows, row_shape, y_row_strides, ROW_DIMS)[:, None]
    carry = tl.full([BLOCK_ROWS], IDENTITY, ACC)
    carry_at = tl.zeros([BLOCK_ROWS], tl.int64)
    if HAS_CARRY:
        before = row_mask & (part + tl.zeros_like(rows) > 0)
        found = tl.load(carry_ptr + rows * n_parts + part - 1, mask=before)
        carry = tl.where(before, found, carry)
        carry_at = tl.load(carry_at_ptr + rows * n_parts + part - 1, mask=before, other=0)
    end = tl.minimum((part + 1) * segment, n_cols)
    for start in range(part * segment, end, BLOCK_COLS):
        cols = (start + tl.arange(0, BLOCK_COLS))[None, :]
        mask = row_mask[:, None] & (cols < end)
        x = convert(tl.load(x_ptr + x_rows + cols * x_stride, mask=mask), ACC)
        x = tl.where(mask, x, tl.full(x.shape, IDENTITY, ACC))
        if HAS_PLACES:
            places = tl.load(places_ptr + x_rows + cols * x_stride, mask=mask, other=0)
        else:
            places = cols.to(tl.int64) + tl.zeros(x.shape, tl.int64)
        if COMBINE is later_larger:
            y, at = tl.associative_scan((x, places), 1, later_larger)
        else:
            y, at = tl.associative_scan((x, places), 1, later_smaller)
        y, at = COMBINE(
            carry[:, None] + tl.zeros_like(x), carry_at[:, None] + tl.zeros_like(places), y, at
        )
        if not TOTALS:
            to = y_rows + cols * y_stride
            tl.store(y_ptr + to, convert(y, y_ptr.dtype.element_ty), mask=mask)
            tl.store(i_ptr + to, at, mask=mask)
        # Elements past the end are the identity, which an extreme may equal: the last real one.
        valid = tl.minimum(end - start, BLOCK_COLS) - 1
        last = (tl.arange(0, BLOCK_COLS) == valid)[None, :]
        carry = tl.sum(tl.where(last, y, tl.zeros_like(y)), 1)
        carry_at = tl.sum(tl.where(last, at, tl.zeros_like(at)), 1)
    if TOTALS:
        tl.store(y_ptr + rows * n_parts + part, carry, mask=row_mask)
        tl.store(i_ptr + rows * n_parts + part, carry_at, mask=row_mask)
