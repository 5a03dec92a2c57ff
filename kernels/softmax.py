"""Softmax, its logarithm and their gradients along any dim.

An array is (outer, n_cols, inner), dense; a row is one (outer, inner) pair, whose elements lie
`inner` apart.  ALIGN divides n_cols.

# Note [Long rows]
A row that no program can hold is read twice: for its sums, and for its result.  Where there are
rows enough, one program does both (STEP "whole"), and the second read comes from the cache.  Where
there are few, parts of rows go to programs of their own: "sums" writes what each part adds up to,
"result" puts all parts of a row together, in the same way in every program, and writes one part.
"""

import triton
import triton.language as tl

from .copy import convert
from .scalar.elementary import negated


@triton.jit
def aligned(n, ALIGN: tl.constexpr):
    """n, known to be a multiple of ALIGN: by itself Triton only sees multiples of 16."""
    return n if ALIGN == 16 else n // ALIGN * ALIGN


@triton.jit
def row_offsets(n_rows, n_cols, inner, WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr):
    """Where this program's rows begin, their numbers, and which of them exist."""
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    inside = rows < n_rows
    begin = rows
    if WIDE:
        begin = rows.to(tl.int64)
    return (begin // inner) * inner * n_cols + begin % inner, rows, inside


@triton.jit
def tile(begin, row_mask, cols, n_cols, inner):
    """Offsets of some columns of rows, and which exist."""
    mask = row_mask[:, None] & (cols < n_cols)[None, :]
    return begin[:, None] + cols[None, :].to(begin.dtype) * inner, mask


@triton.jit
def read(x, offsets, mask, fill, COMPUTE: tl.constexpr):
    """Elements as COMPUTE; fill outside the mask."""
    return tl.where(mask, convert(tl.load(x + offsets, mask=mask, other=0), COMPUTE), fill)


@triton.jit
def number(bits, COMPUTE: tl.constexpr):
    """A float64 that was passed as its bits: arguments that are floats arrive as float32."""
    return bits.to(tl.int64).to(tl.float64, bitcast=True).to(COMPUTE)


@triton.jit
def online(top, total, x):
    """Each lane's maximum and sum of exp(x - maximum) with one x more.

    One exponential: either the sum shrinks or x is below the maximum, never both.
    """
    over = tl.where(x == top, 0.0, x - top)
    e = tl.exp(negated(tl.abs(over)))
    return tl.maximum(top, x), tl.where(over > 0, total * e + 1.0, total + e)


@triton.jit
def together(top, total):
    """Maximum and sum of a row from those of its lanes or parts (axis 1)."""
    best = tl.max(top, axis=1)
    return best, tl.sum(total * tl.exp(top - finite(best)[:, None]), axis=1)


@triton.jit
def finite(best):
    """What is subtracted of a row with this maximum: nothing where all are -inf."""
    return tl.where(best == float("-inf"), 0.0, best)


@triton.jit
def sums_of(
    source, begin, row_mask, n_cols, inner, first, last, COMPUTE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Maxima and sums of the columns from first to last, a multiple of BLOCK_COLS or the end."""
    cols = tl.arange(0, BLOCK_COLS)
    top = tl.full([BLOCK_ROWS, BLOCK_COLS], float("-inf"), COMPUTE)
    total = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    for start in range(first, last, BLOCK_COLS):
        offsets, mask = tile(begin, row_mask, start + cols, n_cols, inner)
        top, total = online(top, total, read(source, offsets, mask, float("-inf"), COMPUTE))
    return together(top, total)


@triton.jit
def keep_parts(partial, part, rows, row_mask, n_rows, a, b):
    """partial[part] = a, b of each row."""
    at = partial + 2 * part.to(tl.int64) * n_rows + rows
    tl.store(at, a, mask=row_mask)
    tl.store(at + n_rows, b, mask=row_mask)


@triton.jit
def all_parts(partial, rows, row_mask, n_rows, n_parts, fill, PARTS: tl.constexpr):
    """All a and b of each row; fill, 0 where there is no part."""
    parts = tl.arange(0, PARTS)
    at = partial + 2 * parts.to(tl.int64)[None, :] * n_rows + rows[:, None]
    mask = row_mask[:, None] & (parts < n_parts)[None, :]
    return tl.load(at, mask=mask, other=fill), tl.load(at + n_rows, mask=mask, other=0.0)


@triton.jit
def softmax_rows(
    x_ptr, y_ptr, n_rows, n_cols, inner, LOG: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, ALIGN: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y = exp(x - max) / sum(exp(x - max)); LOG: x - max - log(sum(exp(x - max))).

    One program holds BLOCK_ROWS whole rows in registers.
    """
    n_cols = aligned(n_cols, ALIGN)
    begin, _, row_mask = row_offsets(n_rows, n_cols, inner, WIDE, BLOCK_ROWS)
    offsets, mask = tile(begin, row_mask, tl.arange(0, BLOCK_COLS), n_cols, inner)
    x = read(x_ptr, offsets, mask, float("-inf"), COMPUTE)
    x -= tl.max(x, axis=1)[:, None]
    e = tl.exp(x)
    total = tl.sum(e, axis=1)[:, None]
    if LOG:
        y = x - tl.log(total)
    else:
        y = e * (1.0 / total)
    tl.store(y_ptr + offsets, convert(y, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_looped(
    x_ptr, y_ptr, partial_ptr, n_rows, n_cols, inner, per_part, n_parts, LOG: tl.constexpr,
    STEP: tl.constexpr, PARTS: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr,
    ALIGN: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """The same for rows too long for registers: see Note [Long rows].

    Each lane keeps a maximum and a sum of its own.
    """
    n_cols = aligned(n_cols, ALIGN)
    begin, rows, row_mask = row_offsets(n_rows, n_cols, inner, WIDE, BLOCK_ROWS)
    first = tl.program_id(1) * per_part
    last = tl.minimum(first + per_part, n_cols)
    if STEP == "result":
        top, total = all_parts(partial_ptr, rows, row_mask, n_rows, n_parts, float("-inf"), PARTS)
        top, total = together(top, total)
    else:
        top, total = sums_of(
            x_ptr, begin, row_mask, n_cols, inner, first, last, COMPUTE, BLOCK_ROWS, BLOCK_COLS
        )
    if STEP == "sums":
        keep_parts(partial_ptr, tl.program_id(1), rows, row_mask, n_rows, top, total)
    else:
        top = finite(top)[:, None]
        if LOG:
            total = tl.log(total)[:, None]
        else:
            total = (1.0 / total)[:, None]
        cols = tl.arange(0, BLOCK_COLS)
        for start in range(first, last, BLOCK_COLS):
            offsets, mask = tile(begin, row_mask, start + cols, n_cols, inner)
            x = read(x_ptr, offsets, mask, float("-inf"), COMPUTE) - top
            if LOG:
                y = x - total
            else:
                y = tl.exp(x) * total
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
    WIDE: tl.constexpr, ALIGN: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """dx = y (dy - sum(dy y)); LOG: dy - exp(y) sum(dy).  One program holds BLOCK_ROWS rows."""
    n_cols = aligned(n_cols, ALIGN)
    begin, _, row_mask = row_offsets(n_rows, n_cols, inner, WIDE, BLOCK_ROWS)
    offsets, mask = tile(begin, row_mask, tl.arange(0, BLOCK_COLS), n_cols, inner)
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
    dy_ptr, y_ptr, dx_ptr, partial_ptr, n_rows, n_cols, inner, per_part, n_parts,
    LOG: tl.constexpr, STEP: tl.constexpr, PARTS: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, ALIGN: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """The same for rows too long for registers: see Note [Long rows]."""
    n_cols = aligned(n_cols, ALIGN)
    begin, rows, row_mask = row_offsets(n_rows, n_cols, inner, WIDE, BLOCK_ROWS)
    first = tl.program_id(1) * per_part
    last = tl.minimum(first + per_part, n_cols)
    cols = tl.arange(0, BLOCK_COLS)
    if STEP == "result":
        total, _ = all_parts(partial_ptr, rows, row_mask, n_rows, n_parts, 0.0, PARTS)
        total = tl.sum(total, axis=1)
    else:
        lanes = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
        for start in range(first, last, BLOCK_COLS):
            offsets, mask = tile(begin, row_mask, start + cols, n_cols, inner)
            dy = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
            if LOG:
                lanes += dy
            else:
                lanes += dy * read(y_ptr, offsets, mask, 0.0, COMPUTE)
        total = tl.sum(lanes, axis=1)
    if STEP == "sums":
        keep_parts(partial_ptr, tl.program_id(1), rows, row_mask, n_rows, total, total)
    else:
        for start in range(first, last, BLOCK_COLS):
            offsets, mask = tile(begin, row_mask, start + cols, n_cols, inner)
            dy = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
            y = read(y_ptr, offsets, mask, 0.0, COMPUTE)
            dx = gradient(dy, y, total[:, None], LOG)
            tl.store(dx_ptr + offsets, convert(dx, dx_ptr.dtype.element_ty), mask=mask)
