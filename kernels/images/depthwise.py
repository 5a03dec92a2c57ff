"""Convolutions whose groups have one channel of the input: each element is read for few products.

Arguments as in conv.py (Note [Phases] there), with two spatial dims.  Tiles are pixels x channels:
many channels where those are dense, one where columns are.
"""

import triton
import triton.language as tl

from ..copy import convert
from ..matrices.matmul import offsets_of
from .conv import phase_of


@triton.jit
def depthwise(
    x_ptr, w_ptr, bias_ptr, y_ptr, n_images, n_channels, per_group, x_sizes, y_sizes, grid_sizes,
    kernel, phases, padding, dilation, period, pos_step, tap_step, x_strides, w_strides, y_strides,
    ACCUMULATE: tl.constexpr, TRANSPOSED: tl.constexpr, HAS_BIAS: tl.constexpr,
    WIDE: tl.constexpr, TAPS: tl.constexpr, BOX_H: tl.constexpr, BOX_W: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y[n, o, q] = bias[o] + sum over t of w[o, t] x[n, o // per_group, place of q and t].

    n_channels: of y; w_strides: (o, t...); TAPS: the most that a phase has in a row.  One program
    computes a box of BOX_H x BOX_W pixels of one image and phase, and BLOCK channels.
    """
    tiles_x = tl.cdiv(grid_sizes[1], BOX_W)
    tiles_y = tl.cdiv(grid_sizes[0], BOX_H)
    n_blocks = tl.cdiv(n_channels, BLOCK)
    pid = tl.program_id(0)
    channels = pid % n_blocks * BLOCK + tl.arange(0, BLOCK)
    rest = pid // n_blocks
    pixels = tl.arange(0, BOX_H * BOX_W)
    col = rest % tiles_x * BOX_W + pixels % BOX_W
    rest = rest // tiles_x
    row = rest % tiles_y * BOX_H + pixels // BOX_W
    rest = rest // tiles_y
    image = rest % n_images
    phase = rest // n_images
    phase_x = phase % phases[1]
    phase_y = phase // phases[1]
    base_y, first_y, taps_y = phase_of(
        phase_y, kernel[0], phases[0], padding[0], dilation[0], period[0], TRANSPOSED)  # fmt: skip
    base_x, first_x, taps_x = phase_of(
        phase_x, kernel[1], phases[1], padding[1], dilation[1], period[1], TRANSPOSED)  # fmt: skip
    exists = channels < n_channels
    x_place_ptr = (
        x_ptr
        + offsets_of(image, x_strides[0], WIDE)
        + offsets_of(channels // per_group, x_strides[1], WIDE)[None, :]
    )
    w_place_ptr = w_ptr + offsets_of(channels, w_strides[0], WIDE)
    w_place_ptr += first_y * w_strides[1] + first_x * w_strides[2]
    from_y = row * pos_step[0] + base_y
    from_x = col * pos_step[1] + base_x
    acc = tl.zeros([BOX_H * BOX_W, BLOCK], ACCUMULATE)
    for tap_y in range(taps_y):
        y = from_y + tap_y * tap_step[0]
        y_inside = (y >= 0) & (y < x_sizes[0])
        for tap_x in tl.static_range(TAPS):
            x = from_x + tap_x * tap_step[1]
            is_tap = tl.full([1], tap_x, tl.int32) < taps_x
            inside = y_inside & (x >= 0) & (x < x_sizes[1]) & is_tap
            place = offsets_of(y, x_strides[2], WIDE) + offsets_of(x, x_strides[3], WIDE)
            value = tl.load(
                x_place_ptr + place[:, None], mask=inside[:, None] & exists[None, :], other=0
            )
            w = tl.load(
                w_place_ptr + tap_y * period[0] * w_strides[1] + tap_x * period[1] * w_strides[2],
                mask=exists & is_tap,
                other=0,
            )
            acc += convert(value, ACCUMULATE) * convert(w, ACCUMULATE)[None, :]
    if HAS_BIAS:
        acc += convert(tl.load(bias_ptr + channels, mask=exists, other=0), ACCUMULATE)[None, :]
    row = row * phases[0] + phase_y
    col = col * phases[1] + phase_x
    inside = (row < y_sizes[0]) & (col < y_sizes[1])
    place = offsets_of(row, y_strides[2], WIDE) + offsets_of(col, y_strides[3], WIDE)
    y_place_ptr = (
        y_ptr
        + offsets_of(image, y_strides[0], WIDE)
        + offsets_of(channels, y_strides[1], WIDE)[None, :]
    )
    tl.store(
        y_place_ptr + place[:, None],
        convert(acc, y_ptr.dtype.element_ty),
        mask=inside[:, None] & exists[None, :],
    )


@triton.jit
def depthwise_weight(
    g_ptr, x_ptr, dw_ptr, n_pixels, n_channels, per_group, n_splits, dw_split_stride, x_sizes,
    g_sizes, kernel, stride, padding, dilation, g_strides, x_strides, dw_strides,
    ACCUMULATE: tl.constexpr, WIDE: tl.constexpr, TAPS: tl.constexpr, BLOCK_PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """dw[o, t] = sum over n, p of g[n, o, p] x[n, o // per_group, p stride + t dilation - padding].

    n_channels: of g; TAPS: a power of 2, at least a row's taps.  One program sums one part of the
    pixels (axis 1), for one row of taps of BLOCK channels; neighbours share their pixels.
    """
    pid = tl.program_id(0)
    tap_y = pid % kernel[0]
    channels = pid // kernel[0] * BLOCK + tl.arange(0, BLOCK)
    exists = channels < n_channels
    taps = tl.arange(0, TAPS)
    is_tap = taps < kernel[1]
    g_place_ptr = g_ptr + offsets_of(channels, g_strides[1], WIDE)[None, :]
    x_place_ptr = x_ptr + offsets_of(channels // per_group, x_strides[1], WIDE)[None, None, :]
    split = tl.program_id(1)
    n_steps = tl.cdiv(n_pixels, BLOCK_PIXELS)
    per_split = tl.cdiv(n_steps, n_splits)
    acc = tl.zeros([TAPS, BLOCK_PIXELS, BLOCK], ACCUMULATE)
    for step in range(split * per_split, tl.minimum((split + 1) * per_split, n_steps)):
        pixels = step * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
        exist = pixels < n_pixels
        col = pixels % g_sizes[1]
        row = pixels // g_sizes[1]
        image = row // g_sizes[0]
        row = row % g_sizes[0]
        place = (
            offsets_of(image, g_strides[0], WIDE)
            + offsets_of(row, g_strides[2], WIDE)
            + offsets_of(col, g_strides[3], WIDE)
        )
        g = tl.load(g_place_ptr + place[:, None], mask=exist[:, None] & exists[None, :], other=0)
        y = row * stride[0] - padding[0] + tap_y * dilation[0]
        x = (col * stride[1] - padding[1])[None, :] + (taps * dilation[1])[:, None]
        inside = (exist & (y >= 0) & (y < x_sizes[0]))[None, :] & (x >= 0) & (x < x_sizes[1])
        inside = inside & is_tap[:, None]
        place = (offsets_of(image, x_strides[0], WIDE) + offsets_of(y, x_strides[2], WIDE))[
            None, :
        ] + offsets_of(x, x_strides[3], WIDE)
        value = tl.load(
            x_place_ptr + place[:, :, None],
            mask=inside[:, :, None] & exists[None, None, :],
            other=0,
        )
        acc += convert(value, ACCUMULATE) * convert(g, ACCUMULATE)[None, :, :]
    total = tl.sum(acc, axis=1)
    at = (
        offsets_of(split, dw_split_stride, WIDE)
        + tap_y * dw_strides[1]
        + (taps * dw_strides[2])[:, None]
        + offsets_of(channels, dw_strides[0], WIDE)[None, :]
    )
    tl.store(
        dw_ptr + at,
        convert(total, dw_ptr.dtype.element_ty),
        mask=is_tap[:, None] & exists[None, :],
    )
