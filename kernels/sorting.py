"""Sorting by ordered integer keys, and what searches sorted rows."""

import triton
import triton.language as tl

from .copy import convert
from .pointwise import block_offsets, strided


@triton.jit
def ordered(x, DESCENDING: tl.constexpr):
    """Signed integers that order as x does: NaN is the greatest, both zeros are equal."""
    kind: tl.constexpr = x.dtype
    if kind.is_floating():
        if kind.primitive_bitwidth == 64:
            bits = tl.where(x == 0, 0.0, x).to(tl.int64, bitcast=True)
            key = tl.where(bits < 0, bits ^ 0x7FFFFFFFFFFFFFFF, bits)
            key = tl.where(x != x, 0x7FFFFFFFFFFFFFFF, key)
        else:
            x = x.to(tl.float32)
            bits = tl.where(x == 0, 0.0, x).to(tl.int32, bitcast=True)
            key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
            key = tl.where(x != x, 0x7FFFFFFF, key)
    elif kind == tl.uint64:
        key = x.to(tl.int64, bitcast=True) ^ (-0x7FFFFFFFFFFFFFFF - 1)
    elif kind == tl.int64:
        key = x
    elif kind == tl.uint32:
        key = x.to(tl.int32, bitcast=True) ^ (-0x7FFFFFFF - 1)
    else:
        key = x.to(tl.int32)
    if DESCENDING:
        key = ~key
    return key


@triton.jit
def bit(j: tl.constexpr, N_BITS: tl.constexpr):
    """Bit j of an element's number, for a tensor of shape [2] * N_BITS."""
    return tl.reshape(tl.arange(0, 2), [1] * (N_BITS - j - 1) + [2] + [1] * j)


@triton.jit
def sort_pairs(key, place, N_BITS: tl.constexpr, LOG_BLOCK: tl.constexpr):
    """Groups of 2 ** LOG_BLOCK of the 2 ** N_BITS pairs (key, place) in order: a bitonic network.

    Places differ, which makes it stable.  (tl.sort takes no pairs, and two 64-bit numbers do not
    fit into one.)  In a cube of bits, partners are neighbours along one axis: the other of two is
    their sum minus the one.
    """
    keys = tl.reshape(key, [2] * N_BITS)
    places = tl.reshape(place, [2] * N_BITS)
    for stage in tl.static_range(LOG_BLOCK):
        for i in tl.static_range(stage + 1):
            other_keys = tl.sum(keys, N_BITS - 1 - (stage - i), keep_dims=True) - keys
            other_places = tl.sum(places, N_BITS - 1 - (stage - i), keep_dims=True) - places
            smaller = (other_keys < keys) | ((other_keys == keys) & (other_places < places))
            # The lower one of two takes the smaller pair, in every other run the greater one.
            wants_smaller = bit(stage - i, N_BITS) == 0
            if stage + 1 < LOG_BLOCK:
                wants_smaller = wants_smaller == (bit(stage + 1, N_BITS) == 0)
            take = smaller == wants_smaller
            keys = tl.where(take, other_keys, keys)
            places = tl.where(take, other_places, places)
    return tl.reshape(keys, key.shape), tl.reshape(places, place.shape)


@triton.jit
def sort_blocks(
    x_ptr, order_in_ptr, keys_ptr, order_ptr, n_rows, n_cols, n_out, keep, shape, x_row_strides,
    x_col_stride, HAS_ORDER: tl.constexpr, DESCENDING: tl.constexpr, NDIM: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK: tl.constexpr, LOG_BLOCK: tl.constexpr,
    N_BITS: tl.constexpr,
):  # fmt: skip
    """keys[r, b * keep + i], order[...] = the i-th smallest key of block b of row r, and its place.

    shape: of the rows, which lie anywhere in x.  Stable.  The first `keep` of each block are kept;
    n_out of a row in all.  HAS_ORDER: x are candidates whose places order_in gives (both dense).
    """
    blocks = tl.cdiv(n_cols, BLOCK)
    pid = tl.program_id(0)
    if WIDE:
        pid = pid.to(tl.int64)
    row = (pid // blocks) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    first = (pid % blocks) * BLOCK
    lane = tl.arange(0, BLOCK)
    exists = row < n_rows
    rows = strided(tl.where(exists, row, 0), shape, x_row_strides, NDIM)
    col = first + lane
    mask = exists[:, None] & (col < n_cols)[None, :]
    x = tl.load(x_ptr + rows[:, None] + (col * x_col_stride)[None, :], mask=mask, other=0)
    key = ordered(x, DESCENDING)
    place = tl.broadcast_to(lane[None, :], [BLOCK_ROWS, BLOCK])
    # Padding is as great as a key can be; its places come after those of equal keys.
    key = tl.where(mask, key, (1 << (key.dtype.primitive_bitwidth - 1)) - 1)
    key, place = sort_pairs(key, place, N_BITS, LOG_BLOCK)
    rank = lane[None, :]
    out_ptrs = row[:, None] * n_out + (pid % blocks) * keep
    mask = exists[:, None] & (rank < keep) & (first + place < n_cols)
    mask = mask & ((pid % blocks) * keep + rank < n_out)
    origin = first + place
    if HAS_ORDER:
        origin = tl.load(order_in_ptr + row[:, None] * n_cols + origin, mask=mask, other=0)
    tl.store(keys_ptr + out_ptrs + rank, key, mask=mask)
    tl.store(order_ptr + out_ptrs + rank, origin.to(order_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["run", "steps"])
def merge_runs(
    keys_ptr, order_ptr, keys_out_ptr, order_out_ptr, n_elements, n_cols, run, steps,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Merges neighbouring sorted runs in dense rows: each element's place is where it is in its own
    run, plus how many of the other run come before it (found by bisection in `steps` steps)."""
    e, mask = block_offsets(n_elements, WIDE, BLOCK)
    if WIDE:
        run = run.to(tl.int64)
    row = e // n_cols
    col = e % n_cols
    number = col // run
    right = number % 2 == 1
    other_start = tl.where(right, number - 1, number + 1) * run
    other_end = tl.minimum(other_start + run, n_cols)
    key = tl.load(keys_ptr + e, mask=mask, other=0)
    low = tl.minimum(other_start, n_cols)
    high = tl.maximum(other_end, low)
    other_start = low
    base = keys_ptr + row * n_cols
    for _ in range(steps):
        middle = (low + high) // 2
        open_ = mask & (low < high)
        theirs = tl.load(base + middle, mask=open_, other=0)
        before = (theirs < key) | (right & (theirs == key))
        low = tl.where(open_ & before, middle + 1, low)
        high = tl.where(open_ & ~before, middle, high)
    start = tl.where(right, number - 1, number) * run
    place = row * n_cols + start + (col - number * run) + (low - other_start)
    tl.store(keys_out_ptr + place, key, mask=mask)
    tl.store(order_out_ptr + place, tl.load(order_ptr + e, mask=mask), mask=mask)


# ---- what looks things up in sorted rows --------------------------------------------------------


@triton.jit
def bisect(row, col_stride, low, high, key, open_at_equal, mask, steps):
    """The first place in low .. high whose key is not less (open_at_equal: greater) than key."""
    for _ in range(steps):
        middle = (low + high) // 2
        open_ = mask & (low < high)
        theirs = ordered(tl.load(row + middle * col_stride, mask=open_, other=0), False)
        before = (theirs < key) | (open_at_equal & (theirs == key))
        low = tl.where(open_ & before, middle + 1, low)
        high = tl.where(open_ & ~before, middle, high)
    return low


@triton.jit(do_not_specialize=["steps"])
def searchsorted(
    x_ptr, v_ptr, y_ptr, n_elements, n_cols, n_values, steps, row_shape, x_row_strides,
    x_col_stride, v_shape, v_strides, RIGHT: tl.constexpr, NDIM: tl.constexpr,
    V_NDIM: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[r, j] = how many of x[r] are less than v[r, j] (RIGHT: not greater); x's rows are sorted.

    n_cols: a row of x; n_values: a row of v.  One program looks up BLOCK values.
    """
    e, mask = block_offsets(n_elements, WIDE, BLOCK)
    key = ordered(tl.load(v_ptr + strided(e, v_shape, v_strides, V_NDIM), mask=mask), False)
    row = x_ptr + strided(e // n_values, row_shape, x_row_strides, NDIM)
    low = tl.zeros_like(e)
    place = bisect(row, x_col_stride, low, low + n_cols, key, RIGHT, mask, steps)
    tl.store(y_ptr + e, place.to(tl.int64), mask=mask)


@triton.jit(do_not_specialize=["steps"])
def median(
    keys_ptr, order_ptr, y_ptr, n_elements, n_cols, steps, FLOAT: tl.constexpr,
    IGNORE_NAN: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[r] = the place of the lower median of row r; of the first NaN, if there is one.

    keys, order: of sort_last.  IGNORE_NAN: of what is not NaN.
    """
    row, mask = block_offsets(n_elements, WIDE, BLOCK)
    count = tl.zeros_like(row) + n_cols
    if FLOAT:
        nan: tl.constexpr = (1 << (keys_ptr.dtype.element_ty.primitive_bitwidth - 1)) - 1
        low = tl.zeros_like(row)
        count = bisect(keys_ptr + row * n_cols, 1, low, count, nan, False, mask, steps)
    if IGNORE_NAN:
        at = tl.maximum(count - 1, 0) // 2
    else:
        at = tl.where(count < n_cols, count, (n_cols - 1) // 2)
    place = tl.load(order_ptr + row * n_cols + at, mask=mask)
    tl.store(y_ptr + row, place.to(tl.int64), mask=mask)


@triton.jit(do_not_specialize=["steps"])
def mode(
    keys_ptr, order_ptr, y_ptr, n_cols, steps, FLOAT: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """y[r] = the last place of the most frequent (the smallest of equally frequent) key of row r.

    NaNs differ from each other.  One program takes one row.
    """
    start = tl.program_id(0).to(tl.int64) * n_cols
    row = keys_ptr + start
    best = tl.full((), -1, tl.int64)
    best_at = tl.full((), 0, tl.int64)
    for first in range(0, n_cols, BLOCK):
        col = first + tl.arange(0, BLOCK).to(tl.int64)
        mask = col < n_cols
        key = tl.load(row + col, mask=mask, other=0)
        length = col - bisect(row, 1, tl.zeros_like(col), col, key, False, mask, steps)
        if FLOAT:
            nan: tl.constexpr = (1 << (keys_ptr.dtype.element_ty.primitive_bitwidth - 1)) - 1
            length = tl.where(key == nan, 0, length)
        length = tl.where(mask, length, -1)
        longest = tl.max(length, axis=0)
        at = tl.min(tl.where(length == longest, col, n_cols), axis=0)
        best_at = tl.where(longest > best, at, best_at)
        best = tl.maximum(longest, best)
    tl.store(y_ptr + tl.program_id(0), tl.load(order_ptr + start + best_at).to(tl.int64))


# ---- runs of equal elements ---------------------------------------------------------------------


@triton.jit
def run_starts(x, e, mask, stride):
    """The elements, and 1 where one differs from the one before it."""
    here = tl.load(x + e * stride, mask=mask, other=0)
    before = tl.load(x + (e - 1) * stride, mask=mask & (e > 0), other=0)
    if x.dtype.element_ty.is_floating() and x.dtype.element_ty.primitive_bitwidth < 32:
        differs = here.to(tl.float32) != before.to(tl.float32)
    else:
        differs = here != before
    return here, (mask & (differs | (e == 0))).to(tl.int64)


@triton.jit
def count_runs(
    x_ptr, count_ptr, n_elements, x_stride, WIDE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """count[block] = how many runs of equal elements start in the block."""
    e, mask = block_offsets(n_elements, WIDE, BLOCK)
    _, is_start = run_starts(x_ptr, e, mask, x_stride)
    tl.store(count_ptr + tl.program_id(0), tl.sum(is_start, axis=0))


@triton.jit
def write_runs(
    x_ptr, order_ptr, start_ptr, values_ptr, inverse_ptr, first_ptr, n_elements, n_runs, x_stride,
    HAS_ORDER: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """values[k], first[k] = the k-th run's element and place; inverse[order[e]] = the run of e.

    start: what a scan made of count_runs's.  first[n_runs] = n_elements.
    """
    e, mask = block_offsets(n_elements, WIDE, BLOCK)
    x, is_start = run_starts(x_ptr, e, mask, x_stride)
    run = tl.load(start_ptr + tl.program_id(0)) + tl.cumsum(is_start, axis=0) - 1
    tl.store(values_ptr + run, x, mask=is_start != 0)
    tl.store(first_ptr + run, e.to(tl.int64), mask=is_start != 0)
    tl.store(first_ptr + n_runs + tl.zeros_like(e), tl.cast(n_elements, tl.int64), mask=e == 0)
    place = e
    if HAS_ORDER:
        place = tl.load(order_ptr + e, mask=mask, other=0)
    tl.store(inverse_ptr + place, run, mask=mask)


# ---- counting -----------------------------------------------------------------------------------


@triton.jit
def greatest(
    x_ptr, y_ptr, n_elements, x_stride, WIDE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """y[0] = max(y[0], x[...]), of integers."""
    e, mask = block_offsets(n_elements, WIDE, BLOCK)
    x = tl.load(x_ptr + e * x_stride, mask=mask, other=0).to(tl.int64)
    tl.atomic_max(y_ptr, tl.max(tl.where(mask, x, -1), axis=0))


@triton.jit
def bincount(
    x_ptr, y_ptr, n_elements, n_bins, x_stride, WIDE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """y[b] += how many of x are b, by atomics on integers."""
    e, mask = block_offsets(n_elements, WIDE, BLOCK)
    x = tl.load(x_ptr + e * x_stride, mask=mask, other=0).to(tl.int64)
    one = tl.full([BLOCK], 1, tl.int64)
    tl.atomic_add(y_ptr + x, one, mask=mask & (x >= 0) & (x < n_bins), sem="relaxed")


@triton.jit(do_not_specialize=["low_bits", "high_bits"])
def histc(
    x_ptr, y_ptr, n_elements, n_bins, shape, x_strides, low_bits, high_bits, NDIM: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[b] += how many of x lie in the b-th of n_bins equal parts of low .. high.

    low_bits, high_bits: float64 numbers as integers of the same bits.
    """
    e, mask = block_offsets(n_elements, WIDE, BLOCK)
    low = low_bits.to(tl.int64).to(tl.float64, bitcast=True)
    high = high_bits.to(tl.int64).to(tl.float64, bitcast=True)
    x = tl.load(x_ptr + strided(e, shape, x_strides, NDIM), mask=mask, other=0)
    if x.dtype != tl.float64:
        x = convert(x, tl.float32)
    mask = mask & (x >= low.to(x.dtype)) & (x <= high.to(x.dtype))
    place = ((x.to(tl.float64) - low) / (high - low) * n_bins).to(tl.int64)
    place = tl.minimum(tl.maximum(place, 0), n_bins - 1)
    one = tl.full([BLOCK], 1, tl.int64)
    tl.atomic_add(y_ptr + place, one, mask=mask, sem="relaxed")
