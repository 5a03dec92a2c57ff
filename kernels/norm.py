"""Normalisation over rows (layer, RMS, group) and over channels (batch), and its gradients.

Rows: x is (n_rows, n_cols), dense.  The weight's index is the column; GROUPED: the channel
(row % n_groups) * per_group + col // spatial.
"""

import triton
import triton.language as tl

from .copy import convert
from .pointwise import block_offsets
from .softmax import number, read


@triton.jit
def channels(rows, cols, n_cols, n_groups, per_group, spatial, GROUPED: tl.constexpr):
    """The channel of each element of a tile, or of its columns, and which exist."""
    inside = (cols < n_cols)[None, :]
    if GROUPED:
        index = (rows % n_groups)[:, None] * per_group + (cols // spatial)[None, :]
        inside = inside & (rows >= 0)[:, None]
    else:
        index = cols[None, :]
    return index, inside


@triton.jit
def affine(normal, w, b, index, mask, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr):
    """normal * w + b, where there are such."""
    if HAS_WEIGHT:
        normal *= read(w, index, mask, 0.0, normal.dtype)
    if HAS_BIAS:
        normal += read(b, index, mask, 0.0, normal.dtype)
    return normal


@triton.jit
def norm_rows(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, n_rows, n_cols, n_groups, per_group, spatial,
    eps, RMS: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr,
    GROUPED: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(mean((x - mean)^2) + eps); RMS: mean is 0.

    One program holds BLOCK_ROWS whole rows in registers.
    """
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_COLS)
    row_mask = rows < n_rows
    mask = row_mask[:, None] & (cols < n_cols)[None, :]
    begin = rows
    if WIDE:
        begin = rows.to(tl.int64)
    offsets = begin[:, None] * n_cols + cols[None, :]
    x = read(x_ptr, offsets, mask, 0.0, COMPUTE)
    if RMS == 0:
        mean = tl.sum(x, axis=1) / n_cols
        x = tl.where(mask, x - mean[:, None], 0.0)
        tl.store(mean_ptr + rows, mean, mask=row_mask)
    variance = tl.sum(x * x, axis=1) / n_cols
    rstd = 1.0 / tl.sqrt(variance + number(eps, COMPUTE))
    tl.store(rstd_ptr + rows, rstd, mask=row_mask)
    index, inside = channels(rows, cols, n_cols, n_groups, per_group, spatial, GROUPED)
    y = affine(x * rstd[:, None], w_ptr, b_ptr, index, inside, HAS_WEIGHT, HAS_BIAS)
    tl.store(y_ptr + offsets, convert(y, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def norm_looped(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, n_rows, n_cols, n_groups, per_group, spatial,
    eps, RMS: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr,
    GROUPED: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """The same for longer rows, in three passes: mean, variance, y."""
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    row_mask = rows < n_rows
    begin = rows
    if WIDE:
        begin = rows.to(tl.int64)
    begin = begin[:, None] * n_cols
    mean = tl.zeros([BLOCK_ROWS], COMPUTE)
    lanes = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    if RMS == 0:
        for start in range(0, n_cols, BLOCK_COLS):
            cols = start + tl.arange(0, BLOCK_COLS)
            mask = row_mask[:, None] & (cols < n_cols)[None, :]
            lanes += read(x_ptr, begin + cols[None, :], mask, 0.0, COMPUTE)
        mean = tl.sum(lanes, axis=1) / n_cols
        tl.store(mean_ptr + rows, mean, mask=row_mask)
    lanes = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    for start in range(0, n_cols, BLOCK_COLS):
        cols = start + tl.arange(0, BLOCK_COLS)
        mask = row_mask[:, None] & (cols < n_cols)[None, :]
        x = read(x_ptr, begin + cols[None, :], mask, 0.0, COMPUTE)
        x = tl.where(mask, x - mean[:, None], 0.0)
        lanes += x * x
    variance = tl.sum(lanes, axis=1) / n_cols
    rstd = 1.0 / tl.sqrt(variance + number(eps, COMPUTE))
    tl.store(rstd_ptr + rows, rstd, mask=row_mask)
    for start in range(0, n_cols, BLOCK_COLS):
        cols = start + tl.arange(0, BLOCK_COLS)
        mask = row_mask[:, None] & (cols < n_cols)[None, :]
        x = read(x_ptr, begin + cols[None, :], mask, 0.0, COMPUTE)
        index, inside = channels(rows, cols, n_cols, n_groups, per_group, spatial, GROUPED)
        normal = (x - mean[:, None]) * rstd[:, None]
        y = affine(normal, w_ptr, b_ptr, index, inside, HAS_WEIGHT, HAS_BIAS)
        tl.store(y_ptr + begin + cols[None, :], convert(y, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def norm_rows_backward(
    dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, n_rows, n_cols, n_groups, per_group, spatial,
    RMS: tl.constexpr, HAS_WEIGHT: tl.constexpr, GROUPED: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """dx = rstd (g - mean(g) - n mean(g n)), g = dy w, n = (x - mean) rstd; RMS: without mean(g).

    One program holds BLOCK_ROWS whole rows in registers.
    """
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_COLS)
    row_mask = rows < n_rows
    mask = row_mask[:, None] & (cols < n_cols)[None, :]
    begin = rows
    if WIDE:
        begin = rows.to(tl.int64)
    offsets = begin[:, None] * n_cols + cols[None, :]
    rstd = tl.load(rstd_ptr + rows, mask=row_mask, other=0.0)[:, None]
    normal = read(x_ptr, offsets, mask, 0.0, COMPUTE)
    if RMS == 0:
        mean = tl.load(mean_ptr + rows, mask=row_mask, other=0.0)[:, None]
        normal = tl.where(mask, normal - mean, 0.0)
    normal *= rstd
    index, inside = channels(rows, cols, n_cols, n_groups, per_group, spatial, GROUPED)
    g = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
    g = affine(g, w_ptr, w_ptr, index, inside, HAS_WEIGHT, False)
    dx = g - normal * (tl.sum(g * normal, axis=1) / n_cols)[:, None]
    if RMS == 0:
        dx -= (tl.sum(g, axis=1) / n_cols)[:, None]
    tl.store(dx_ptr + offsets, convert(dx * rstd, dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def norm_looped_backward(
    dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, n_rows, n_cols, n_groups, per_group, spatial,
    RMS: tl.constexpr, HAS_WEIGHT: tl.constexpr, GROUPED: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """The same for longer rows, in two passes: the means, then dx."""
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    row_mask = rows < n_rows
    begin = rows
    if WIDE:
        begin = rows.to(tl.int64)
    begin = begin[:, None] * n_cols
    rstd = tl.load(rstd_ptr + rows, mask=row_mask, other=0.0)[:, None]
    mean = tl.zeros([BLOCK_ROWS, 1], COMPUTE)
    if RMS == 0:
        mean = tl.load(mean_ptr + rows, mask=row_mask, other=0.0)[:, None]
    g_lanes = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    gn_lanes = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    for start in range(0, n_cols, BLOCK_COLS):
        cols = start + tl.arange(0, BLOCK_COLS)
        mask = row_mask[:, None] & (cols < n_cols)[None, :]
        normal = (read(x_ptr, begin + cols[None, :], mask, 0.0, COMPUTE) - mean) * rstd
        index, inside = channels(rows, cols, n_cols, n_groups, per_group, spatial, GROUPED)
        g = read(dy_ptr, begin + cols[None, :], mask, 0.0, COMPUTE)
        g = affine(g, w_ptr, w_ptr, index, inside, HAS_WEIGHT, False)
        g_lanes += g
        gn_lanes += tl.where(mask, g * normal, 0.0)
    g_mean = (tl.sum(g_lanes, axis=1) / n_cols)[:, None]
    if RMS:
        g_mean = tl.zeros([BLOCK_ROWS, 1], COMPUTE)
    gn_mean = (tl.sum(gn_lanes, axis=1) / n_cols)[:, None]
    for start in range(0, n_cols, BLOCK_COLS):
        cols = start + tl.arange(0, BLOCK_COLS)
        mask = row_mask[:, None] & (cols < n_cols)[None, :]
        normal = (read(x_ptr, begin + cols[None, :], mask, 0.0, COMPUTE) - mean) * rstd
        index, inside = channels(rows, cols, n_cols, n_groups, per_group, spatial, GROUPED)
        g = read(dy_ptr, begin + cols[None, :], mask, 0.0, COMPUTE)
        g = affine(g, w_ptr, w_ptr, index, inside, HAS_WEIGHT, False)
        dx = (g - g_mean - normal * gn_mean) * rstd
        tl.store(dx_ptr + begin + cols[None, :], convert(dx, dx_ptr.dtype.element_ty), mask=mask)


# ---- channels: x is (n_outer, n_channels, spatial), dense ---------------------------------------


@triton.jit
def channel_offsets(k, c, n_channels, spatial, WIDE: tl.constexpr):
    """Where the k-th element of channel c lies, and the outer index of k."""
    if WIDE:
        k = k.to(tl.int64)
    outer = k // spatial
    offsets = (outer * n_channels)[None, :] + c[:, None]
    return offsets * spatial + (k % spatial)[None, :], outer


@triton.jit
def channel_sums(
    dy_ptr, x_ptr, mean_ptr, rstd_ptr, partial_ptr, n_channels, spatial, n_elements, per_split,
    outer_stride, per_group, group_stride, HAS_MEAN: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """partial[s, 0, c] = sum of dy n and partial[s, 1, c] = sum of dy over part s of channel c.

    n = (x - mean) rstd; statistics lie at outer_stride outer + group_stride (c // per_group).
    One program (axis 1: s) sums BLOCK_C channels.
    """
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    split = tl.program_id(1)
    begin = split * per_split
    end = tl.minimum(begin + per_split, n_elements)
    c_mask = c < n_channels
    dw = tl.zeros([BLOCK_C, BLOCK_K], COMPUTE)
    db = tl.zeros([BLOCK_C, BLOCK_K], COMPUTE)
    group = (c // per_group) * group_stride
    for start in range(begin, end, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        mask = c_mask[:, None] & (k < end)[None, :]
        offsets, outer = channel_offsets(k, c, n_channels, spatial, WIDE)
        place = (outer * outer_stride)[None, :] + group[:, None]
        dy = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
        x = read(x_ptr, offsets, mask, 0.0, COMPUTE)
        if HAS_MEAN:
            x -= tl.load(mean_ptr + place, mask=mask, other=0.0)
        dw += dy * x * tl.load(rstd_ptr + place, mask=mask, other=0.0)
        db += dy
    at = partial_ptr + split.to(tl.int64) * 2 * n_channels + c
    tl.store(at, tl.sum(dw, axis=1), mask=c_mask)
    tl.store(at + n_channels, tl.sum(db, axis=1), mask=c_mask)


@triton.jit
def finish_channel_sums(
    partial_ptr, dw_ptr, db_ptr, n_channels, n_splits, BLOCK: tl.constexpr
):  # fmt: skip
    """dw = sum of partial[s, 0] over s and db = sum of partial[s, 1], in order."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = c < n_channels
    dw = tl.zeros([BLOCK], partial_ptr.dtype.element_ty)
    db = tl.zeros([BLOCK], partial_ptr.dtype.element_ty)
    for s in range(n_splits):
        at = partial_ptr + 2 * tl.cast(s, tl.int64) * n_channels + c
        dw += tl.load(at, mask=mask, other=0.0)
        db += tl.load(at + n_channels, mask=mask, other=0.0)
    tl.store(dw_ptr + c, convert(dw, dw_ptr.dtype.element_ty), mask=mask)
    tl.store(db_ptr + c, convert(db, db_ptr.dtype.element_ty), mask=mask)


@triton.jit
def joined(count, mean, square, more, other_mean, other_square):
    """Mean and sum of squared deviations of two sets of numbers together."""
    total = count + more
    share = more / tl.where(total == 0, 1.0, total)
    delta = other_mean - mean
    return total, mean + delta * share, square + other_square + delta * delta * count * share


@triton.jit
def channel_statistics(
    x_ptr, partial_ptr, n_channels, spatial, n_elements, per_split, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """partial[s, 0, c] = mean, partial[s, 1, c] = sum of (x - mean)^2 over part s of channel c."""
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    split = tl.program_id(1)
    begin = split * per_split
    end = tl.minimum(begin + per_split, n_elements)
    c_mask = c < n_channels
    count = tl.zeros([BLOCK_C], COMPUTE)
    mean = tl.zeros([BLOCK_C], COMPUTE)
    square = tl.zeros([BLOCK_C], COMPUTE)
    for start in range(begin, end, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        mask = c_mask[:, None] & (k < end)[None, :]
        offsets, _ = channel_offsets(k, c, n_channels, spatial, WIDE)
        x = read(x_ptr, offsets, mask, 0.0, COMPUTE)
        more = tl.minimum(end - start, BLOCK_K).to(COMPUTE)
        block_mean = tl.sum(x, axis=1) / more
        off = tl.where(mask, x - block_mean[:, None], 0.0)
        count, mean, square = joined(
            count, mean, square, more, block_mean, tl.sum(off * off, axis=1)
        )
    at = partial_ptr + split.to(tl.int64) * 2 * n_channels + c
    tl.store(at, mean, mask=c_mask)
    tl.store(at + n_channels, square, mask=c_mask)


@triton.jit
def finish_channel_statistics(
    partial_ptr, given_mean_ptr, given_var_ptr, mean_ptr, rstd_ptr, var_ptr, n_channels,
    n_elements, per_split, n_splits, eps, GIVEN: tl.constexpr, COMPUTE: tl.constexpr,
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
        for s in range(n_splits):
            at = partial_ptr + 2 * tl.cast(s, tl.int64) * n_channels + c
            more = tl.minimum(n_elements - s * per_split, per_split).to(COMPUTE)
            count, mean, square = joined(
                count, mean, square, more, tl.load(at, mask=mask, other=0.0),
                tl.load(at + n_channels, mask=mask, other=0.0),
            )  # fmt: skip
        var = square / count
    rstd = 1.0 / tl.sqrt(var + number(eps, COMPUTE))
    tl.store(mean_ptr + c, mean, mask=mask)
    tl.store(rstd_ptr + c, rstd, mask=mask)
    tl.store(var_ptr + c, var, mask=mask)


@triton.jit
def batch_norm(
    x_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, y_ptr, n_elements, n_channels, spatial,
    HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y = (x - mean[c]) * rstd[c] * w[c] + b[c]; one program computes BLOCK elements."""
    offsets, mask = block_offsets(n_elements, WIDE, BLOCK)
    c = (offsets // spatial) % n_channels
    x = read(x_ptr, offsets, mask, 0.0, COMPUTE)
    mean = tl.load(mean_ptr + c, mask=mask, other=0.0)
    rstd = tl.load(rstd_ptr + c, mask=mask, other=0.0)
    y = affine((x - mean) * rstd, w_ptr, b_ptr, c, mask, HAS_WEIGHT, HAS_BIAS)
    tl.store(y_ptr + offsets, convert(y, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def batch_norm_backward(
    dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, dx_ptr, n_elements, n_channels,
    spatial, HAS_WEIGHT: tl.constexpr, TRAINING: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx = (dy - db / count - n dw / count) rstd w, n = (x - mean) rstd, count elements a channel.

    Not TRAINING: dy rstd w.
    """
    offsets, mask = block_offsets(n_elements, WIDE, BLOCK)
    c = (offsets // spatial) % n_channels
    dx = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
    rstd = tl.load(rstd_ptr + c, mask=mask, other=0.0)
    if TRAINING:
        count = (n_elements // n_channels).to(COMPUTE)
        mean = tl.load(mean_ptr + c, mask=mask, other=0.0)
        normal = (read(x_ptr, offsets, mask, 0.0, COMPUTE) - mean) * rstd
        dw = tl.load(dw_ptr + c, mask=mask, other=0.0)
        db = tl.load(db_ptr + c, mask=mask, other=0.0)
        dx -= db / count + normal * (dw / count)
    dx = affine(dx * rstd, w_ptr, w_ptr, c, mask, HAS_WEIGHT, False)
    tl.store(dx_ptr + offsets, convert(dx, dx_ptr.dtype.element_ty), mask=mask)
