"""Normalisation over channels (batch norm), its statistics and gradients.

x is (n_outer, n_channels, spatial), dense, and tiles are of what lies together in memory.  LAST:
spatial is 1 (also for channels_last images, whose places are further outer ones); a tile is some
outer indices (axis 0) of some channels (axis 1).  Else it is some outer indices of one channel by
some of its spatial elements.  ALIGN divides the columns: n_channels if LAST, else spatial.

Sums over a channel are cut into parts, whose results are put together in order.
"""

import triton
import triton.language as tl

from ..copy import convert
from ..norm import affine, joined, moments
from ..softmax import aligned, number, read


@triton.jit
def place(n_outer, n_channels, spatial, LAST: tl.constexpr, BLOCK_ROWS: tl.constexpr,
          BLOCK_COLS: tl.constexpr):  # fmt: skip
    """This program's channels, which exist, and how many tiles they have."""
    if LAST:
        c = tl.program_id(0) * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
        n_tiles = tl.cdiv(n_outer, BLOCK_ROWS)
    else:
        c = tl.program_id(0) + tl.zeros([1], tl.int32)
        n_tiles = tl.cdiv(n_outer, BLOCK_ROWS) * tl.cdiv(spatial, BLOCK_COLS)
    return c, c < n_channels, n_tiles


@triton.jit
def tile_of_channels(
    i, c, n_outer, n_channels, spatial, LAST: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Offsets, mask, outer indices and number of elements a channel of this program's i-th tile."""
    if LAST:
        row = i * BLOCK_ROWS
        rows = row + tl.arange(0, BLOCK_ROWS)
        mask = (rows < n_outer)[:, None] & (c < n_channels)[None, :]
        count = tl.minimum(n_outer - row, BLOCK_ROWS)
        wide = rows
        if WIDE:
            wide = rows.to(tl.int64)
        offsets = (wide * n_channels)[:, None] + c[None, :]
    else:
        across = tl.cdiv(spatial, BLOCK_COLS)
        row = i // across * BLOCK_ROWS
        col = i % across * BLOCK_COLS
        rows = row + tl.arange(0, BLOCK_ROWS)
        cols = col + tl.arange(0, BLOCK_COLS)
        mask = (rows < n_outer)[:, None] & (cols < spatial)[None, :]
        count = tl.minimum(n_outer - row, BLOCK_ROWS) * tl.minimum(spatial - col, BLOCK_COLS)
        wide = rows
        if WIDE:
            wide = rows.to(tl.int64)
        offsets = ((wide * n_channels + c) * spatial)[:, None] + cols[None, :]
    return offsets, mask, rows, count


@triton.jit
def total(x, LAST: tl.constexpr):
    """The sum over a tile of each of its channels."""
    x = tl.sum(x, axis=0)
    if LAST:
        return x
    else:
        return tl.sum(x, axis=0) + tl.zeros([1], x.dtype)


@triton.jit
def channel_statistics(
    x_ptr, partial_ptr, n_outer, n_channels, spatial, per_split, LAST: tl.constexpr,
    COMPUTE: tl.constexpr, WIDE: tl.constexpr, ALIGN: tl.constexpr, STAGES: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """partial[s] = count, mean and sum of (x - mean)^2 of part s of each channel, read once.

    A part is per_split tiles (axis 1: s).  Sums are of x minus its first tile's mean, so that
    little cancels.
    """
    if LAST:
        n_channels = aligned(n_channels, ALIGN)
    else:
        spatial = aligned(spatial, ALIGN)
    c, c_mask, n_tiles = place(n_outer, n_channels, spatial, LAST, BLOCK_ROWS, BLOCK_COLS)
    split = tl.program_id(1)
    first = split * per_split
    offsets, mask, _, count = tile_of_channels(
        first, c, n_outer, n_channels, spatial, LAST, WIDE, BLOCK_ROWS, BLOCK_COLS
    )
    shift = total(read(x_ptr, offsets, mask, 0.0, COMPUTE), LAST) / count
    s = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    q = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    n = tl.full([], 0, tl.int64)
    last = tl.minimum(first + per_split, n_tiles)
    for i in tl.range(first, last, num_stages=STAGES):
        offsets, mask, _, count = tile_of_channels(
            i, c, n_outer, n_channels, spatial, LAST, WIDE, BLOCK_ROWS, BLOCK_COLS
        )
        x = tl.where(mask, read(x_ptr, offsets, mask, 0.0, COMPUTE) - shift[None, :], 0.0)
        s += x
        q += x * x
        n += count
    mean, square = moments(total(s, LAST), total(q, LAST), shift, n)
    at = partial_ptr + split.to(tl.int64) * 3 * n_channels + c
    tl.store(at, tl.zeros_like(mean) + n, mask=c_mask)
    tl.store(at + n_channels, mean, mask=c_mask)
    tl.store(at + 2 * n_channels, square, mask=c_mask)


@triton.jit
def finish_channel_statistics(
    partial_ptr, given_mean_ptr, given_var_ptr, mean_ptr, rstd_ptr, var_ptr, n_channels,
    n_splits, eps, GIVEN: tl.constexpr, COMPUTE: tl.constexpr, BLOCK_S: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Joins the parts of channel_statistics, in order; rstd = 1 / sqrt(var + eps).

    GIVEN: mean and variance are inputs.
    """
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = c < n_channels
    if GIVEN:
        mean = read(given_mean_ptr, c, mask, 0.0, COMPUTE)
        var = read(given_var_ptr, c, mask, 0.0, COMPUTE)
    else:
        count = tl.zeros([BLOCK], COMPUTE)
        mean = tl.zeros([BLOCK], COMPUTE)
        square = tl.zeros([BLOCK], COMPUTE)
        for start in range(0, n_splits, BLOCK_S):
            s = start + tl.arange(0, BLOCK_S)
            at = partial_ptr + 3 * s.to(tl.int64)[:, None] * n_channels + c[None, :]
            inside = (s < n_splits)[:, None] & mask[None, :]
            counts = tl.load(at, mask=inside, other=0.0)
            # a channel that is not there has a count of 1, so that nothing is divided by 0
            counts = tl.where(inside | ((s == start)[:, None] & (c >= 0)[None, :]), counts, 0.0)
            means = tl.load(at + n_channels, mask=inside, other=0.0)
            squares = tl.load(at + 2 * n_channels, mask=inside, other=0.0)
            more = tl.sum(counts, axis=0)
            other, other_square = joined(counts, means, squares, 0)
            both = count + more
            off = other - mean
            mean += off * (more / both)
            square += other_square + off * off * (count * more / both)
            count = both
        var = square / count
    rstd = 1.0 / tl.sqrt(var + number(eps, COMPUTE))
    tl.store(mean_ptr + c, mean, mask=mask)
    tl.store(rstd_ptr + c, rstd, mask=mask)
    tl.store(var_ptr + c, var, mask=mask)


@triton.jit
def join_channel_statistics(partial_ptr, joined_ptr, n_channels, n_splits, BLOCK_S: tl.constexpr,
                            BLOCK: tl.constexpr):  # fmt: skip
    """joined[s]: BLOCK_S parts of channel_statistics, from s BLOCK_S on, as one."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = c < n_channels
    s = tl.program_id(1) * BLOCK_S + tl.arange(0, BLOCK_S)
    at = partial_ptr + 3 * s.to(tl.int64)[:, None] * n_channels + c[None, :]
    inside = (s < n_splits)[:, None] & mask[None, :]
    counts = tl.load(at, mask=inside, other=0.0)
    # a channel that is not there has a count of 1, so that nothing is divided by 0
    counts = tl.where((s < n_splits)[:, None] & (c >= n_channels)[None, :], 1.0, counts)
    means = tl.load(at + n_channels, mask=inside, other=0.0)
    squares = tl.load(at + 2 * n_channels, mask=inside, other=0.0)
    mean, square = joined(counts, means, squares, 0)
    to = joined_ptr + 3 * tl.program_id(1).to(tl.int64) * n_channels + c
    tl.store(to, tl.sum(counts, axis=0), mask=mask)
    tl.store(to + n_channels, mean, mask=mask)
    tl.store(to + 2 * n_channels, square, mask=mask)


@triton.jit
def past_relu(dy, result, offsets, mask):
    """The gradient before a relu; result: a pointer to its result, or None without a relu."""
    if result is not None:
        y = tl.load(result + offsets, mask=mask, other=0.0)
        dy = tl.where(y <= 0, 0.0, dy)
    return dy


@triton.jit
def channel_sums(
    dy_ptr, x_ptr, y_ptr, mean_ptr, rstd_ptr, partial_ptr, n_outer, n_channels, spatial, per_split,
    OF_ROWS: tl.constexpr, HAS_MEAN: tl.constexpr, LAST: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, ALIGN: tl.constexpr, STAGES: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """partial[s, 0] = sum of dy n and partial[s, 1] = sum of dy over part s of each channel.

    n = (x - mean) rstd, statistics of channels; OF_ROWS: of outer indices.  y_ptr: see past_relu.
    Parts: see channel_statistics.
    """
    if LAST:
        n_channels = aligned(n_channels, ALIGN)
    else:
        spatial = aligned(spatial, ALIGN)
    c, c_mask, n_tiles = place(n_outer, n_channels, spatial, LAST, BLOCK_ROWS, BLOCK_COLS)
    split = tl.program_id(1)
    dw = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    db = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    if OF_ROWS == 0:
        mean = tl.load(mean_ptr + c, mask=c_mask, other=0.0)[None, :]
        rstd = tl.load(rstd_ptr + c, mask=c_mask, other=0.0)[None, :]
    last = tl.minimum((split + 1) * per_split, n_tiles)
    for i in tl.range(split * per_split, last, num_stages=STAGES):
        offsets, mask, rows, _ = tile_of_channels(
            i, c, n_outer, n_channels, spatial, LAST, WIDE, BLOCK_ROWS, BLOCK_COLS
        )
        dy = past_relu(read(dy_ptr, offsets, mask, 0.0, COMPUTE), y_ptr, offsets, mask)
        x = read(x_ptr, offsets, mask, 0.0, COMPUTE)
        if OF_ROWS:
            rstd = tl.load(rstd_ptr + rows, mask=rows < n_outer, other=0.0)[:, None]
            if HAS_MEAN:
                x -= tl.load(mean_ptr + rows, mask=rows < n_outer, other=0.0)[:, None]
        else:
            x -= mean
        dw += dy * x * rstd
        db += dy
    at = partial_ptr + split.to(tl.int64) * 2 * n_channels + c
    tl.store(at, total(dw, LAST), mask=c_mask)
    tl.store(at + n_channels, total(db, LAST), mask=c_mask)


@triton.jit
def finish_channel_sums(
    partial_ptr, dw_ptr, db_ptr, n_channels, n_splits, HAS_BIAS: tl.constexpr,
    BLOCK_S: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dw = sum of partial[s, 0] over s and db = sum of partial[s, 1], in order."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dw = tl.zeros([BLOCK_S, BLOCK], partial_ptr.dtype.element_ty)
    db = tl.zeros([BLOCK_S, BLOCK], partial_ptr.dtype.element_ty)
    for start in range(0, n_splits, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)
        at = partial_ptr + 2 * s.to(tl.int64)[:, None] * n_channels + c[None, :]
        mask = (s < n_splits)[:, None] & (c < n_channels)[None, :]
        dw += tl.load(at, mask=mask, other=0.0)
        if HAS_BIAS:
            db += tl.load(at + n_channels, mask=mask, other=0.0)
    mask = c < n_channels
    tl.store(dw_ptr + c, convert(tl.sum(dw, axis=0), dw_ptr.dtype.element_ty), mask=mask)
    if HAS_BIAS:
        tl.store(db_ptr + c, convert(tl.sum(db, axis=0), db_ptr.dtype.element_ty), mask=mask)


@triton.jit
def flat_tile(
    n_rows, n_cols, n_channels, LAST: tl.constexpr, WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Offsets, mask and channels of a tile of rows: of channels if LAST, else of one channel's."""
    across = tl.cdiv(n_cols, BLOCK_COLS)
    rows = tl.program_id(0) // across * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    cols = tl.program_id(0) % across * BLOCK_COLS + tl.arange(0, BLOCK_COLS)
    mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
    if LAST:
        c, c_mask = cols[None, :], (cols < n_cols)[None, :]
    else:
        c, c_mask = (rows % n_channels)[:, None], (rows < n_rows)[:, None]
    wide = rows
    if WIDE:
        wide = rows.to(tl.int64)
    return (wide * n_cols)[:, None] + cols[None, :], mask, c, c_mask


@triton.jit
def batch_norm(
    x_ptr, w_ptr, b_ptr, z_ptr, mean_ptr, rstd_ptr, y_ptr, n_rows, n_cols, n_channels,
    HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr, RELU: tl.constexpr, LAST: tl.constexpr,
    COMPUTE: tl.constexpr, WIDE: tl.constexpr, ALIGN: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y = (x - mean[c]) * rstd[c] * w[c] + b[c] + z, or its relu; z_ptr may be None.

    One program computes one tile.
    """
    n_cols = aligned(n_cols, ALIGN)
    offsets, mask, c, c_mask = flat_tile(
        n_rows, n_cols, n_channels, LAST, WIDE, BLOCK_ROWS, BLOCK_COLS
    )
    x = read(x_ptr, offsets, mask, 0.0, COMPUTE)
    mean = tl.load(mean_ptr + c, mask=c_mask, other=0.0)
    rstd = tl.load(rstd_ptr + c, mask=c_mask, other=0.0)
    y = affine((x - mean) * rstd, w_ptr, b_ptr, c, c_mask, HAS_WEIGHT, HAS_BIAS)
    if z_ptr is not None:
        y += read(z_ptr, offsets, mask, 0.0, COMPUTE)
    if RELU:
        y = tl.where(y < 0, 0.0, y)  # keeps NaN
    tl.store(y_ptr + offsets, convert(y, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def batch_norm_backward(
    dy_ptr, x_ptr, y_ptr, w_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, dx_ptr, dz_ptr, n_rows,
    n_cols, n_channels, n_each,
    HAS_WEIGHT: tl.constexpr, TRAINING: tl.constexpr, LAST: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, ALIGN: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """dx = (dy - db / count - n dw / count) rstd w, n = (x - mean) rstd, count = n_each.

    Not TRAINING: dy rstd w.  y_ptr: see past_relu; dz_ptr: where that gradient is wanted, or None.
    One program computes one tile.
    """
    n_cols = aligned(n_cols, ALIGN)
    offsets, mask, c, c_mask = flat_tile(
        n_rows, n_cols, n_channels, LAST, WIDE, BLOCK_ROWS, BLOCK_COLS
    )
    dx = past_relu(read(dy_ptr, offsets, mask, 0.0, COMPUTE), y_ptr, offsets, mask)
    if dz_ptr is not None:
        tl.store(dz_ptr + offsets, convert(dx, dz_ptr.dtype.element_ty), mask=mask)
    rstd = tl.load(rstd_ptr + c, mask=c_mask, other=0.0)
    if TRAINING:
        mean = tl.load(mean_ptr + c, mask=c_mask, other=0.0)
        along = tl.load(dw_ptr + c, mask=c_mask, other=0.0) * rstd / n_each
        db = tl.load(db_ptr + c, mask=c_mask, other=0.0) / n_each
        dx -= db + (read(x_ptr, offsets, mask, 0.0, COMPUTE) - mean) * along
    scale = affine(rstd, w_ptr, w_ptr, c, c_mask, HAS_WEIGHT, False)
    tl.store(dx_ptr + offsets, convert(dx * scale, dx_ptr.dtype.element_ty), mask=mask)
