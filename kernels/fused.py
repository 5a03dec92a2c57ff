"""What kernels that are written for several calls are composed of, beside the functions of one
element (`tritorch/compilation/fuse/writing.py`)."""

import triton
import triton.language as tl

from .errors import report
from .random import to_unit
from .reduction import larger, smaller
from .scalar.elementary import quotient
from .scan import plus, times


@triton.jit
def constant(value, DTYPE: tl.constexpr):
    """A number, as a block of one element."""
    return tl.full([1], value, DTYPE)


@triton.jit
def spread(x, row, col):
    """A tile of which each element is the same in some dims."""
    return tl.where((row >= 0) & (col >= 0), x, x)


@triton.jit
def whole_row(x, mask, IDENTITY: tl.constexpr):
    """A tile without what lies outside of its rows."""
    if mask is None:
        whole = x
    else:
        whole = tl.where(mask, x, tl.full(x.shape, IDENTITY, x.dtype))
    return whole


@triton.jit
def row_sum(x, mask):
    """The sum of each row."""
    return tl.sum(whole_row(x, mask, 0), 1, keep_dims=True)


@triton.jit
def rescaled(total, top, x, higher):
    """total exp(top - higher) + exp(x - higher): a sum of exponentials below a top that has grown;
    0 as long as nothing is above -inf."""
    grown = total * tl.exp(top - higher) + tl.exp(x - higher)
    return tl.where(higher == float("-inf"), 0.0, grown)


@triton.jit
def row_rescaled_sum(total, top, highest):
    """The sum of each row's exponentials below its largest, of sums below other tops."""
    return tl.sum(total * tl.exp(top - highest), 1, keep_dims=True)


@triton.jit
def row_mean(x, mask, N: tl.constexpr):
    """The mean of each row of N elements."""
    total = row_sum(x, mask)
    return quotient(total, tl.full(total.shape, N, total.dtype))


@triton.jit
def row_larger(x, mask, LOWEST: tl.constexpr):
    """The largest element of each row, or NaN."""
    return tl.reduce(whole_row(x, mask, LOWEST), 1, larger, keep_dims=True)


@triton.jit
def row_smaller(x, mask, HIGHEST: tl.constexpr):
    """The smallest element of each row, or NaN."""
    return tl.reduce(whole_row(x, mask, HIGHEST), 1, smaller, keep_dims=True)


@triton.jit
def widened(x):
    """Elements of a scan: float32 in float64, as in kernels/scan.py's launches."""
    return x.to(tl.float64) if x.dtype == tl.float32 else x


@triton.jit
def running_sum(x, mask, BACKWARDS: tl.constexpr):
    """The sum of each element of a row and those before it; BACKWARDS: those behind it."""
    return tl.associative_scan(widened(whole_row(x, mask, 0)), 1, plus, reverse=BACKWARDS).to(
        x.dtype
    )


@triton.jit
def running_prod(x, mask, BACKWARDS: tl.constexpr):
    """The product of each element of a row and those before it; BACKWARDS: those behind it."""
    return tl.associative_scan(widened(whole_row(x, mask, 1)), 1, times, reverse=BACKWARDS).to(
        x.dtype
    )


@triton.jit
def column_sum(x):
    """The sum of each column, by pairs of rows: errors grow with the logarithm of their number."""
    ROWS: tl.constexpr = x.shape[0]
    if ROWS == 1:
        total = x
    else:
        total = column_sum(tl.sum(tl.reshape(x, (ROWS // 2, 2, x.shape[1])), 1))
    return total


@triton.jit
def leave_column_sums(pointer, x, row, col, row_mask, col_mask, N_COLS: tl.constexpr):
    """Stores the sum of each column of a product's tile, in the row that the tile's rows have among
    those of all tiles.  Of the transposed product, columns lie along the first dim."""
    AXIS: tl.constexpr = 0 if row.shape[1] == 1 else 1
    total = tl.sum(tl.where(row_mask & col_mask, x, 0.0), AXIS, keep_dims=True)
    tile = tl.min(row) // row.shape[AXIS]
    tl.store(pointer + tile * N_COLS + col, total, mask=col_mask)


@triton.jit
def all_sum(x):
    """The sum of all elements of a block."""
    return tl.sum(x, 0)


@triton.jit
def all_larger(x):
    """The largest element of a block, or NaN."""
    return tl.reduce(x, 0, larger)


@triton.jit
def all_smaller(x):
    """The smallest element of a block, or NaN."""
    return tl.reduce(x, 0, smaller)


@triton.jit
def kept_of_four(four, seed, offset, p):
    """Whether dropout keeps elements, of which `four` counts the groups of four: one number for
    each, as eager draws them.  Along the last dim there are four times as many."""
    a, b, c, d = tl.randint4x(seed.to(tl.uint64), four.to(tl.int64) + offset // 4)
    bits = tl.join(tl.join(a, c), tl.join(b, d))
    if len(four.shape) == 1:
        bits = tl.reshape(bits, (4 * four.shape[0],))
    else:
        bits = tl.reshape(bits, (four.shape[0], 4 * four.shape[1]))
    return to_unit(bits).to(p.dtype) >= p


@triton.jit
def kept_each(element, seed, offset, p):
    """The same, for elements in any order."""
    a, b, c, d = tl.randint4x(seed.to(tl.uint64), (element // 4).to(tl.int64) + offset // 4)
    lane = element % 4
    bits = tl.where(lane == 0, a, tl.where(lane == 1, b, tl.where(lane == 2, c, d)))
    return to_unit(bits).to(p.dtype) >= p


@triton.jit
def dropped(x, kept, p):
    """The elements that are kept, larger; 0 of the others."""
    return x * tl.where(kept, 1 / (1 - p), 0.0).to(x.dtype)


@triton.jit
def checked(index, size, mask, flag, where, WRAP: tl.constexpr):
    """Numbers that say which of `size` elements is read; for one outside, an error is marked and
    the first is read.  WRAP: negative ones count from the end."""
    inside = (index >= (-size if WRAP else 0)) & (index < size)
    bad = inside == 0
    if mask is not None:
        bad = bad & mask
    report(flag, where, index, bad)
    at = tl.where(index < 0, index + size, index)
    return tl.where(inside, at, 0)
