"""Matrix products: tiles on tensor cores, rank-one updates for integers, and thin products."""

import triton
import triton.language as tl

from .copy import convert


@triton.jit
def tile_of(pid, n_tiles_m, n_tiles_n, GROUP: tl.constexpr):
    """Tile coordinates, GROUP rows of tiles at a time, so that programs share what is in L2."""
    group = pid // (GROUP * n_tiles_n)
    first = group * GROUP
    height = tl.minimum(n_tiles_m - first, GROUP)
    within = pid % (GROUP * n_tiles_n)
    return first + within % height, within // height


@triton.jit
def offsets_of(index, stride, WIDE: tl.constexpr):
    """index * stride, in 64 bits where offsets need them."""
    if WIDE:
        offsets = index.to(tl.int64) * stride
    else:
        offsets = index * stride
    return offsets


@triton.jit
def dot(a, b, acc, PRECISION: tl.constexpr):
    """acc + a b, in acc's type."""
    return tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=acc.dtype)


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, n_rows, n_cols, n_inner, inner_per_split,
    a_batch_stride, a_row_stride, a_col_stride, b_batch_stride, b_row_stride, b_col_stride,
    c_split_stride, c_batch_stride, c_row_stride, c_col_stride,
    ACCUMULATE: tl.constexpr, PRECISION: tl.constexpr, COMPLEX: tl.constexpr, WIDE: tl.constexpr,
    GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """c[s, z] = a[z][:, part s] b[z][part s, :].

    COMPLEX: elements are pairs of reals, and strides count reals.  One program computes one tile of
    one batch z (grid axis 0) over one part of the inner dim (axis 1).
    """
    n_tiles_m = tl.cdiv(n_rows, BLOCK_M)
    n_tiles_n = tl.cdiv(n_cols, BLOCK_N)
    pid = tl.program_id(0)
    batch = pid // (n_tiles_m * n_tiles_n)
    tile_m, tile_n = tile_of(pid % (n_tiles_m * n_tiles_n), n_tiles_m, n_tiles_n, GROUP)
    split = tl.program_id(1)
    begin = split * inner_per_split
    end = tl.minimum(begin + inner_per_split, n_inner)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = begin + tl.arange(0, BLOCK_K)
    row_mask = rows < n_rows
    col_mask = cols < n_cols
    a_tile_ptr = (
        a_ptr
        + offsets_of(batch, a_batch_stride, WIDE)
        + offsets_of(rows, a_row_stride, WIDE)[:, None]
        + offsets_of(inner, a_col_stride, WIDE)[None, :]
    )
    b_tile_ptr = (
        b_ptr
        + offsets_of(batch, b_batch_stride, WIDE)
        + offsets_of(inner, b_row_stride, WIDE)[:, None]
        + offsets_of(cols, b_col_stride, WIDE)[None, :]
    )
    c_tile_ptr = (
        c_ptr
        + offsets_of(split, c_split_stride, WIDE)
        + offsets_of(batch, c_batch_stride, WIDE)
        + offsets_of(rows, c_row_stride, WIDE)[:, None]
        + offsets_of(cols, c_col_stride, WIDE)[None, :]
    )
    step = tl.full([], BLOCK_K, tl.int32)
    a_step = offsets_of(step, a_col_stride, WIDE)
    b_step = offsets_of(step, b_row_stride, WIDE)
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACCUMULATE)
    if COMPLEX:
        imaginary = tl.zeros([BLOCK_M, BLOCK_N], ACCUMULATE)
    for k in range(begin, end, BLOCK_K):
        inside = inner - begin + k < end
        a_mask = row_mask[:, None] & inside[None, :]
        b_mask = inside[:, None] & col_mask[None, :]
        a = tl.load(a_tile_ptr, mask=a_mask, other=0.0)
        b = tl.load(b_tile_ptr, mask=b_mask, other=0.0)
        acc = dot(a, b, acc, PRECISION)
        if COMPLEX:
            a_imaginary = tl.load(a_tile_ptr + 1, mask=a_mask, other=0.0)
            b_imaginary = tl.load(b_tile_ptr + 1, mask=b_mask, other=0.0)
            acc = dot(-a_imaginary, b_imaginary, acc, PRECISION)
            imaginary = dot(a, b_imaginary, imaginary, PRECISION)
            imaginary = dot(a_imaginary, b, imaginary, PRECISION)
        a_tile_ptr += a_step
        b_tile_ptr += b_step
    mask = row_mask[:, None] & col_mask[None, :]
    tl.store(c_tile_ptr, convert(acc, c_ptr.dtype.element_ty), mask=mask)
    if COMPLEX:
        tl.store(c_tile_ptr + 1, convert(imaginary, c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def matmul_integers(
    a_ptr, b_ptr, c_ptr, n_rows, n_cols, n_inner,
    a_batch_stride, a_row_stride, a_col_stride, b_batch_stride, b_row_stride, b_col_stride,
    c_batch_stride, c_row_stride, c_col_stride,
    ACCUMULATE: tl.constexpr, WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """c[z] = a[z] b[z], by rank-one updates: no tensor core multiplies these types.

    One program computes one tile of one batch.
    """
    n_tiles_m = tl.cdiv(n_rows, BLOCK_M)
    n_tiles_n = tl.cdiv(n_cols, BLOCK_N)
    pid = tl.program_id(0)
    batch = pid // (n_tiles_m * n_tiles_n)
    tile = pid % (n_tiles_m * n_tiles_n)
    rows = (tile // n_tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tile % n_tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    row_mask = rows < n_rows
    col_mask = cols < n_cols
    a_rows_ptr = (
        a_ptr + offsets_of(batch, a_batch_stride, WIDE) + offsets_of(rows, a_row_stride, WIDE)
    )
    b_cols_ptr = (
        b_ptr + offsets_of(batch, b_batch_stride, WIDE) + offsets_of(cols, b_col_stride, WIDE)
    )
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACCUMULATE)
    for _ in range(n_inner):
        a = tl.load(a_rows_ptr, mask=row_mask, other=0).to(ACCUMULATE)
        b = tl.load(b_cols_ptr, mask=col_mask, other=0).to(ACCUMULATE)
        acc += a[:, None] * b[None, :]
        a_rows_ptr += a_col_stride
        b_cols_ptr += b_row_stride
    c_tile_ptr = (
        c_ptr
        + offsets_of(batch, c_batch_stride, WIDE)
        + offsets_of(rows, c_row_stride, WIDE)[:, None]
        + offsets_of(cols, c_col_stride, WIDE)[None, :]
    )
    mask = row_mask[:, None] & col_mask[None, :]
    tl.store(c_tile_ptr, convert(acc, c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def matmul_thin(
    a_ptr, b_ptr, c_ptr, n_rows, n_cols, n_inner, inner_per_split,
    a_batch_stride, a_row_stride, a_col_stride, b_batch_stride, b_row_stride, b_col_stride,
    c_split_stride, c_batch_stride, c_row_stride, c_col_stride,
    ACCUMULATE: tl.constexpr, WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """c[s, z] = a[z][:, part s] b[z][part s, :] where n_cols <= BLOCK_N is small.

    The work is to read a once: products are summed elementwise, and over the inner dim at the end.
    One program computes BLOCK_M rows of one batch (axis 0) over one part (axis 1).
    """
    n_tiles = tl.cdiv(n_rows, BLOCK_M)
    pid = tl.program_id(0)
    batch = pid // n_tiles
    split = tl.program_id(1)
    begin = split * inner_per_split
    end = tl.minimum(begin + inner_per_split, n_inner)
    rows = (pid % n_tiles) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    row_mask = rows < n_rows
    col_mask = cols < n_cols
    a_base_ptr = a_ptr + offsets_of(batch, a_batch_stride, WIDE)
    b_base_ptr = b_ptr + offsets_of(batch, b_batch_stride, WIDE)
    a_offsets = offsets_of(rows, a_row_stride, WIDE)
    b_offsets = offsets_of(cols, b_col_stride, WIDE)
    acc = tl.zeros([BLOCK_M, BLOCK_N, BLOCK_K], ACCUMULATE)
    for k in range(begin, end, BLOCK_K):
        inner = k + tl.arange(0, BLOCK_K)
        inside = inner < end
        a = tl.load(
            a_base_ptr + a_offsets[:, None] + offsets_of(inner, a_col_stride, WIDE)[None, :],
            mask=row_mask[:, None] & inside[None, :],
            other=0.0,
        ).to(ACCUMULATE)
        b = tl.load(
            b_base_ptr + b_offsets[:, None] + offsets_of(inner, b_row_stride, WIDE)[None, :],
            mask=col_mask[:, None] & inside[None, :],
            other=0.0,
        ).to(ACCUMULATE)
        acc += a[:, None, :] * b[None, :, :]
    total = tl.sum(acc, axis=2)
    c_tile_ptr = (
        c_ptr
        + offsets_of(split, c_split_stride, WIDE)
        + offsets_of(batch, c_batch_stride, WIDE)
        + offsets_of(rows, c_row_stride, WIDE)[:, None]
        + offsets_of(cols, c_col_stride, WIDE)[None, :]
    )
    mask = row_mask[:, None] & col_mask[None, :]
    tl.store(c_tile_ptr, convert(total, c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def sum_splits(x_ptr, y_ptr, n_elements, n_splits, BLOCK: tl.constexpr):
    """y[i] = sum of x[s, i] over s, in the order of s; one program sums BLOCK columns."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    total = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    for s in range(1, n_splits):
        total += tl.load(x_ptr + s * n_elements + offsets, mask=mask, other=0.0)
    tl.store(y_ptr + offsets, convert(total, y_ptr.dtype.element_ty), mask=mask)
