"""Normalisation over rows (layer, RMS, group) and its gradients; over channels: channels.py.

x is (n_rows, n_cols), dense.  ALIGN divides n_cols.  The weight's index is
the column; GROUPED: the channel (row % n_groups) * per_group + col // spatial.  Rows that no
program can hold: see Note [Long rows] in softmax.py.
"""

import triton
import triton.language as tl

from .copy import convert
from .softmax import aligned, all_parts, keep_parts, number, read, tile


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
def block_of_rows(block, n_rows, n_cols, WIDE: tl.constexpr, BLOCK_ROWS: tl.constexpr):
    """The numbers of some rows, where they begin, and which exist."""
    rows = block * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    begin = rows
    if WIDE:
        begin = rows.to(tl.int64)
    return rows, begin * n_cols, rows < n_rows


@triton.jit
def norm_rows(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, n_rows, n_cols, n_groups, per_group, spatial,
    eps, RMS: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr,
    GROUPED: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr, ALIGN: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(mean((x - mean)^2) + eps); RMS: mean is 0.

    One program holds BLOCK_ROWS whole rows in registers.
    """
    n_cols = aligned(n_cols, ALIGN)
    cols = tl.arange(0, BLOCK_COLS)
    rows, begin, row_mask = block_of_rows(tl.program_id(0), n_rows, n_cols, WIDE, BLOCK_ROWS)
    offsets, mask = tile(begin, row_mask, cols, n_cols, 1)
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
def moments(s, q, shift, count):
    """Mean and sum of squared deviations, from the sums of x - shift and of its square."""
    off = s / count
    return shift + off, tl.maximum(q - s * off, 0.0)


@triton.jit
def joined(counts, means, squares, AXIS: tl.constexpr):
    """Mean and sum of squared deviations of sets of numbers together."""
    mean = tl.sum(counts * means, AXIS) / tl.sum(counts, AXIS)
    off = means - tl.expand_dims(mean, AXIS)
    return mean, tl.sum(squares + counts * off * off, AXIS)


@triton.jit
def row_moments(
    source, begin, row_mask, n_cols, first, last, RMS: tl.constexpr, COMPUTE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """Mean and sum of squared deviations of the columns from first to last, read once.

    Sums are of x minus the mean of the first block, so that little cancels.
    """
    cols = tl.arange(0, BLOCK_COLS)
    s = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    q = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    shift = tl.zeros([BLOCK_ROWS], COMPUTE)
    if RMS == 0:
        offsets, mask = tile(begin, row_mask, first + cols, n_cols, 1)
        x = read(source, offsets, mask, 0.0, COMPUTE)
        shift = tl.sum(x, axis=1) / tl.minimum(last - first, BLOCK_COLS)
    for start in range(first, last, BLOCK_COLS):
        offsets, mask = tile(begin, row_mask, start + cols, n_cols, 1)
        x = read(source, offsets, mask, 0.0, COMPUTE)
        if RMS == 0:
            x = tl.where(mask, x - shift[:, None], 0.0)
            s += x
        q += x * x
    square = tl.sum(q, axis=1)
    mean = shift
    if RMS == 0:
        mean, square = moments(tl.sum(s, axis=1), square, shift, (last - first).to(COMPUTE))
    return mean, square


@triton.jit
def norm_looped(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, partial_ptr, n_rows, n_cols, n_groups,
    per_group, spatial, eps, per_part, n_parts, RMS: tl.constexpr, HAS_WEIGHT: tl.constexpr,
    HAS_BIAS: tl.constexpr, GROUPED: tl.constexpr, STEP: tl.constexpr, PARTS: tl.constexpr,
    COMPUTE: tl.constexpr, WIDE: tl.constexpr, ALIGN: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """The same for longer rows: see Note [Long rows] in softmax.py."""
    n_cols = aligned(n_cols, ALIGN)
    rows, begin, row_mask = block_of_rows(tl.program_id(0), n_rows, n_cols, WIDE, BLOCK_ROWS)
    first = tl.program_id(1) * per_part
    last = tl.minimum(first + per_part, n_cols)
    if STEP == "result":
        means, squares = all_parts(partial_ptr, rows, row_mask, n_rows, n_parts, 0.0, PARTS)
        counts = n_cols - tl.arange(0, PARTS) * per_part
        counts = tl.maximum(tl.minimum(counts, per_part), 0).to(COMPUTE)
        mean, square = joined(counts[None, :], means, squares, 1)
    else:
        mean, square = row_moments(
            x_ptr, begin, row_mask, n_cols, first, last, RMS, COMPUTE, BLOCK_ROWS, BLOCK_COLS
        )
    if STEP == "sums":
        keep_parts(partial_ptr, tl.program_id(1), rows, row_mask, n_rows, mean, square)
    else:
        rstd = 1.0 / tl.sqrt(square / n_cols + number(eps, COMPUTE))
        once = row_mask & (tl.zeros_like(rows) + first == 0)
        if RMS == 0:
            tl.store(mean_ptr + rows, mean, mask=once)
        tl.store(rstd_ptr + rows, rstd, mask=once)
        for start in range(first, last, BLOCK_COLS):
            cols = start + tl.arange(0, BLOCK_COLS)
            offsets, mask = tile(begin, row_mask, cols, n_cols, 1)
            x = read(x_ptr, offsets, mask, 0.0, COMPUTE)
            index, inside = channels(rows, cols, n_cols, n_groups, per_group, spatial, GROUPED)
            normal = (x - mean[:, None]) * rstd[:, None]
            y = affine(normal, w_ptr, b_ptr, index, inside, HAS_WEIGHT, HAS_BIAS)
            tl.store(y_ptr + offsets, convert(y, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def normalised(
    source, means, rstds, rows, row_mask, offsets, mask, RMS: tl.constexpr,
    COMPUTE: tl.constexpr,
):  # fmt: skip
    """A tile of (x - mean) rstd (0 outside), and rstd."""
    rstd = tl.load(rstds + rows, mask=row_mask, other=0.0)[:, None]
    x = read(source, offsets, mask, 0.0, COMPUTE)
    if RMS == 0:
        mean = tl.load(means + rows, mask=row_mask, other=0.0)[:, None]
        x = tl.where(mask, x - mean, 0.0)
    return x * rstd, rstd


@triton.jit
def norm_rows_backward(
    dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, partial_ptr, n_rows, n_cols,
    RMS: tl.constexpr, HAS_WEIGHT: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr,
    ALIGN: tl.constexpr, STAGES: tl.constexpr, HOLD_WEIGHT: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """dx = rstd (g - mean(g) - n mean(g n)), g = dy w, n = (x - mean) rstd; RMS: without mean(g).

    Program p computes every so many blocks of whole rows, and of its rows also
    partial[p, 0] = sum(dy n) and partial[p, 1] = sum(dy).  Later rows are on their way meanwhile.
    """
    n_cols = aligned(n_cols, ALIGN)
    cols = tl.arange(0, BLOCK_COLS)
    inside = cols < n_cols
    dw = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    db = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
    w = 1.0
    if HAS_WEIGHT:
        w = tl.load(w_ptr + cols, mask=inside, other=0)[None, :]
    n_blocks = tl.cdiv(n_rows, BLOCK_ROWS)
    for block in tl.range(tl.program_id(0), n_blocks, tl.num_programs(0), num_stages=STAGES):
        rows, begin, row_mask = block_of_rows(block, n_rows, n_cols, WIDE, BLOCK_ROWS)
        offsets, mask = tile(begin, row_mask, cols, n_cols, 1)
        dy = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
        normal, rstd = normalised(
            x_ptr, mean_ptr, rstd_ptr, rows, row_mask, offsets, mask, RMS, COMPUTE
        )
        dw += dy * normal
        g = dy
        if HAS_WEIGHT:
            if not HOLD_WEIGHT:
                w = tl.load(w_ptr + cols, mask=inside, other=0)[None, :]
            g *= convert(w, COMPUTE)
        dx = g - normal * (tl.sum(g * normal, axis=1) / n_cols)[:, None]
        if RMS == 0:
            db += dy
            dx -= (tl.sum(g, axis=1) / n_cols)[:, None]
        tl.store(dx_ptr + offsets, convert(dx * rstd, dx_ptr.dtype.element_ty), mask=mask)
    at = partial_ptr + 2 * tl.program_id(0).to(tl.int64) * n_cols + cols
    tl.store(at, tl.sum(dw, axis=0), mask=inside)
    if RMS == 0:
        tl.store(at + n_cols, tl.sum(db, axis=0), mask=inside)


@triton.jit
def norm_looped_backward(
    dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, partial_ptr, n_rows, n_cols, per_part,
    n_parts, RMS: tl.constexpr, HAS_WEIGHT: tl.constexpr, STEP: tl.constexpr, PARTS: tl.constexpr,
    COMPUTE: tl.constexpr, WIDE: tl.constexpr, ALIGN: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):  # fmt: skip
    """dx alone, of longer rows: see Note [Long rows] in softmax.py."""
    n_cols = aligned(n_cols, ALIGN)
    rows, begin, row_mask = block_of_rows(tl.program_id(0), n_rows, n_cols, WIDE, BLOCK_ROWS)
    first = tl.program_id(1) * per_part
    last = tl.minimum(first + per_part, n_cols)
    if STEP == "result":
        g_sum, gn_sum = all_parts(partial_ptr, rows, row_mask, n_rows, n_parts, 0.0, PARTS)
        g_sum, gn_sum = tl.sum(g_sum, axis=1), tl.sum(gn_sum, axis=1)
    else:
        g_lanes = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
        gn_lanes = tl.zeros([BLOCK_ROWS, BLOCK_COLS], COMPUTE)
        for start in range(first, last, BLOCK_COLS):
            cols = start + tl.arange(0, BLOCK_COLS)
            offsets, mask = tile(begin, row_mask, cols, n_cols, 1)
            normal, rstd = normalised(
                x_ptr, mean_ptr, rstd_ptr, rows, row_mask, offsets, mask, RMS, COMPUTE
            )
            g = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
            g = affine(g, w_ptr, w_ptr, cols[None, :], (cols < n_cols)[None, :], HAS_WEIGHT, False)
            g_lanes += g
            gn_lanes += g * normal
        g_sum, gn_sum = tl.sum(g_lanes, axis=1), tl.sum(gn_lanes, axis=1)
    if STEP == "sums":
        keep_parts(partial_ptr, tl.program_id(1), rows, row_mask, n_rows, g_sum, gn_sum)
    else:
        for start in range(first, last, BLOCK_COLS):
            cols = start + tl.arange(0, BLOCK_COLS)
            offsets, mask = tile(begin, row_mask, cols, n_cols, 1)
            normal, rstd = normalised(
                x_ptr, mean_ptr, rstd_ptr, rows, row_mask, offsets, mask, RMS, COMPUTE
            )
            g = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
            g = affine(g, w_ptr, w_ptr, cols[None, :], (cols < n_cols)[None, :], HAS_WEIGHT, False)
            dx = g - normal * (gn_sum / n_cols)[:, None]
            if RMS == 0:
                dx -= (g_sum / n_cols)[:, None]
            tl.store(dx_ptr + offsets, convert(dx * rstd, dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def group_norm_backward(
    dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, partial_ptr, n_samples, n_channels, n_groups,
    per_group, spatial, per_part, n_parts, HAS_WEIGHT: tl.constexpr, STEP: tl.constexpr,
    PARTS: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr, ALIGN: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """dx of one group of one sample, as of a row; of part p of its places (axis 1), too,
    partial[p, sample, 0] = sum(dy n) of each channel and partial[p, sample, 1] = sum(dy).

    A tile is BLOCK_C channels of BLOCK_S places.  Steps: see Note [Long rows] in softmax.py.
    """
    spatial = aligned(spatial, ALIGN)
    row = tl.program_id(0)
    part = tl.program_id(1)
    first = part * per_part
    last = tl.minimum(first + per_part, spatial)
    base = row
    if WIDE:
        base = row.to(tl.int64)
    base *= per_group * spatial
    rstd = tl.load(rstd_ptr + row)
    mean = tl.load(mean_ptr + row)
    at = partial_ptr + 2 * (row // n_groups).to(tl.int64) * n_channels
    stride = 2 * n_samples * n_channels  # from part to part
    g_sum = tl.zeros([BLOCK_C], COMPUTE)
    gn_sum = tl.zeros([BLOCK_C], COMPUTE)
    for low in range(0, per_group, BLOCK_C):
        inner = low + tl.arange(0, BLOCK_C)
        c_mask = inner < per_group
        c = row % n_groups * per_group + inner
        if STEP == "result":
            parts = tl.arange(0, PARTS)
            places = at + parts.to(tl.int64)[None, :] * stride + c[:, None]
            mask = c_mask[:, None] & (parts < n_parts)[None, :]
            dw_sum = tl.sum(tl.load(places, mask=mask, other=0.0), axis=1)
            db_sum = tl.sum(tl.load(places + n_channels, mask=mask, other=0.0), axis=1)
        else:
            dw = tl.zeros([BLOCK_C, BLOCK_S], COMPUTE)
            db = tl.zeros([BLOCK_C, BLOCK_S], COMPUTE)
            for start in range(first, last, BLOCK_S):
                s = start + tl.arange(0, BLOCK_S)
                offsets, mask = tile(base + inner * spatial, c_mask, s, spatial, 1)
                dy = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
                dw += dy * (read(x_ptr, offsets, mask, 0.0, COMPUTE) - mean)
                db += dy
            dw_sum = tl.sum(dw, axis=1) * rstd
            db_sum = tl.sum(db, axis=1)
            tl.store(at + part.to(tl.int64) * stride + c, dw_sum, mask=c_mask)
            tl.store(at + part.to(tl.int64) * stride + n_channels + c, db_sum, mask=c_mask)
        gn_sum += affine(dw_sum, w_ptr, w_ptr, c, c_mask, HAS_WEIGHT, False)
        g_sum += affine(db_sum, w_ptr, w_ptr, c, c_mask, HAS_WEIGHT, False)
    if STEP != "sums":
        count = per_group * spatial
        g_mean = tl.sum(g_sum, axis=0) / count
        gn_mean = tl.sum(gn_sum, axis=0) / count
        for low in range(0, per_group, BLOCK_C):
            inner = low + tl.arange(0, BLOCK_C)
            c_mask = inner < per_group
            c = (row % n_groups * per_group + inner)[:, None]
            for start in range(first, last, BLOCK_S):
                s = start + tl.arange(0, BLOCK_S)
                offsets, mask = tile(base + inner * spatial, c_mask, s, spatial, 1)
                g = read(dy_ptr, offsets, mask, 0.0, COMPUTE)
                g = affine(g, w_ptr, w_ptr, c, c_mask[:, None], HAS_WEIGHT, False)
                normal = (read(x_ptr, offsets, mask, 0.0, COMPUTE) - mean) * rstd
                dx = (g - g_mean - normal * gn_mean) * rstd
                tl.store(dx_ptr + offsets, convert(dx, dx_ptr.dtype.element_ty), mask=mask)
