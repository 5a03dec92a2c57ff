"""One pointwise function on lists of arrays; kernels/optim.py describes the table of addresses."""

import triton
import triton.language as tl

from .copy import convert
from .optim import address, chunk_of
from .pointwise import operand


@triton.jit
def map_block(
    table, row, bits, start, end, OP: tl.constexpr, OPERANDS: tl.constexpr, KIND: tl.constexpr,
    OUT: tl.constexpr, COMPUTE: tl.constexpr, MASKED: tl.constexpr, ALIGNED: tl.constexpr,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """BLOCK elements of one row; MASKED: those before end."""
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < end if MASKED else None
    values = ()
    for k in tl.static_range(len(OPERANDS)):
        if OPERANDS[k] < 0:
            values = values + (operand(bits, offsets, mask, COMPUTE, True),)
        else:
            ptr = address(table, row, 2 + OPERANDS[k], KIND, ALIGNED, WIDTH)
            values = values + (operand(ptr, offsets, mask, COMPUTE, False),)
    out = address(table, row, 2, OUT, ALIGNED, WIDTH)
    tl.store(out + offsets, convert(OP(*values), OUT), mask=mask)


@triton.jit(do_not_specialize=["number"])
def apply(
    table_ptr, chunks_ptr, numbers_ptr, number, OP: tl.constexpr, OPERANDS: tl.constexpr,
    KIND: tl.constexpr, OUT: tl.constexpr, COMPUTE: tl.constexpr, WIDTH: tl.constexpr,
    EACH: tl.constexpr, ALIGNED: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out = OP(*operands) for every element of every row.

    The table's columns are out and the arrays.  OPERANDS has the column of each operand, or -1 for
    the number: the same for all rows, or EACH row's own from numbers_ptr.
    """
    row, begin, end = chunk_of(table_ptr, chunks_ptr, WIDTH, CHUNK)
    bits = number.to(tl.int64)
    if EACH:
        bits = tl.load(numbers_ptr + tl.load(table_ptr + row * WIDTH + 1))
    full = begin + (end - begin) // BLOCK * BLOCK  # whole blocks need no mask: wide accesses
    for start in range(begin, full, BLOCK):
        map_block(
            table_ptr, row, bits, start, end, OP, OPERANDS, KIND, OUT, COMPUTE, False, ALIGNED,
            WIDTH, BLOCK,
        )  # fmt: skip
    if full < end:
        map_block(
            table_ptr, row, bits, full, end, OP, OPERANDS, KIND, OUT, COMPUTE, True, ALIGNED, WIDTH,
            BLOCK,
        )  # fmt: skip
