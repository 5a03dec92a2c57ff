"""Copies between layouts, converting elements on the way."""

import triton
import triton.language as tl


@triton.jit
def convert(x, dtype: tl.constexpr):
    """x as another type; a bool says whether x is not zero.  What passes the range of an unsigned
    type wraps, of float8e5 is infinite, of float8e4nv becomes the largest number."""
    if (x.dtype.is_floating() and x.dtype.primitive_bitwidth < 32) or dtype.is_fp8():
        x = x.to(tl.float32)  # the narrow types convert to and from it only
    if dtype == tl.int1:
        return x != 0
    if x.dtype.is_floating():
        if dtype == tl.float8e5:  # the hardware saturates, which PyTorch does for float8e4nv only
            code = tl.where(x >= 61440, 0x7C, x.to(dtype).to(tl.uint8, bitcast=True))
            return tl.where(x <= -61440, 0xFC, code).to(tl.uint8).to(dtype, bitcast=True)
        if dtype.is_int_unsigned():  # the hardware takes negative numbers for 0; PyTorch wraps
            if dtype == tl.uint64:
                return tl.where(x < 9.2e18, x.to(tl.int64).to(dtype), x.to(dtype))
            return x.to(tl.int64).to(dtype)
    return x.to(dtype)


@triton.jit
def copy_strided(
    x_ptr,
    y_ptr,
    n_elements,
    shape,
    x_strides,
    y_strides,
    NDIM: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """y[i] = x[i] for every index i of a common shape.

    shape, x_strides, y_strides: NDIM entries each, outermost first.  One program copies BLOCK
    consecutive elements in the order of shape.  WIDE: offsets pass 2^31, count in 64 bits.
    """
    pid = tl.program_id(0)
    if WIDE:
        offsets = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    else:
        offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    rest = offsets
    x_offsets = tl.zeros_like(offsets)
    y_offsets = tl.zeros_like(offsets)
    for i in tl.static_range(NDIM - 1):  # innermost first
        index = rest % shape[NDIM - 1 - i]
        rest = rest // shape[NDIM - 1 - i]
        x_offsets += index * x_strides[NDIM - 1 - i]
        y_offsets += index * y_strides[NDIM - 1 - i]
    x_offsets += rest * x_strides[0]
    y_offsets += rest * y_strides[0]
    x = tl.load(x_ptr + x_offsets, mask=mask)
    tl.store(y_ptr + y_offsets, convert(x, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def copy_transposed(
    x_ptr,
    y_ptr,
    n_rows,
    n_cols,
    x_col_stride,
    y_row_stride,
    x_batch_stride,
    y_batch_stride,
    WIDE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    """y[b, r, c] = x[b, r, c] where x is dense along r and y along c.

    One program copies one tile of one batch; the compiler turns the tile between its coalesced
    load and its coalesced store.
    """
    tile = tl.program_id(0)
    batch = tl.program_id(1)
    tiles_across = tl.cdiv(n_cols, BLOCK_COLS)
    rows = (tile // tiles_across) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    cols = (tile % tiles_across) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
    if WIDE:
        rows = rows.to(tl.int64)
        cols = cols.to(tl.int64)
        batch = batch.to(tl.int64)
    x_offsets = batch * x_batch_stride + rows[:, None] + cols[None, :] * x_col_stride
    y_offsets = batch * y_batch_stride + rows[:, None] * y_row_stride + cols[None, :]
    x = tl.load(x_ptr + x_offsets, mask=mask)
    tl.store(y_ptr + y_offsets, convert(x, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def fill(y_ptr, n_elements, value, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """y[i] = value for 0 <= i < n_elements; y is dense.  One program fills BLOCK elements."""
    pid = tl.program_id(0)
    if WIDE:
        offsets = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    else:
        offsets = pid * BLOCK + tl.arange(0, BLOCK)
    y = tl.full([BLOCK], 0, y_ptr.dtype.element_ty) + value
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=offsets < n_elements)
