"""A stable sort of integer keys, eight bits a pass, least significant bits first.

# Note [Radix passes]
A pass counts how often each of 256 digits stands in each block of a row (`radix_count`); sums over
all counts before, by row, digit and block, are where each block's keys of a digit go; `radix_move`
takes them there.  One warp goes through a block, 32 keys at a time: a key goes behind those of its
digit that went before, which are counted, and those beside it, which are compared.  Nobody waits
for other warps, of which many fit a multiprocessor.

A network that sorts the block first would store runs of neighbours, and takes five times as long to
compile; counts of all parts of a block at once spill in Triton 3.6, whose histograms take a
register of a warp for 32 bins.
"""

import triton
import triton.language as tl

from .pointwise import strided
from .sorting import ordered


@triton.jit
def row_of_block(
    keys, n_blocks, shape, key_row_strides, NDIM: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Where this program's row lies, its number, which block of it is the program's, and where
    that begins."""
    row = tl.program_id(0) // n_blocks
    block = tl.program_id(0) % n_blocks
    begin = block * BLOCK
    if WIDE:
        row = row.to(tl.int64)
        begin = begin.to(tl.int64)
    return keys + strided(row, shape, key_row_strides, NDIM), row, block, begin


@triton.jit
def digits_of(
    row_keys, col, n_cols, col_stride, shift, flip, DESCENDING: tl.constexpr
):  # fmt: skip
    """The keys of some columns, their digits, and which exist."""
    mask = col < n_cols
    key = ordered(tl.load(row_keys + col * col_stride, mask=mask, other=0), DESCENDING)
    return key, ((key >> shift) & 255).to(tl.int32) ^ flip, mask


@triton.jit(do_not_specialize=["shift", "flip"])
def radix_count(
    x_ptr, count_ptr, n_cols, n_blocks, shift, flip, shape, x_row_strides, x_col_stride,
    DESCENDING: tl.constexpr, NDIM: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """count[row, digit, block] = how many keys of the row's block have the digit.

    A digit is 8 bits of a key, from bit `shift`; flip: 128 where they hold the key's sign.
    """
    keys, row, block, begin = row_of_block(x_ptr, n_blocks, shape, x_row_strides, NDIM, WIDE, BLOCK)
    col = begin + tl.arange(0, BLOCK)
    _, digit, mask = digits_of(keys, col, n_cols, x_col_stride, shift, flip, DESCENDING)
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
    keys, row, block, begin = row_of_block(x_ptr, n_blocks, shape, x_row_strides, NDIM, WIDE, BLOCK)
    at = start_ptr + (row * 256 + tl.arange(0, 256)).to(tl.int64) * n_blocks + block
    start = tl.load(at)
    if not WIDE:
        start = start.to(tl.int32)
    number = tl.arange(0, PART)
    for _ in range(0, BLOCK, PART):
        col = begin + number
        key, digit, mask = digits_of(keys, col, n_cols, x_col_stride, shift, flip, DESCENDING)
        same = (digit[:, None] == digit[None, :]) & (number[:, None] > number[None, :])
        place = tl.gather(start, digit, 0) + tl.sum(same.to(tl.int32), axis=1)
        moved = tl.load(order_ptr + row * n_cols + col, mask=mask & (first == 0), other=0)
        origin = tl.where(first == 0, moved, col)
        tl.store(key_out_ptr + place, key.to(key_out_ptr.dtype.element_ty), mask=mask)
        tl.store(order_out_ptr + place, origin.to(order_out_ptr.dtype.element_ty), mask=mask)
        start += tl.histogram(digit, 256, mask)
        begin += PART
