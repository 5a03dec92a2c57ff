"""Convolution of channels-last images in boxes that the copy engine brings (implicit GEMM).

# Note [Boxes of pixels]
A tile's rows are the pixels of a box, BOX_N images x BOX_H rows x BOX_W columns.  Under one tap the
pixels that they see are a box too, shifted, and what lies outside the image is read as zeros: so
padding costs nothing, and nobody computes an address or a mask.

A stride is two dims more: images are described as (images, rows / s, s, columns / t, t channels),
where the elements that one tap sees lie side by side again.  The same for what a phase of a
transposed convolution writes (Note [Phases] in conv.py).
"""

import triton
import triton.language as tl

from ..copy import convert
from ..matrices.matmul import finished, offsets_of, tile_of
from .conv import phase_of


@triton.jit
def seen(tap, padding, stride, dilation):
    """Where a tap looks from pixel 0: the quotient by the stride, rounded down, and the rest."""
    at = tap * dilation + (stride - 1) * padding
    return at // stride - padding, at % stride


@triton.jit
def store_box(
    acc, y, parts, tile_m, image, row, row_rest, col, first, n_rest, n_channels, valid, count,
    STATS: tl.constexpr, BOX_N: tl.constexpr, BOX_H: tl.constexpr, BOX_W: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """Stores WIDTH channels, from `first` on, of a box; and what statistics need of them.

    parts[tile_m] = count, mean and sum of (y - mean)^2 of each channel, of what is stored.
    """
    out = convert(acc, y.dtype)
    if STATS:
        value = tl.where(valid[:, None], out.to(tl.float32), 0.0)
        mean = tl.sum(value, axis=0) / count
        off = tl.where(valid[:, None], value - mean[None, :], 0.0)
        square = tl.sum(off * off, axis=0)
        channels = first + tl.arange(0, WIDTH)
        at = parts + tile_m.to(tl.int64) * 3 * n_channels + channels
        mask = channels < n_channels
        tl.store(at, tl.zeros_like(mean) + count, mask=mask)
        tl.store(at + n_channels, mean, mask=mask)
        tl.store(at + 2 * n_channels, square, mask=mask)
    box = tl.reshape(out, (BOX_N, BOX_H, 1, BOX_W, WIDTH))
    y.store([image, row, row_rest, col, n_rest + first], box)


@triton.jit
def conv_tma(
    x, w, y, stats_ptr, n_images, n_out, n_in, groups, n_splits, grid_sizes, y_sizes, phases,
    first_phase, kernel, padding, stride, dilation, period, tap_step, extra,
    STATS: tl.constexpr, ADDEND: tl.constexpr, ACTIVATION: tl.constexpr,
    TRANSPOSED: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr, GROUP: tl.constexpr,
    SUBTILES: tl.constexpr, BOX_N: tl.constexpr, BOX_H: tl.constexpr, BOX_W: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """y[n, q, o] = sum over c, t of w[o, t, c] x[n, place of q and t, c], finished.

    x, y: descriptors as in Note [Boxes of pixels]; w: (o, tap, c), or transposed: (c, tap, o).
    n_out, n_in: channels of a group.  TRANSPOSED: the transposed convolution, of phases[i] phases a
    dim, the first of them first_phase[i].  Part s of the sum is stored as images s n_images + n.

    The grid is as large as the device (see matmul_tma).  SUBTILES: a tile is stored in so many
    parts.
    """
    BLOCK_M: tl.constexpr = BOX_N * BOX_H * BOX_W
    tiles_x = tl.cdiv(grid_sizes[1], BOX_W)
    tiles_y = tl.cdiv(grid_sizes[0], BOX_H)
    n_tiles_m = tiles_x * tiles_y * tl.cdiv(n_images, BOX_N)
    n_tiles_n = tl.cdiv(n_out, BLOCK_N)
    n_tiles = n_tiles_m * n_tiles_n
    n_phases = phases[0] * phases[1]
    n_items = n_tiles * n_phases * groups * n_splits
    steps_of_tap = tl.cdiv(n_in, BLOCK_K)
    taps = kernel[0] * kernel[1]
    per_split = tl.cdiv(taps * steps_of_tap, n_splits)
    tl.assume(per_split > 0)  # see matmul_tma
    for item in tl.range(tl.program_id(0), n_items, tl.num_programs(0), flatten=True):
        tile_m, tile_n = tile_of(item % n_tiles, n_tiles_m, n_tiles_n, GROUP)
        rest = item // n_tiles
        group = rest % groups
        rest = rest // groups
        split = rest // n_phases
        if TRANSPOSED:
            phase_x = first_phase[1] + rest % phases[1]
            phase_y = first_phase[0] + rest // phases[1] % phases[0]
            base_y, first_y, taps_y = phase_of(
                phase_y, kernel[0], stride[0], padding[0], dilation[0], period[0],
                True,
            )  # fmt: skip
            base_x, first_x, taps_x = phase_of(
                phase_x, kernel[1], stride[1], padding[1], dilation[1], period[1],
                True,
            )  # fmt: skip
        else:
            phase_x = 0
            phase_y = 0
            taps_y = kernel[0] + 0
            taps_x = kernel[1] + 0
        image = tile_m // (tiles_x * tiles_y) * BOX_N
        row = tile_m // tiles_x % tiles_y * BOX_H
        col = tile_m % tiles_x * BOX_W
        out = tile_n * BLOCK_N  # of the group
        if TRANSPOSED:  # each phase has taps of its own
            n_steps = taps_y * taps_x * steps_of_tap
            per_phase = tl.cdiv(n_steps, n_splits)
            begin = split * per_phase
            steps = tl.minimum(per_phase, n_steps - begin)
        else:
            begin = split * per_split
            steps = per_split
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        tap = begin // steps_of_tap
        channel = begin % steps_of_tap * BLOCK_K
        tap_y = tap // tl.maximum(taps_x, 1)
        tap_x = tap % tl.maximum(taps_x, 1)
        for _ in range(steps):
            if TRANSPOSED:
                at = [
                    image, row + base_y + tap_y * tap_step[0], 0,
                    col + base_x + tap_x * tap_step[1], group * n_in + channel,
                ]  # fmt: skip
                tap_of_w = (first_y + tap_y * period[0]) * kernel[1] + first_x + tap_x * period[1]
                v = w.load([group * n_in + channel, tap_of_w, out])
                b = tl.reshape(v, (BLOCK_K, BLOCK_N))
            else:
                down, rest_y = seen(tap_y, padding[0], stride[0], dilation[0])
                across, rest_x = seen(tap_x, padding[1], stride[1], dilation[1])
                at = [
                    tl.where(tap < taps, image, n_images),  # past the last tap, nothing is read
                    row + down, rest_y, col + across,
                    (rest_x * groups + group) * n_in + channel,
                ]  # fmt: skip
                v = w.load([group * n_out + out, tap, channel])
                b = tl.trans(tl.reshape(v, (BLOCK_N, BLOCK_K)))
            a = tl.reshape(x.load(at), (BLOCK_M, BLOCK_K))
            acc = tl.dot(a, b, acc, input_precision=PRECISION)
            channel += BLOCK_K
            done = channel >= n_in  # with this tap
            channel = tl.where(done, 0, channel)
            tap += done.to(tl.int32)
            tap_x += done.to(tl.int32)
            done = tap_x == taps_x  # with this row of taps
            tap_x = tl.where(done, 0, tap_x)
            tap_y += done.to(tl.int32)

        pixels = tl.arange(0, BLOCK_M)
        images = image + pixels // (BOX_W * BOX_H)
        rows = row + pixels // BOX_W % BOX_H
        cols = col + pixels % BOX_W
        valid = (images < n_images) & (rows < grid_sizes[0]) & (cols < grid_sizes[1])
        count = tl.sum(valid.to(tl.float32), axis=0)
        n_channels = groups * n_out
        first = group * n_out + out
        n_rest = phase_x * n_channels
        if TRANSPOSED:
            rows = rows * stride[0] + phase_y
            cols = cols * stride[1] + phase_x
        place = (images * y_sizes[0] + rows) * y_sizes[1] + cols
        n_rows = n_images * y_sizes[0] * y_sizes[1]
        if ADDEND == "matrix":
            place = tl.where(valid, place, n_rows)
        place = place[:, None]
        to = split * n_images + image
        if SUBTILES == 2:
            half: tl.constexpr = BLOCK_N // 2
            halves = tl.permute(tl.reshape(acc, (BLOCK_M, 2, half)), (0, 2, 1))
            left, right = tl.split(halves)
            channels = (first + tl.arange(0, half))[None, :]
            left = finished(
                left, place, channels, 0, n_rows, n_channels, extra, ADDEND, False, ACTIVATION,
                WIDE,
            )  # fmt: skip
            store_box(
                left, y, stats_ptr, tile_m, to, row, phase_y, col, first, n_rest, n_channels,
                valid, count, STATS, BOX_N, BOX_H, BOX_W, half,
            )  # fmt: skip
            right = finished(
                right, place, channels + half, 0, n_rows, n_channels, extra, ADDEND, False,
                ACTIVATION, WIDE,
            )  # fmt: skip
            store_box(
                right, y, stats_ptr, tile_m, to, row, phase_y, col, first + half, n_rest,
                n_channels, valid, count, STATS, BOX_N, BOX_H, BOX_W, half,
            )  # fmt: skip
        else:
            channels = (first + tl.arange(0, BLOCK_N))[None, :]
            acc = finished(
                acc, place, channels, 0, n_rows, n_channels, extra, ADDEND, False, ACTIVATION, WIDE
            )
            store_box(
                acc, y, stats_ptr, tile_m, to, row, phase_y, col, first, n_rest, n_channels, valid,
                count, STATS, BOX_N, BOX_H, BOX_W, BLOCK_N,
            )  # fmt: skip


@triton.jit
def conv_weight_tma(
    g, x, dw_ptr, n_images, n_out, n_in, groups, n_splits, dw_split_stride, grid_sizes, kernel,
    padding, stride, dilation, dw_strides,
    PRECISION: tl.constexpr, WIDE: tl.constexpr, BOX_N: tl.constexpr, BOX_H: tl.constexpr,
    BOX_W: tl.constexpr, BLOCK_OUT: tl.constexpr, BLOCK_IN: tl.constexpr,
):  # fmt: skip
    """dw[o, c, t] = sum over n, p of g[n, p, o] x[n, p stride + t dilation - padding, c].

    g: a descriptor of (images, rows, columns, channels); x: as in Note [Boxes of pixels].
    dw_strides: (group, o, c, t...).  Each step adds the pixels of a box: outside of g are zeros, so
    nothing is masked.  Programs that run together share their boxes: the tiles of all taps and
    channels of one part of the pixels come one after the other.
    """
    BLOCK_K: tl.constexpr = BOX_N * BOX_H * BOX_W
    boxes_x = tl.cdiv(grid_sizes[1], BOX_W)
    boxes_y = tl.cdiv(grid_sizes[0], BOX_H)
    n_boxes = boxes_x * boxes_y * tl.cdiv(n_images, BOX_N)
    per_split = tl.cdiv(n_boxes, n_splits)
    taps = kernel[0] * kernel[1]
    tiles_out = tl.cdiv(n_out, BLOCK_OUT)
    tiles_in = tl.cdiv(n_in, BLOCK_IN)
    n_items = tiles_out * taps * tiles_in * groups * n_splits
    tl.assume(per_split > 0)  # see matmul_tma
    for item in tl.range(tl.program_id(0), n_items, tl.num_programs(0), flatten=True):
        out = item % tiles_out * BLOCK_OUT
        rest = item // tiles_out
        tap = rest % taps
        rest = rest // taps
        channel = rest % tiles_in * BLOCK_IN
        rest = rest // tiles_in
        group = rest % groups
        split = rest // groups
        tap_y = tap // kernel[1]
        tap_x = tap % kernel[1]
        down, rest_y = seen(tap_y, padding[0], stride[0], dilation[0])
        across, rest_x = seen(tap_x, padding[1], stride[1], dilation[1])
        from_g = group * n_out + out
        from_x = (rest_x * groups + group) * n_in + channel
        acc = tl.zeros([BLOCK_OUT, BLOCK_IN], tl.float32)
        box = split * per_split
        image = box // (boxes_x * boxes_y) * BOX_N
        row = box // boxes_x % boxes_y * BOX_H
        col = box % boxes_x * BOX_W
        for _ in range(per_split):
            a = tl.reshape(g.load([image, row, col, from_g]), (BLOCK_K, BLOCK_OUT))
            b = x.load([image, row + down, rest_y, col + across, from_x])
            b = tl.reshape(b, (BLOCK_K, BLOCK_IN))
            acc = tl.dot(tl.trans(a), b, acc, input_precision=PRECISION)
            col += BOX_W
            done = col >= grid_sizes[1]  # with this row of boxes
            col = tl.where(done, 0, col)
            row += tl.where(done, BOX_H, 0)
            done = row >= grid_sizes[0]  # with these images
            row = tl.where(done, 0, row)
            image += tl.where(done, BOX_N, 0)
        outs = out + tl.arange(0, BLOCK_OUT)
        ins = channel + tl.arange(0, BLOCK_IN)
        at = (
            offsets_of(split, dw_split_stride, WIDE)
            + offsets_of(group, dw_strides[0], WIDE)
            + tap_y * dw_strides[4]
            + tap_x * dw_strides[5]
            + offsets_of(outs, dw_strides[1], WIDE)[:, None]
            + offsets_of(ins, dw_strides[2], WIDE)[None, :]
        )
        tl.store(
            dw_ptr + at,
            convert(acc, dw_ptr.dtype.element_ty),
            mask=(outs < n_out)[:, None] & (ins < n_in)[None, :],
        )
