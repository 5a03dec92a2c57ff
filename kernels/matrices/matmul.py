"""Matrix products: tiles on tensor cores, rank-one updates for integers, and thin products.

All end alike (`finished`): c = activation(alpha scales (a b) + beta addend), rounded once.
Arrays are stacks of matrices; strides are (batch, row, column).
"""

import triton
import triton.language as tl

from ..copy import convert
from ..scalar.elementary import negated
from ..softmax import number


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
def finished(
    acc, row, col, batch, n_rows, n_cols, extra, ADDEND: tl.constexpr, SCALED: tl.constexpr,
    ACTIVATION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """activation(alpha row_scale[row] col_scale[col] acc + beta addend[batch, row, col]).

    ADDEND: "none", "row" (one for all rows of all batches) or "matrix".  extra: the addend, its
    strides, each scale and its stride, alpha and beta, and what ACTIVATION works on, if that was
    written for what follows a product.  row and col have shapes that broadcast to
    acc's.
    """
    if SCALED:
        row_scale = tl.load(extra[4] + row * extra[5], mask=row < n_rows, other=0.0)
        col_scale = tl.load(extra[6] + col * extra[7], mask=col < n_cols, other=0.0)
        acc = acc * row_scale * col_scale
    if ADDEND != "none":
        acc = acc * number(extra[8], acc.dtype)
        at = offsets_of(col, extra[3], WIDE)
        mask = col < n_cols
        if ADDEND == "matrix":
            at += offsets_of(batch, extra[1], WIDE) + offsets_of(row, extra[2], WIDE)
            mask = mask & (row < n_rows)
        addend = tl.load(extra[0] + at, mask=mask, other=0.0)
        acc += convert(addend, acc.dtype) * number(extra[9], acc.dtype)
    if ACTIVATION is not None:
        if extra is None:
            acc = ACTIVATION(acc)
        elif len(extra) > 10:  # it reads and writes arrays, of which it knows the strides
            acc = ACTIVATION(acc, row, col, row < n_rows, col < n_cols, extra)
        else:
            acc = ACTIVATION(acc)
    return acc


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, n_rows, n_cols, n_inner, inner_per_split, a_strides, b_strides,
    c_split_stride, c_strides, extra, A_FIRST: tl.constexpr, B_FIRST: tl.constexpr,
    ADDEND: tl.constexpr, SCALED: tl.constexpr,
    ACTIVATION: tl.constexpr, ACCUMULATE: tl.constexpr, PRECISION: tl.constexpr,
    COMPLEX: tl.constexpr, WIDE: tl.constexpr, EVEN: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """c[s, z] = a[z][:, part s] b[z][part s, :], finished; any strides, through pointers.

    COMPLEX: elements are pairs of reals, and strides count reals.  EVEN: parts are whole blocks.
    A_FIRST, B_FIRST: what computes elements of an operand, from arrays in the place of its pointer.
    One program computes one tile of one batch z (grid axis 0) over one part of the inner dim
    (axis 1).
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
    step = tl.full([], BLOCK_K, tl.int32)
    if A_FIRST is None:
        a_tile_ptr = (
            a_ptr
            + offsets_of(batch, a_strides[0], WIDE)
            + offsets_of(rows, a_strides[1], WIDE)[:, None]
            + offsets_of(inner, a_strides[2], WIDE)[None, :]
        )
        a_step = offsets_of(step, a_strides[2], WIDE)
    if B_FIRST is None:
        b_tile_ptr = (
            b_ptr
            + offsets_of(batch, b_strides[0], WIDE)
            + offsets_of(inner, b_strides[1], WIDE)[:, None]
            + offsets_of(cols, b_strides[2], WIDE)[None, :]
        )
        b_step = offsets_of(step, b_strides[1], WIDE)
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACCUMULATE)
    if COMPLEX:
        imaginary = tl.zeros([BLOCK_M, BLOCK_N], ACCUMULATE)
    for k in range(begin, end, BLOCK_K):
        if EVEN:
            a_mask = row_mask[:, None]
            b_mask = col_mask[None, :]
        else:
            inside = inner - begin + k < end
            a_mask = row_mask[:, None] & inside[None, :]
            b_mask = inside[:, None] & col_mask[None, :]
        at = inner - begin + k
        if A_FIRST is None:
            a = tl.load(a_tile_ptr, mask=a_mask, other=0.0)
        else:
            a = A_FIRST(rows[:, None], at[None, :], row_mask[:, None], (at < end)[None, :], a_ptr)
        if B_FIRST is None:
            b = tl.load(b_tile_ptr, mask=b_mask, other=0.0)
        else:
            b = B_FIRST(at[:, None], cols[None, :], (at < end)[:, None], col_mask[None, :], b_ptr)
        acc = dot(a, b, acc, PRECISION)
        if COMPLEX:
            a_imaginary = tl.load(a_tile_ptr + 1, mask=a_mask, other=0.0)
            b_imaginary = tl.load(b_tile_ptr + 1, mask=b_mask, other=0.0)
            acc = dot(negated(a_imaginary), b_imaginary, acc, PRECISION)
            imaginary = dot(a, b_imaginary, imaginary, PRECISION)
            imaginary = dot(a_imaginary, b, imaginary, PRECISION)
        if A_FIRST is None:
            a_tile_ptr += a_step
        if B_FIRST is None:
            b_tile_ptr += b_step
    c_tile_ptr = (
        c_ptr
        + offsets_of(split, c_split_stride, WIDE)
        + offsets_of(batch, c_strides[0], WIDE)
        + offsets_of(rows, c_strides[1], WIDE)[:, None]
        + offsets_of(cols, c_strides[2], WIDE)[None, :]
    )
    mask = row_mask[:, None] & col_mask[None, :]
    acc = finished(
        acc, rows[:, None], cols[None, :], batch, n_rows, n_cols, extra, ADDEND, SCALED,
        ACTIVATION, WIDE,
    )  # fmt: skip
    tl.store(c_tile_ptr, convert(acc, c_ptr.dtype.element_ty), mask=mask)
    if COMPLEX:
        tl.store(c_tile_ptr + 1, convert(imaginary, c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def store_tile(
    acc, c, base, c_strides, place, first_row, first_col, n_rows, n_cols, WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Stores BLOCK_M x WIDTH elements of matrix `place`: by TMA, or if c is None by pointers."""
    out = convert(acc, base.dtype.element_ty)
    if c is not None:
        c.store([place, first_row, first_col], tl.reshape(out, (1, BLOCK_M, WIDTH)))
    else:
        rows = first_row + tl.arange(0, BLOCK_M)
        cols = first_col + tl.arange(0, WIDTH)
        at = (
            offsets_of(place, c_strides[0], WIDE)
            + offsets_of(rows, c_strides[1], WIDE)[:, None]
            + offsets_of(cols, c_strides[2], WIDE)[None, :]
        )
        tl.store(base + at, out, mask=(rows < n_rows)[:, None] & (cols < n_cols)[None, :])


@triton.jit
def matmul_tma(
    a, b, c, c_ptr, n_batches, n_rows, n_cols, n_splits, inner_per_split, c_strides, extra,
    ADDEND: tl.constexpr, SCALED: tl.constexpr, ACTIVATION: tl.constexpr,
    ACCUMULATE: tl.constexpr, PRECISION: tl.constexpr, IMPRECISE: tl.constexpr,
    A_COLS: tl.constexpr, B_COLS: tl.constexpr, A_SHARED: tl.constexpr, B_SHARED: tl.constexpr,
    WIDE: tl.constexpr, GROUP: tl.constexpr, SUBTILES: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """matmul, with tiles that the copy engine brings: a and b are descriptors.

    A_COLS, B_COLS: the descriptor is of the transposed matrices, whose columns are dense.
    A_SHARED, B_SHARED: all batches have the same matrix.  c: a descriptor of the results (part s of
    batch z is matrix s n_batches + z), or None: they are stored through c_ptr.  A part that goes
    past the inner dim reads zeros there.  IMPRECISE: so many float8 products are added up in the
    tensor cores' own precision (None: all).

    The grid is as large as the device; each program computes every so many tiles, and the loop over
    tiles is one with the loop over the inner dim, so that the next tile's loads start before this
    one is stored.  SUBTILES: a tile is stored in so many parts, which need less shared memory.
    """
    n_tiles_m = tl.cdiv(n_rows, BLOCK_M)
    n_tiles_n = tl.cdiv(n_cols, BLOCK_N)
    n_tiles = n_tiles_m * n_tiles_n
    n_items = n_tiles * n_batches * n_splits
    tl.assume(inner_per_split > 0)  # without it, there would be a second loop for empty tiles
    for item in tl.range(tl.program_id(0), n_items, tl.num_programs(0), flatten=True):
        place = item // n_tiles
        batch = place % n_batches
        tile_m, tile_n = tile_of(item % n_tiles, n_tiles_m, n_tiles_n, GROUP)
        row = tile_m * BLOCK_M
        col = tile_n * BLOCK_N
        begin = place // n_batches * inner_per_split
        a_batch = 0 if A_SHARED else batch
        b_batch = 0 if B_SHARED else batch
        acc = tl.zeros([BLOCK_M, BLOCK_N], ACCUMULATE)
        for k in range(0, inner_per_split, BLOCK_K):
            if A_COLS:
                x = tl.trans(tl.reshape(a.load([a_batch, begin + k, row]), (BLOCK_K, BLOCK_M)))
            else:
                x = tl.reshape(a.load([a_batch, row, begin + k]), (BLOCK_M, BLOCK_K))
            if B_COLS:
                y = tl.trans(tl.reshape(b.load([b_batch, col, begin + k]), (BLOCK_N, BLOCK_K)))
            else:
                y = tl.reshape(b.load([b_batch, begin + k, col]), (BLOCK_K, BLOCK_N))
            acc = tl.dot(
                x, y, acc, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE,
                out_dtype=ACCUMULATE,
            )  # fmt: skip
        rows = (row + tl.arange(0, BLOCK_M))[:, None]
        if SUBTILES == 2:
            half: tl.constexpr = BLOCK_N // 2
            halves = tl.permute(tl.reshape(acc, (BLOCK_M, 2, half)), (0, 2, 1))
            left, right = tl.split(halves)
            cols = (col + tl.arange(0, half))[None, :]
            left = finished(
                left, rows, cols, batch, n_rows, n_cols, extra, ADDEND, SCALED, ACTIVATION, WIDE,
            )  # fmt: skip
            store_tile(
                left, c, c_ptr, c_strides, place, row, col, n_rows, n_cols, WIDE, BLOCK_M, half
            )
            right = finished(
                right, rows, cols + half, batch, n_rows, n_cols, extra, ADDEND, SCALED, ACTIVATION,
                WIDE,
            )  # fmt: skip
            store_tile(
                right, c, c_ptr, c_strides, place, row, col + half, n_rows, n_cols, WIDE, BLOCK_M,
                half,
            )  # fmt: skip
        else:
            cols = (col + tl.arange(0, BLOCK_N))[None, :]
            acc = finished(
                acc, rows, cols, batch, n_rows, n_cols, extra, ADDEND, SCALED, ACTIVATION, WIDE,
            )  # fmt: skip
            store_tile(
                acc, c, c_ptr, c_strides, place, row, col, n_rows, n_cols, WIDE, BLOCK_M, BLOCK_N
            )


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
    a_ptr, b_ptr, c_ptr, n_rows, n_cols, n_inner, inner_per_split, a_strides, b_strides,
    c_split_stride, c_strides, extra, A_FIRST: tl.constexpr, B_FIRST: tl.constexpr,
    ADDEND: tl.constexpr, SCALED: tl.constexpr, ACTIVATION: tl.constexpr, ACCUMULATE: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """c[s, z] = a[z][:, part s] b[z][part s, :], finished, where n_cols <= BLOCK_N is small.

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
    a_offsets = offsets_of(batch, a_strides[0], WIDE) + offsets_of(rows, a_strides[1], WIDE)
    b_offsets = offsets_of(batch, b_strides[0], WIDE) + offsets_of(cols, b_strides[2], WIDE)
    acc = tl.zeros([BLOCK_M, BLOCK_N, BLOCK_K], ACCUMULATE)
    for k in range(begin, end, BLOCK_K):
        inner = k + tl.arange(0, BLOCK_K)
        inside = inner < end
        if A_FIRST is None:
            a = tl.load(
                a_ptr + a_offsets[:, None] + offsets_of(inner, a_strides[2], WIDE)[None, :],
                mask=row_mask[:, None] & inside[None, :],
                other=0.0,
            )
        else:
            a = A_FIRST(rows[:, None], inner[None, :], row_mask[:, None], inside[None, :], a_ptr)
        if B_FIRST is None:
            b = tl.load(
                b_ptr + b_offsets[:, None] + offsets_of(inner, b_strides[1], WIDE)[None, :],
                mask=col_mask[:, None] & inside[None, :],
                other=0.0,
            )
        else:
            b = B_FIRST(inner[None, :], cols[:, None], inside[None, :], col_mask[:, None], b_ptr)
        acc += convert(a, ACCUMULATE)[:, None, :] * convert(b, ACCUMULATE)[None, :, :]
    total = tl.sum(acc, axis=2)
    c_tile_ptr = (
        c_ptr
        + offsets_of(split, c_split_stride, WIDE)
        + offsets_of(batch, c_strides[0], WIDE)
        + offsets_of(rows, c_strides[1], WIDE)[:, None]
        + offsets_of(cols, c_strides[2], WIDE)[None, :]
    )
    total = finished(
        total, rows[:, None], cols[None, :], batch, n_rows, n_cols, extra, ADDEND, SCALED,
        ACTIVATION, WIDE,
    )  # fmt: skip
    mask = row_mask[:, None] & col_mask[None, :]
    tl.store(c_tile_ptr, convert(total, c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def sum_splits(
    x_ptr, c_ptr, n_elements, n_splits, n_rows, n_cols, extra, ADDEND: tl.constexpr,
    SCALED: tl.constexpr, ACTIVATION: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """c[z, i, j] = sum of x[s, z, i, j] over s, in the order of s, finished.

    Both are dense.  One program sums BLOCK elements.
    """
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    total = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    for s in range(1, n_splits):
        total += tl.load(x_ptr + s * n_elements + offsets, mask=mask, other=0.0)
    if ADDEND != "none" or SCALED or ACTIVATION is not None:
        matrix = offsets // n_cols
        row = tl.where(mask, matrix % n_rows, n_rows)  # else the rest would be of another batch
        total = finished(
            total, row, offsets % n_cols, matrix // n_rows, n_rows, n_cols, extra,
            ADDEND, SCALED, ACTIVATION, WIDE,
        )  # fmt: skip
    tl.store(c_ptr + offsets, convert(total, c_ptr.dtype.element_ty), mask=mask)
