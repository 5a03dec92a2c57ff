"""Softmax, its logarithm and their gradients along any dim.

An array is (outer, n_cols, inner), dense; a row is one (outer, inner) pair, whose elements lie
`inner` apart.
"""

import triton
import triton.language as tl

from .copy import convert


@triton.jit
def row_offsets(n_rows, n_cols, inner, WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr):
    """Where this program's rows begin, and which of them exist."""
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    inside = rows < n_rows
    if WIDE:
        rows = rows.to(tl.int64)
    return (rows // inner) * inner * n_cols + rows % inner, inside


@triton.jit
def read(x, offsets, mask, fill, COMPUTE: tl.constexpr):
    """Elements as COMPUTE; fill outside the mask."""
    return tl.where(mask, convert(tl.load(x + offsets, mask=mask, other=0), COMPUTE), fill)


@triton.jit
def number(bits, COMPUTE: tl.constexpr):
    """A float64 that was passed as its bits: arguments that are floats arrive as float32."""
    return bits.to(tl.int64).to(tl.float64, bitcast=True).to(COMPUTE)


@triton.jit
def softmax_rows(
    x_ptr, y_ptr, n_rows, n_cols, inner, LOG: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y = exp(x - max) / sum(exp(x - max)); LOG: x - max - log(sum(exp(x - max))).

    One program holds BLOCK_ROWS whole rows in registers.
    """
    begin, row_mask = row_offsets(n_rows, n_cols, inner, WIDE, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_COLS)
    mask = row_mask[:, None] & (cols < n_cols)[None, :]
    offsets = begin[:, None] + cols[None, :].to(begin.dtype) * inner
    x = read(x_ptr, offsets, mask, float("-inf"), COMPUTE)
    x -= tl.max(x, axis=1)[:, None]
    e = tl.exp(x)
    total = tl.sum(e, axis=1)[:, None]
    if LOG:
        y = x - tl.log(total)
    else:
        y = e / total
    tl.store(y_ptr + offsets, convert(y, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_looped(
    x_ptr, y_ptr, n_rows, n_cols, inner, LOG: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """The same for rows too long for registers: maxima and sums in one pass, y in another.

    Each lane keeps a maximum and a sum of its own, rescaled when the maximum grows.
    """
    begin, row_mask = row_offsets(n_rows, n_cols, inner, WIDE, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_COLS)
    top = tl.full([BLOCK_ROWS, BLOCK_COLS], float("-inf"), COMPUTE)
    total = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    for start in range(0, n_cols, BLOCK_COLS):
        mask = row_mask[:, None] & (start + cols < n_cols)[None, :]
        offsets = begin[:, None] + (start + cols)[None, :].to(begin.dtype) * inner
        x = read(x_ptr, offsets, mask, float("-inf"), COMPUTE)
        higher = tl.maximum(top, x)
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - shift) + tl.exp(x - shift)
        top = higher
    row_top = tl.max(top, axis=1)[:, None]
    row_top = tl.where(row_top == float("-inf"), 0.0, row_top)
    row_total = tl.sum(total * tl.exp(top - row_top), axis=1)[:, None]
    if LOG:
        row_total = tl.log(row_total)
    for start in range(0, n_cols, BLOCK_COLS):
        mask = row_mask[:, None] & (start + cols < n_cols)[None, :]
        offsets = begin[:, None] + (start + cols)[None, :].to(begin.dtype) * inner
        x = read(x_ptr, offsets, mask, float("-inf"), COMPUTE) - row_top
        if LOG:
            y = x - row_total
        else:
            y = tl.exp(x) / row_total
        tl.store(y_ptr + offsets, convert(y, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def gradient(dy, y, total, LOG: tl.constexpr):
    """dx from the row's total."""
    if LOG:
        dx = dy - tl.exp(y) * total
    else:
        dx = y * (dy - total)
    return dx


@triton.jit
def softmax_rows_backward(
    dy_ptr, y_ptr, dx_ptr, n_rows, n_cols, inner, LOG: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """dx = y (dy - sum(dy y)); LOG: dy - exp(y) sum(dy).  One program holds BLOCK_ROWS rows."""
    begin, row_mask = row_offsets(n_rows, n_cols, inner, WIDE, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_COLS)
    mask = row_mask[:, None] & (cols < n_cols)[None, :]
    offsets = begin[:, None] + cols[None, :].to(begin.dtype) * inner
    dy = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
    y = read(y_ptr, offsets, mask, 0.0, COMPUTE)
    if LOG:
        total = tl.sum(dy, axis=1)[:, None]
    else:
        total = tl.sum(dy * y, axis=1)[:, None]
    dx = gradient(dy, y, total, LOG)
    tl.store(dx_ptr + offsets, convert(dx, dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_looped_backward(
    dy_ptr, y_ptr, dx_ptr, n_rows, n_cols, inner, LOG: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """The same in two passes: the total, then dx."""
    begin, row_mask = row_offsets(n_rows, n_cols, inner, WIDE, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_COLS)
    lanes = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    for start in range(0, n_cols, BLOCK_COLS):
        mask = row_mask[:, None] & (start + cols < n_cols)[None, :]
        offsets = begin[:, None] + (start + cols)[None, :].to(begin.dtype) * inner
        dy = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
        if LOG:
            lanes += dy
        else:
            lanes += dy * read(y_ptr, offsets, mask, 0.0, COMPUTE)
    total = tl.sum(lanes, axis=1)[:, None]
    for start in range(0, n_cols, BLOCK_COLS):
        mask = row_mask[:, None] & (start + cols < n_cols)[None, :]
        offsets = begin[:, None] + (start + cols)[None, :].to(begin.dtype) * inner
        dy = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
        dx = gradient(dy, read(y_ptr, offsets, mask, 0.0, COMPUTE), total, LOG)
        tl.store(dx_ptr + offsets, convert(dx, dx_ptr.dtype.element_ty), mask=mask)
