"""Rows of jagged tensors, and of dense ones that are padded to the longest of them.

Component b has the rows from offset[b] to offset[b + 1] of a jagged tensor, and those from
b n_padded on of a padded one.
"""

import triton
import triton.language as tl


@triton.jit
def move_rows(
    x_ptr, offset_ptr, y_ptr, n_padded, n_cols,
    TO_PADDED: tl.constexpr, WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """TO_PADDED: y[b, s] = x[offset[b] + s], else y[offset[b] + s] = x[b, s], for the rows s of
    component b that are below n_padded.

    A program: BLOCK_ROWS padded rows of one component, BLOCK_COLS columns.
    """
    b = tl.program_id(0)
    row = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    col = tl.program_id(2) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    begin = tl.load(offset_ptr + b)
    length = tl.load(offset_ptr + b + 1) - begin
    if WIDE:
        b = b.to(tl.int64)
        row = row.to(tl.int64)
    else:
        begin = begin.to(tl.int32)
    mask = ((row < n_padded) & (row < length))[:, None] & (col < n_cols)[None, :]
    jagged = (begin + row)[:, None] * n_cols + col[None, :]
    padded = (b * n_padded + row)[:, None] * n_cols + col[None, :]
    if TO_PADDED:
        tl.store(y_ptr + padded, tl.load(x_ptr + jagged, mask=mask), mask=mask)
    else:
        tl.store(y_ptr + jagged, tl.load(x_ptr + padded, mask=mask), mask=mask)
