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
    """A block scanned (Triton wants the function by name here)."""
    if COMBINE is plus:
        return tl.associative_scan(x, 0, plus)
    elif COMBINE is times:
        return tl.associative_scan(x, 0, times)
    else:
        return tl.associative_scan(x, 0, log_plus)


@triton.jit
def scan_columns(
    x_ptr, y_ptr, n_cols, x_stride, y_stride, row_shape, x_row_strides, y_row_strides,
    COMBINE: tl.constexpr, IDENTITY: tl.constexpr, ACC: tl.constexpr, ROW_DIMS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y[row, i] = COMBINE over x[row, 0..i].  One program scans one row."""
    row = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)
    x_base = tl.sum(strided(row, row_shape, x_row_strides, ROW_DIMS), 0)
    y_base = tl.sum(strided(row, row_shape, y_row_strides, ROW_DIMS), 0)
    carry = tl.full([1], IDENTITY, ACC)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK).to(tl.int64)
        mask = cols < n_cols
        x = convert(tl.load(x_ptr + x_base + cols * x_stride, mask=mask), ACC)
        x = tl.where(mask, x, tl.full([BLOCK], IDENTITY, ACC))
        y = COMBINE(along(x, COMBINE), tl.zeros([BLOCK], ACC) + carry)
        tl.store(y_ptr + y_base + cols * y_stride, convert(y, y_ptr.dtype.element_ty), mask=mask)
        last = tl.arange(0, BLOCK) == BLOCK - 1
        carry = tl.sum(tl.where(last, y, tl.zeros_like(y)), 0, keep_dims=True)


@triton.jit
def scan_extreme(
    x_ptr, y_ptr, i_ptr, n_cols, x_stride, y_stride, row_shape, x_row_strides, y_row_strides,
    COMBINE: tl.constexpr, IDENTITY: tl.constexpr, ACC: tl.constexpr, ROW_DIMS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y[row, i], index: the extreme of x[row, 0..i] and the last place that holds it."""
    row = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)
    x_base = tl.sum(strided(row, row_shape, x_row_strides, ROW_DIMS), 0)
    y_base = tl.sum(strided(row, row_shape, y_row_strides, ROW_DIMS), 0)
    carry = tl.full([1], IDENTITY, ACC)
    carry_at = tl.zeros([1], tl.int64)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK).to(tl.int64)
        mask = cols < n_cols
        x = convert(tl.load(x_ptr + x_base + cols * x_stride, mask=mask), ACC)
        x = tl.where(mask, x, tl.full([BLOCK], IDENTITY, ACC))
        if COMBINE is later_larger:
            y, at = tl.associative_scan((x, cols), 0, later_larger)
        else:
            y, at = tl.associative_scan((x, cols), 0, later_smaller)
        y, at = COMBINE(
            tl.zeros([BLOCK], ACC) + carry, tl.zeros([BLOCK], tl.int64) + carry_at, y, at
        )
        tl.store(y_ptr + y_base + cols * y_stride, convert(y, y_ptr.dtype.element_ty), mask=mask)
        tl.store(i_ptr + y_base + cols * y_stride, at, mask=mask)
        last = tl.arange(0, BLOCK) == BLOCK - 1
        carry = tl.sum(tl.where(last, y, tl.zeros_like(y)), 0, keep_dims=True)
        carry_at = tl.sum(tl.where(last, at, tl.zeros_like(at)), 0, keep_dims=True)
