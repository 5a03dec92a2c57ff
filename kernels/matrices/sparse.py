"""Products with sparse matrices in CSR order, and products at their places.

Row r's entries are those from pointer[r] to pointer[r + 1]; entry k is in column col[k].
"""

import triton
import triton.language as tl

from ..copy import convert


@triton.jit
def spmm(
    values_ptr, col_ptr, pointer_ptr, x_ptr, y_ptr, n_cols, x_strides, y_row_stride,
    COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK_ENTRIES: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y[r, j] = sum of values[k] x[col[k], j] over row r's entries.

    A program: one row, BLOCK_COLS columns.  Entries are added in their order.
    """
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    if WIDE:
        cols = cols.to(tl.int64)
    inside = cols < n_cols
    begin = tl.load(pointer_ptr + row)
    end = tl.load(pointer_ptr + row + 1)
    total = tl.zeros((BLOCK_COLS,), COMPUTE)
    for start in range(begin, end, BLOCK_ENTRIES):
        k = start + tl.arange(0, BLOCK_ENTRIES)
        valid = k < end
        value = tl.load(values_ptr + k, mask=valid, other=0).to(COMPUTE)
        source = tl.load(col_ptr + k, mask=valid, other=0)
        if not WIDE:
            source = source.to(tl.int32)
        offsets = source[:, None] * x_strides[0] + cols[None, :] * x_strides[1]
        x = tl.load(x_ptr + offsets, mask=valid[:, None] & inside[None, :], other=0).to(COMPUTE)
        total += tl.sum(value[:, None] * x, 0)
    y_offsets = row * y_row_stride + cols
    tl.store(y_ptr + y_offsets, convert(total, y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def sampled_mm(
    x_ptr, y_ptr, row_ptr, col_ptr, out_ptr, n_entries, n_inner, x_strides, y_strides,
    COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK_ENTRIES: tl.constexpr,
    BLOCK_INNER: tl.constexpr,
):  # fmt: skip
    """out[k] = sum over j of x[row[k], j] y[col[k], j].

    A program: BLOCK_ENTRIES entries, over all of j.
    """
    k = tl.program_id(0).to(tl.int64) * BLOCK_ENTRIES + tl.arange(0, BLOCK_ENTRIES)
    valid = k < n_entries
    row = tl.load(row_ptr + k, mask=valid, other=0)
    col = tl.load(col_ptr + k, mask=valid, other=0)
    if not WIDE:
        row = row.to(tl.int32)
        col = col.to(tl.int32)
    total = tl.zeros((BLOCK_ENTRIES,), COMPUTE)
    for start in range(0, n_inner, BLOCK_INNER):
        j = start + tl.arange(0, BLOCK_INNER)
        mask = valid[:, None] & (j < n_inner)[None, :]
        x_offsets = row[:, None] * x_strides[0] + j[None, :] * x_strides[1]
        y_offsets = col[:, None] * y_strides[0] + j[None, :] * y_strides[1]
        x = tl.load(x_ptr + x_offsets, mask=mask, other=0).to(COMPUTE)
        y = tl.load(y_ptr + y_offsets, mask=mask, other=0).to(COMPUTE)
        total += tl.sum(x * y, 1)
    tl.store(out_ptr + k, convert(total, out_ptr.dtype.element_ty), mask=valid)
