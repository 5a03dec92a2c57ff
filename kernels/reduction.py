"""Reductions: one template over rows (what is kept) and columns (what is reduced)."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .copy import convert
from .pointwise import maximum, minimum, strided
from .softmax import number


@triton.jit
def across(acc, COMBINE: tl.constexpr):
    """The columns of a tile combined (Triton wants the function by name here)."""
    if COMBINE is plus:
        if acc.dtype == tl.float64:  # of float32 it would take registers that loads are in
            total, lost = tl.reduce((acc, tl.zeros_like(acc)), 1, plus_with_lost)
            return tl.where(lost == lost, total + lost, total)  # infinities lose NaN
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
def tile_of_rows(
    x, rows, row_mask, row_offsets, start, end, col_shape, col_strides, ACC: tl.constexpr,
    COL_DIMS: tl.constexpr, WIDE: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Columns from start on of some rows, their numbers, and which of them exist."""
    cols = start + tl.arange(0, BLOCK_COLS)
    if WIDE:
        cols = cols.to(tl.int64)
    mask = row_mask[:, None] & (cols < end)[None, :]
    offsets = row_offsets[:, None] + strided(cols, col_shape, col_strides, COL_DIMS)[None, :]
    return convert(tl.load(x + offsets, mask=mask), ACC), cols[None, :], mask


@triton.jit
def rows_of(n_rows, row_shape, row_strides, DIMS: tl.constexpr, WIDE: tl.constexpr,
            BLOCK: tl.constexpr):  # fmt: skip
    """This program's rows, which of them exist, and where they begin."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if WIDE:
        rows = rows.to(tl.int64)
    return rows, rows < n_rows, strided(rows, row_shape, row_strides, DIMS)


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
    rows, row_mask, row_offsets = rows_of(
        n_rows, row_shape, row_strides, ROW_DIMS, WIDE, BLOCK_ROWS
    )
    part = tl.program_id(1)
    if WIDE:
        part = part.to(tl.int64)
    if HAS_ROW:
        r = tl.load(r_ptr + rows, mask=row_mask)[:, None].to(ACC)
    else:
        r = power.to(tl.int64).to(tl.float64, bitcast=True).to(ACC)
    acc = tl.full([BLOCK_ROWS, BLOCK_COLS], IDENTITY, ACC)
    end = tl.minimum((part + 1) * segment, n_cols)
    for start in range(part * segment, end, BLOCK_COLS):
        x, cols, mask = tile_of_rows(
            x_ptr, rows, row_mask, row_offsets, start, end, col_shape, col_strides, ACC, COL_DIMS,
            WIDE, BLOCK_COLS,
        )  # fmt: skip
        value = PRE(x, r, cols).to(ACC)
        acc = COMBINE(acc, tl.where(mask, value, tl.full(value.shape, IDENTITY, ACC)))
    y = across(acc, COMBINE)
    n_parts = tl.num_programs(1)
    tl.store(y_ptr + rows * n_parts + part, convert(y, y_ptr.dtype.element_ty), mask=row_mask)


@triton.jit
def reduce_extreme(
    x_ptr, i_ptr, best_ptr, where_ptr, n_rows, n_cols, segment, row_shape, row_strides, col_shape,
    col_strides, LARGEST: tl.constexpr, IDENTITY: tl.constexpr, ACC: tl.constexpr,
    HAS_INDEX: tl.constexpr, ROW_DIMS: tl.constexpr, COL_DIMS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """The largest (or smallest) of each segment of a row, NaN above all, and the first place of it.

    HAS_INDEX: x are extremes of segments, i says where they were.  x is read once.
    """
    rows, row_mask, row_offsets = rows_of(
        n_rows, row_shape, row_strides, ROW_DIMS, WIDE, BLOCK_ROWS
    )
    part = tl.program_id(1)
    if WIDE:
        part = part.to(tl.int64)
    best = tl.full([BLOCK_ROWS, BLOCK_COLS], IDENTITY, ACC)
    where = tl.full([BLOCK_ROWS, BLOCK_COLS], 9223372036854775807, tl.int64)
    end = tl.minimum((part + 1) * segment, n_cols)
    for start in range(part * segment, end, BLOCK_COLS):
        x, cols, mask = tile_of_rows(
            x_ptr, rows, row_mask, row_offsets, start, end, col_shape, col_strides, ACC, COL_DIMS,
            WIDE, BLOCK_COLS,
        )  # fmt: skip
        if LARGEST:
            better = (x > best) | ((x != x) & (best == best))
        else:
            better = (x < best) | ((x != x) & (best == best))
        # The first element wins over the identity, which it may equal.
        better = mask & (better | ((where == 9223372036854775807) & (x == best)))
        best = tl.where(better, x, best)
        if HAS_INDEX:
            at = tl.load(i_ptr + rows[:, None] * n_cols + cols, mask=mask, other=0)
        else:
            at = tl.broadcast_to(cols.to(tl.int64), (BLOCK_ROWS, BLOCK_COLS))
        where = tl.where(better, at, where)
    top = across(best, larger if LARGEST else smaller)
    here = (best == top[:, None]) | ((best != best) & (top != top)[:, None])
    found = tl.min(tl.where(here, where, 9223372036854775807), 1)
    out = rows * tl.num_programs(1) + part
    tl.store(best_ptr + out, convert(top, best_ptr.dtype.element_ty), mask=row_mask)
    tl.store(where_ptr + out, found, mask=row_mask)


@triton.jit
def reduce_moments(
    x_ptr, mean_ptr, spread_ptr, n_rows, n_cols, segment, divisor, row_shape, row_strides,
    col_shape, col_strides, ACC: tl.constexpr, ROW_DIMS: tl.constexpr, COL_DIMS: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Mean and sum of squared distances from it of each segment, the latter by a divisor.

    Each lane keeps its own, one element after the other, so that nothing cancels; lanes are merged
    in the end.  x is read once.
    """
    rows, row_mask, row_offsets = rows_of(
        n_rows, row_shape, row_strides, ROW_DIMS, WIDE, BLOCK_ROWS
    )
    part = tl.program_id(1)
    if WIDE:
        part = part.to(tl.int64)
    mean = tl.zeros([BLOCK_ROWS, BLOCK_COLS], ACC)
    spread = tl.zeros([BLOCK_ROWS, BLOCK_COLS], ACC)
    begin = part * segment
    end = tl.minimum(begin + segment, n_cols)
    for start in range(begin, end, BLOCK_COLS):
        x, _, mask = tile_of_rows(
            x_ptr, rows, row_mask, row_offsets, start, end, col_shape, col_strides, ACC, COL_DIMS,
            WIDE, BLOCK_COLS,
        )  # fmt: skip
        delta = tl.where(mask, x - mean, 0.0)
        mean += delta * (1 / ((start - begin) // BLOCK_COLS + 1).to(ACC))
        spread += delta * tl.where(mask, x - mean, 0.0)
    lanes = tl.arange(0, BLOCK_COLS)
    count = ((end - begin - lanes + BLOCK_COLS - 1) // BLOCK_COLS).to(ACC)[None, :]
    count = tl.maximum(count, 0.0)
    n = (end - begin).to(ACC)
    average = tl.sum(mean * count, 1) / n
    away = mean - average[:, None]
    total = tl.sum(spread + away * away * count, 1) / number(divisor, ACC)
    out = rows * tl.num_programs(1) + part
    tl.store(mean_ptr + out, convert(average, mean_ptr.dtype.element_ty), mask=row_mask)
    tl.store(spread_ptr + out, convert(total, spread_ptr.dtype.element_ty), mask=row_mask)


@triton.jit
def merge_moments(
    mean_ptr, spread_ptr, out_mean_ptr, out_ptr, n_rows, n_cols, segment, n_parts, divisor,
    ACC: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Segments' means and spreads as those of rows; one program merges one row."""
    row = tl.program_id(0)
    part = tl.arange(0, PARTS)
    mask = part < n_parts
    at = row.to(tl.int64) * n_parts + part
    mean = tl.load(mean_ptr + at, mask=mask, other=0.0)
    spread = tl.load(spread_ptr + at, mask=mask, other=0.0)
    count = tl.where(mask, tl.minimum(n_cols - part.to(tl.int64) * segment, segment), 0).to(ACC)
    average = tl.sum(mean * count, 0) / n_cols.to(ACC)
    away = mean - average
    total = tl.sum(spread + away * away * count, 0) / number(divisor, ACC)
    tl.store(out_mean_ptr + row, convert(average, out_mean_ptr.dtype.element_ty))
    tl.store(out_ptr + row, convert(total, out_ptr.dtype.element_ty))


@triton.jit
def reduce_logsumexp(
    x_ptr, top_ptr, total_ptr, n_rows, n_cols, segment, row_shape, row_strides, col_shape,
    col_strides, FINAL: tl.constexpr, ACC: tl.constexpr, ROW_DIMS: tl.constexpr,
    COL_DIMS: tl.constexpr, WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """The largest of each segment and the sum of exp(x - it); FINAL: the log of the sum of exp.

    Each lane rescales its own sum when a larger number comes.  x is read once.
    """
    rows, row_mask, row_offsets = rows_of(
        n_rows, row_shape, row_strides, ROW_DIMS, WIDE, BLOCK_ROWS
    )
    part = tl.program_id(1)
    if WIDE:
        part = part.to(tl.int64)
    top = tl.full([BLOCK_ROWS, BLOCK_COLS], float("-inf"), ACC)
    total = tl.zeros([BLOCK_ROWS, BLOCK_COLS], ACC)
    end = tl.minimum((part + 1) * segment, n_cols)
    for start in range(part * segment, end, BLOCK_COLS):
        x, _, mask = tile_of_rows(
            x_ptr, rows, row_mask, row_offsets, start, end, col_shape, col_strides, ACC, COL_DIMS,
            WIDE, BLOCK_COLS,
        )  # fmt: skip
        x = tl.where(mask, x, float("-inf"))
        higher = maximum(top, x)
        total = total * above(top, higher) + above(x, higher)
        top = higher
    most = across(top, larger)
    total = tl.sum(total * above(top, most[:, None]), 1)
    out = rows * tl.num_programs(1) + part
    if FINAL:
        infinite = (most == float("inf")) | (most == float("-inf"))
        y = tl.where(infinite, most, most + tl.log(total))
        tl.store(top_ptr + out, convert(y, top_ptr.dtype.element_ty), mask=row_mask)
    else:
        tl.store(top_ptr + out, most, mask=row_mask)
        tl.store(total_ptr + out, total, mask=row_mask)


@triton.jit
def above(x, top):
    """exp(x - top), 1 where both are the same infinity."""
    return tl.where(x == top, 1.0, tl.exp(x - top))


@triton.jit
def merge_logsumexp(top_ptr, total_ptr, y_ptr, n_parts, ACC: tl.constexpr, PARTS: tl.constexpr):
    """Segments' largest and sums as the log of a row's sum; one program merges one row."""
    row = tl.program_id(0)
    part = tl.arange(0, PARTS)
    mask = part < n_parts
    at = row.to(tl.int64) * n_parts + part
    top = tl.load(top_ptr + at, mask=mask, other=float("-inf"))
    total = tl.load(total_ptr + at, mask=mask, other=0.0)
    most = tl.reduce(top, 0, larger)
    total = tl.sum(total * above(top, most), 0)
    infinite = (most == float("inf")) | (most == float("-inf"))
    y = tl.where(infinite, most, most + tl.log(total))
    tl.store(y_ptr + row, convert(y, y_ptr.dtype.element_ty))


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
    return libdevice.pow(tl.abs(x), r)


# ---- how -----------------------------------------------------------------------------------------


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def plus_with_lost(a, lost_a, b, lost_b):
    """a + b, and what its rounding and those before lost (Knuth's sum)."""
    total = a + b
    back = total - a
    return total, (lost_a + lost_b) + ((a - (total - back)) + (b - back))


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
