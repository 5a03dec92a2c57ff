"""A stable sort of integer keys, eight bits a pass, least significant bits first.

# Note [Radix passes]
A pass counts how often each of 256 digits stands in each block of a row (`radix_count`); sums over
all counts before, by row, digit and block, are where each block's keys of a digit go; `radix_move`
takes them there.  In a block, a key goes behind the keys of its digit in earlier parts, which are
counted, and in its own, which are compared with it.  A network that sorts the block first would
store runs of neighbours, and takes five times as long to compile.
"""

import triton
import triton.language as tl

from .pointwise import strided
from .sorting import ordered


@triton.jit
def block_digits(
    keys, n_cols, n_blocks, shift, flip, shape, x_row_strides, x_col_stride,
    DESCENDING: tl.constexpr, NDIM: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block's keys, its row, its number and its beginning in the row, the keys' digits, and which
    of them exist."""
    row = tl.program_id(0) // n_blocks
    block = tl.program_id(0) % n_blocks
    begin = block * BLOCK
    if WIDE:
        row = row.to(tl.int64)
        begin = begin.to(tl.int64)
    key_row = keys + strided(row, shape, x_row_strides, NDIM)
    mask = tl.arange(0, BLOCK) < n_cols - begin
    x = tl.load(key_row + (begin + tl.arange(0, BLOCK)) * x_col_stride, mask=mask, other=0)
    key = ordered(x, DESCENDING)
    digit = ((key >> shift) & 255).to(tl.int32) ^ flip
    return key, row, block, begin, digit, mask


@triton.jit(do_not_specialize=["shift", "flip"])
def radix_count(
    x_ptr, count_ptr, n_cols, n_blocks, shift, flip, shape, x_row_strides, x_col_stride,
    DESCENDING: tl.constexpr, NDIM: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """count[row, digit, block] = how many keys of the row's block have the digit.

    A digit is 8 bits of a key, from bit `shift`; flip: 128 where they hold the key's sign.
    """
    _, row, block, _, digit, mask = block_digits(
        x_ptr, n_cols, n_blocks, shift, flip, shape, x_row_strides, x_col_stride, DESCENDING,
        NDIM, WIDE, BLOCK,
    )  # fmt: skip
    at = (row * 256 + tl.arange(0, 256)).to(tl.int64) * n_blocks + block
    tl.store(count_ptr + at, tl.histogram(digit, 256, mask).to(tl.int64))


@triton.jit(do_not_specialize=["shift", "flip", "first"])
def radix_move(
    x_ptr, order_ptr, start_ptr, key_out_ptr, order_out_ptr, n_cols, n_blocks, shift, flip, first,
    shape, x_row_strides, x_col_stride, DESCENDING: tl.constexpr,
    NDIM: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """Moves each key of a row, and where it came from, behind those of smaller digit and earlier
    equals, into dense rows.

    start: the sums before radix_count's counts.  first: 1 where order is still 0, 1, 2 ... and not
    read.
    """
    key, row, block, begin, digit, mask = block_digits(
        x_ptr, n_cols, n_blocks, shift, flip, shape, x_row_strides, x_col_stride, DESCENDING,
        NDIM, WIDE, BLOCK,
    )  # fmt: skip
    lane = tl.arange(0, BLOCK)
    at = start_ptr + (row * 256 + tl.arange(0, 256)).to(tl.int64) * n_blocks + block
    start = tl.load(at)
    if not WIDE:
        start = start.to(tl.int32)
    place = tl.gather(start, digit, 0)
    # How many keys of the digit stand in earlier parts, of PART keys each.
    N_PARTS: tl.constexpr = BLOCK // PART
    cell = lane // PART * 256 + digit
    count = tl.reshape(tl.histogram(cell, N_PARTS * 256, mask), [N_PARTS, 256])
    earlier = tl.cumsum(count, axis=0) - count
    place += tl.gather(tl.reshape(earlier, [N_PARTS * 256]), cell, 0)
    # How many earlier keys of the part have it.
    digits = tl.reshape(digit, [N_PARTS, PART])
    number = tl.arange(0, PART)
    same = (digits[:, :, None] == digits[:, None, :]) & (number[:, None] > number[None, :])[None]
    place += tl.reshape(tl.sum(same.to(tl.int32), axis=2), [BLOCK])
    origin = begin + lane
    moved = tl.load(order_ptr + row * n_cols + origin, mask=mask & (first == 0), other=0)
    origin = tl.where(first == 0, moved, origin)
    tl.store(key_out_ptr + place, key.to(key_out_ptr.dtype.element_ty), mask=mask)
    tl.store(order_out_ptr + place, origin.to(order_out_ptr.dtype.element_ty), mask=mask)
