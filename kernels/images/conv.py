"""Convolution as matrix products whose operands are gathered from images (implicit GEMM).

# Note [Phases]
One kernel computes both the convolution and its transpose (which is also the input's gradient).
Per dim, the element q = i phases + phase of the output sees the source at

    i pos_step + base + j tap_step     through the tap first + j period,   0 <= j < count.

A convolution has one phase: pos_step = stride, base = -padding, tap_step = dilation, first = 0,
period = 1.  Its transpose has `stride` of them, so that no product is with a zero between elements:
each phase is a convolution with every period-th tap, where period = stride / gcd(stride, dilation).

Spatial dims are always three, the missing ones of size 1 in front.
"""

import triton
import triton.language as tl

from ..copy import convert
from ..matrices.matmul import dot, offsets_of


@triton.jit
def phase_of(phase, n_taps, phases, padding, dilation, period, TRANSPOSED: tl.constexpr):
    """base, first and count of one phase of one dim; see Note [Phases]."""
    if TRANSPOSED:
        first = n_taps
        for t in range(tl.minimum(n_taps, period)):
            hit = (phase + padding - t * dilation) % phases == 0
            first = tl.where(hit & (first == n_taps), t, first)
        base = (phase + padding - first * dilation) // phases  # exact where first is a tap
        count = (n_taps - first + period - 1) // period
    else:
        first = 0 * n_taps
        base = 0 - padding
        count = n_taps + 0
    return base, first, count


@triton.jit
def split_index(index, sizes):
    """The outer part and three coordinates of an index that counts dims of some sizes."""
    x = index % sizes[2]
    rest = index // sizes[2]
    y = rest % sizes[1]
    rest = rest // sizes[1]
    return rest // sizes[0], rest % sizes[0], y, x


@triton.jit
def locate(z, y, x, sizes, strides, WIDE: tl.constexpr):
    """Offsets of places of an image (its strides are the last three), and which are inside it."""
    inside = (z >= 0) & (z < sizes[0]) & (y >= 0) & (y < sizes[1]) & (x >= 0) & (x < sizes[2])
    offsets = (
        offsets_of(z, strides[2], WIDE)
        + offsets_of(y, strides[3], WIDE)
        + offsets_of(x, strides[4], WIDE)
    )
    return offsets, inside


@triton.jit
def followed(acc, pixels, outs, pixel_mask, out_mask, extra, THEN: tl.constexpr):
    """What was written for what follows a convolution, of a tile of channels x pixels."""
    if extra is None:
        acc = THEN(acc)
    else:
        acc = THEN(
            acc, pixels[None, :], outs[:, None], pixel_mask[None, :], out_mask[:, None], extra
        )
    return acc


@triton.jit
def follow(
    y_ptr, n_pixels, n_out, y_sizes, y_strides, extra, THEN: tl.constexpr,
    ACCUMULATE: tl.constexpr, WIDE: tl.constexpr, BLOCK_OUT: tl.constexpr,
    BLOCK_PIXELS: tl.constexpr,
):  # fmt: skip
    """y = what follows y; one program computes channels x pixels."""
    pixels = tl.program_id(0) * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
    outs = tl.program_id(1) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    pixel_mask = pixels < n_pixels
    out_mask = outs < n_out
    image, z, y, x = split_index(pixels, y_sizes)
    place, _ = locate(z, y, x, y_sizes, y_strides, WIDE)
    place += offsets_of(image, y_strides[0], WIDE)
    tile_ptr = y_ptr + offsets_of(outs, y_strides[1], WIDE)[:, None] + place[None, :]
    mask = out_mask[:, None] & pixel_mask[None, :]
    acc = convert(tl.load(tile_ptr, mask=mask, other=0.0), ACCUMULATE)
    acc = followed(acc, pixels, outs, pixel_mask, out_mask, extra, THEN)
    tl.store(tile_ptr, convert(acc, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def conv(
    x_ptr, w_ptr, bias_ptr, y_ptr, n_pixels, n_out, n_in, groups, n_splits, y_split_stride,
    x_sizes, y_sizes, grid_sizes, kernel, phases, padding, dilation, period, pos_step, tap_step,
    x_strides, w_strides, y_strides, extra, THEN: tl.constexpr,
    ACCUMULATE: tl.constexpr, PRECISION: tl.constexpr, TRANSPOSED: tl.constexpr,
    BY_TAP: tl.constexpr, HAS_BIAS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_OUT: tl.constexpr, BLOCK_PIXELS: tl.constexpr, BLOCK_IN: tl.constexpr,
):  # fmt: skip
    """y[n, o, q] = bias[o] + sum over c, t of w[o, c, t] x[n, c, place of q and t].

    n_out, n_in: channels of a group; w_strides: (group, o, c, t...); grid_sizes: elements of a
    phase per dim.  One program computes channels x pixels of one group and phase, and with
    n_splits a part of the sum (axis 1).  THEN: what follows a convolution that is computed as a
    whole.  BY_TAP: each step of the loop takes one tap of many
    channels; else taps and channels are mixed, for few channels.
    """
    n_tiles_out = tl.cdiv(n_out, BLOCK_OUT)
    n_tiles_pixels = tl.cdiv(n_pixels, BLOCK_PIXELS)
    pid = tl.program_id(0)
    tile_out = pid % n_tiles_out
    rest = pid // n_tiles_out
    tile_pixels = rest % n_tiles_pixels
    rest = rest // n_tiles_pixels
    group = rest % groups
    _, phase_z, phase_y, phase_x = split_index(rest // groups, phases)
    base_z, first_z, taps_z = phase_of(
        phase_z, kernel[0], phases[0], padding[0], dilation[0], period[0], TRANSPOSED)  # fmt: skip
    base_y, first_y, taps_y = phase_of(
        phase_y, kernel[1], phases[1], padding[1], dilation[1], period[1], TRANSPOSED)  # fmt: skip
    base_x, first_x, taps_x = phase_of(
        phase_x, kernel[2], phases[2], padding[2], dilation[2], period[2], TRANSPOSED)  # fmt: skip
    taps = taps_z * taps_y * taps_x

    outs = tile_out * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    pixels = tile_pixels * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
    out_mask = outs < n_out
    pixel_mask = pixels < n_pixels
    image, grid_z, grid_y, grid_x = split_index(pixels, grid_sizes)
    from_z = grid_z * pos_step[0] + base_z
    from_y = grid_y * pos_step[1] + base_y
    from_x = grid_x * pos_step[2] + base_x
    w_out_ptr = w_ptr + offsets_of(group, w_strides[0], WIDE) + offsets_of(outs, w_strides[1], WIDE)
    x_image_ptr = (
        x_ptr + offsets_of(group * n_in, x_strides[1], WIDE) + offsets_of(image, x_strides[0], WIDE)
    )

    if BY_TAP:
        steps_of_tap = tl.cdiv(n_in, BLOCK_IN)
        n_steps = taps * steps_of_tap
    else:
        n_steps = tl.cdiv(n_in * taps, BLOCK_IN)
    split = tl.program_id(1)
    per_split = tl.cdiv(n_steps, n_splits)
    begin = split * per_split
    end = tl.minimum(begin + per_split, n_steps)
    acc = tl.zeros([BLOCK_OUT, BLOCK_PIXELS], ACCUMULATE)
    for step in range(begin, end):
        if BY_TAP:
            tap = step // steps_of_tap
            ins = (step % steps_of_tap) * BLOCK_IN + tl.arange(0, BLOCK_IN)
            in_mask = ins < n_in
            tap_x = tap % taps_x
            tap_y = tap // taps_x % taps_y
            tap_z = tap // taps_x // taps_y
            z = (from_z + tap_z * tap_step[0])[None, :]
            y = (from_y + tap_y * tap_step[1])[None, :]
            x = (from_x + tap_x * tap_step[2])[None, :]
        else:
            mixed = step * BLOCK_IN + tl.arange(0, BLOCK_IN)
            ins = mixed // taps
            in_mask = ins < n_in
            tap = mixed % taps
            tap_x = tap % taps_x
            tap_y = tap // taps_x % taps_y
            tap_z = tap // taps_x // taps_y
            z = from_z[None, :] + (tap_z * tap_step[0])[:, None]
            y = from_y[None, :] + (tap_y * tap_step[1])[:, None]
            x = from_x[None, :] + (tap_x * tap_step[2])[:, None]
        place, inside = locate(z, y, x, x_sizes, x_strides, WIDE)
        w_offsets = (
            offsets_of(ins, w_strides[2], WIDE)
            + (first_z + tap_z * period[0]) * w_strides[3]
            + (first_y + tap_y * period[1]) * w_strides[4]
            + (first_x + tap_x * period[2]) * w_strides[5]
        )
        x_offsets = offsets_of(ins, x_strides[1], WIDE)[:, None] + place
        w = tl.load(
            w_out_ptr[:, None] + w_offsets[None, :],
            mask=out_mask[:, None] & in_mask[None, :],
            other=0.0,
        )
        x = tl.load(
            x_image_ptr[None, :] + x_offsets,
            mask=in_mask[:, None] & pixel_mask[None, :] & inside,
            other=0.0,
        )
        acc = dot(w, x, acc, PRECISION)

    out_channels = group * n_out + outs
    if HAS_BIAS:
        bias = tl.load(bias_ptr + out_channels, mask=out_mask, other=0.0).to(ACCUMULATE)
        acc += tl.where(split == 0, bias, 0.0)[:, None]
    if THEN is not None:
        acc = followed(acc, pixels, out_channels, pixel_mask, out_mask, extra, THEN)
    place, inside = locate(
        grid_z * phases[0] + phase_z, grid_y * phases[1] + phase_y, grid_x * phases[2] + phase_x,
        y_sizes, y_strides, WIDE,
    )  # fmt: skip
    place += offsets_of(image, y_strides[0], WIDE)
    tl.store(
        y_ptr
        + offsets_of(split, y_split_stride, WIDE)
        + offsets_of(out_channels, y_strides[1], WIDE)[:, None]
        + place[None, :],
        convert(acc, y_ptr.dtype.element_ty),
        mask=out_mask[:, None] & (pixel_mask & inside)[None, :],
    )


@triton.jit
def conv_direct(
    x_ptr, w_ptr, bias_ptr, y_ptr, n_pixels, n_out, n_in, groups,
    x_sizes, y_sizes, grid_sizes, kernel, phases, padding, dilation, period, pos_step, tap_step,
    x_strides, w_strides, y_strides,
    ACCUMULATE: tl.constexpr, TRANSPOSED: tl.constexpr, HAS_BIAS: tl.constexpr,
    WIDE: tl.constexpr, BLOCK_PIXELS: tl.constexpr,
):  # fmt: skip
    """As conv, where a group has so few channels (depthwise) that tiles would be mostly padding.

    Also for integers, which tensor cores do not multiply.  One program computes BLOCK_PIXELS of one
    channel and phase.
    """
    n_tiles = tl.cdiv(n_pixels, BLOCK_PIXELS)
    pid = tl.program_id(0)
    pixels = (pid % n_tiles) * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
    rest = pid // n_tiles
    channel = rest % (groups * n_out)
    group = channel // n_out
    _, phase_z, phase_y, phase_x = split_index(rest // (groups * n_out), phases)
    base_z, first_z, taps_z = phase_of(
        phase_z, kernel[0], phases[0], padding[0], dilation[0], period[0], TRANSPOSED)  # fmt: skip
    base_y, first_y, taps_y = phase_of(
        phase_y, kernel[1], phases[1], padding[1], dilation[1], period[1], TRANSPOSED)  # fmt: skip
    base_x, first_x, taps_x = phase_of(
        phase_x, kernel[2], phases[2], padding[2], dilation[2], period[2], TRANSPOSED)  # fmt: skip

    pixel_mask = pixels < n_pixels
    image, grid_z, grid_y, grid_x = split_index(pixels, grid_sizes)
    from_z = grid_z * pos_step[0] + base_z
    from_y = grid_y * pos_step[1] + base_y
    from_x = grid_x * pos_step[2] + base_x
    x_group_ptr = (
        x_ptr + offsets_of(group * n_in, x_strides[1], WIDE) + offsets_of(image, x_strides[0], WIDE)
    )
    w_group_ptr = (
        w_ptr
        + offsets_of(group, w_strides[0], WIDE)
        + offsets_of(channel % n_out, w_strides[1], WIDE)
        + first_z * w_strides[3]
        + first_y * w_strides[4]
        + first_x * w_strides[5]
    )
    acc = tl.zeros([BLOCK_PIXELS], ACCUMULATE)
    for k in range(n_in * taps_z * taps_y * taps_x):
        tap_x = k % taps_x
        tap_y = k // taps_x % taps_y
        tap_z = k // taps_x // taps_y % taps_z
        c = k // taps_x // taps_y // taps_z
        place, inside = locate(
            from_z + tap_z * tap_step[0], from_y + tap_y * tap_step[1],
            from_x + tap_x * tap_step[2], x_sizes, x_strides, WIDE,
        )  # fmt: skip
        w = tl.load(
            w_group_ptr
            + offsets_of(c, w_strides[2], WIDE)
            + tap_z * period[0] * w_strides[3]
            + tap_y * period[1] * w_strides[4]
            + tap_x * period[2] * w_strides[5]
        )
        x = tl.load(
            x_group_ptr + offsets_of(c, x_strides[1], WIDE) + place,
            mask=pixel_mask & inside,
            other=0,
        )
        acc += w.to(ACCUMULATE) * x.to(ACCUMULATE)
    if HAS_BIAS:
        acc += tl.load(bias_ptr + channel).to(ACCUMULATE)
    place, inside = locate(
        grid_z * phases[0] + phase_z, grid_y * phases[1] + phase_y, grid_x * phases[2] + phase_x,
        y_sizes, y_strides, WIDE,
    )  # fmt: skip
    place += offsets_of(image, y_strides[0], WIDE) + offsets_of(channel, y_strides[1], WIDE)
    tl.store(y_ptr + place, convert(acc, y_ptr.dtype.element_ty), mask=pixel_mask & inside)


@triton.jit
def conv_weight(
    g_ptr, x_ptr, dw_ptr, n_pixels, n_out, n_in, n_splits, dw_split_stride,
    x_sizes, g_sizes, kernel, stride, padding, dilation, g_strides, x_strides, dw_strides,
    ACCUMULATE: tl.constexpr, PRECISION: tl.constexpr, BY_TAP: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_OUT: tl.constexpr, BLOCK_IN: tl.constexpr, BLOCK_PIXELS: tl.constexpr,
):  # fmt: skip
    """dw[o, c, t] = sum over n, p of g[n, o, p] x[n, c, p stride + t dilation - padding].

    n_out, n_in: channels of a group; dw_strides: (group, o, c, t...).  One program computes one
    tile of a group's (o) x (c, t) from one part of the pixels (axis 1).
    BY_TAP: the tile has one tap.
    """
    taps = kernel[0] * kernel[1] * kernel[2]
    n_tiles_out = tl.cdiv(n_out, BLOCK_OUT)
    pid = tl.program_id(0)
    tile_out = pid % n_tiles_out
    rest = pid // n_tiles_out
    if BY_TAP:
        n_tiles_in = tl.cdiv(n_in, BLOCK_IN)
        tap = rest % taps  # neighbours share their channels
        rest = rest // taps
        ins = (rest % n_tiles_in) * BLOCK_IN + tl.arange(0, BLOCK_IN)
        group = rest // n_tiles_in
    else:
        n_tiles_in = tl.cdiv(n_in * taps, BLOCK_IN)
        mixed = (rest % n_tiles_in) * BLOCK_IN + tl.arange(0, BLOCK_IN)
        tap = (mixed % taps)[:, None]
        ins = mixed // taps
        group = rest // n_tiles_in
    _, tap_z, tap_y, tap_x = split_index(tap, kernel)
    tap_place = tap_z * dw_strides[3] + tap_y * dw_strides[4] + tap_x * dw_strides[5]
    tap_z = tap_z * dilation[0] - padding[0]
    tap_y = tap_y * dilation[1] - padding[1]
    tap_x = tap_x * dilation[2] - padding[2]
    outs = tile_out * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    out_mask = outs < n_out
    in_mask = ins < n_in
    g_out_ptr = g_ptr + offsets_of(group * n_out + outs, g_strides[1], WIDE)
    x_in_ptr = x_ptr + offsets_of(group * n_in + ins, x_strides[1], WIDE)

    n_steps = tl.cdiv(n_pixels, BLOCK_PIXELS)
    split = tl.program_id(1)
    per_split = tl.cdiv(n_steps, n_splits)
    begin = split * per_split
    end = tl.minimum(begin + per_split, n_steps)
    acc = tl.zeros([BLOCK_OUT, BLOCK_IN], ACCUMULATE)
    for step in range(begin, end):
        pixels = step * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
        pixel_mask = pixels < n_pixels
        image, z, y, x = split_index(pixels, g_sizes)
        g_place, _inside = locate(z, y, x, g_sizes, g_strides, WIDE)
        g_place += offsets_of(image, g_strides[0], WIDE)
        x_place, inside = locate(
            (z * stride[0])[None, :] + tap_z,
            (y * stride[1])[None, :] + tap_y,
            (x * stride[2])[None, :] + tap_x,
            x_sizes, x_strides, WIDE,
        )  # fmt: skip
        x_place += offsets_of(image, x_strides[0], WIDE)[None, :]
        g = tl.load(
            g_out_ptr[:, None] + g_place[None, :],
            mask=out_mask[:, None] & pixel_mask[None, :],
            other=0.0,
        )
        x = tl.load(
            x_in_ptr[:, None] + x_place,
            mask=in_mask[:, None] & pixel_mask[None, :] & inside,
            other=0.0,
        )
        acc = dot(g, tl.trans(x), acc, PRECISION)
    if BY_TAP:
        dw_place = offsets_of(ins, dw_strides[2], WIDE)[None, :] + tap_place
    else:
        dw_place = offsets_of(ins, dw_strides[2], WIDE)[None, :] + tl.trans(tap_place)
    tl.store(
        dw_ptr
        + offsets_of(split, dw_split_stride, WIDE)
        + offsets_of(group, dw_strides[0], WIDE)
        + offsets_of(outs, dw_strides[1], WIDE)[:, None]
        + dw_place,
        convert(acc, dw_ptr.dtype.element_ty),
        mask=out_mask[:, None] & in_mask[None, :],
    )


@triton.jit
def conv_weight_direct(
    g_ptr, x_ptr, dw_ptr, n_pixels, n_out, n_in, n_splits, dw_split_stride,
    x_sizes, g_sizes, kernel, stride, padding, dilation, g_strides, x_strides, dw_strides,
    ACCUMULATE: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_IN: tl.constexpr, BLOCK_PIXELS: tl.constexpr,
):  # fmt: skip
    """As conv_weight, where a group has few channels, and for integers.

    One program computes BLOCK_IN of (c, t) of one channel o from one part of the pixels (axis 1).
    """
    taps = kernel[0] * kernel[1] * kernel[2]
    n_tiles_in = tl.cdiv(n_in * taps, BLOCK_IN)
    pid = tl.program_id(0)
    mixed = (pid % n_tiles_in) * BLOCK_IN + tl.arange(0, BLOCK_IN)
    channel = pid // n_tiles_in
    group = channel // n_out
    ins = mixed // taps
    in_mask = ins < n_in
    _, tap_z, tap_y, tap_x = split_index(mixed % taps, kernel)
    tap_place = tap_z * dw_strides[3] + tap_y * dw_strides[4] + tap_x * dw_strides[5]
    tap_z = (tap_z * dilation[0] - padding[0])[:, None]
    tap_y = (tap_y * dilation[1] - padding[1])[:, None]
    tap_x = (tap_x * dilation[2] - padding[2])[:, None]
    g_out_ptr = g_ptr + offsets_of(channel, g_strides[1], WIDE)
    x_in_ptr = x_ptr + offsets_of(group * n_in + ins, x_strides[1], WIDE)

    n_steps = tl.cdiv(n_pixels, BLOCK_PIXELS)
    split = tl.program_id(1)
    per_split = tl.cdiv(n_steps, n_splits)
    begin = split * per_split
    end = tl.minimum(begin + per_split, n_steps)
    acc = tl.zeros([BLOCK_IN, BLOCK_PIXELS], ACCUMULATE)
    for step in range(begin, end):
        pixels = step * BLOCK_PIXELS + tl.arange(0, BLOCK_PIXELS)
        pixel_mask = pixels < n_pixels
        image, z, y, x = split_index(pixels, g_sizes)
        g_place, _inside = locate(z, y, x, g_sizes, g_strides, WIDE)
        g_place += offsets_of(image, g_strides[0], WIDE)
        x_place, inside = locate(
            (z * stride[0])[None, :] + tap_z,
            (y * stride[1])[None, :] + tap_y,
            (x * stride[2])[None, :] + tap_x,
            x_sizes, x_strides, WIDE,
        )  # fmt: skip
        x_place += offsets_of(image, x_strides[0], WIDE)[None, :]
        g = tl.load(g_out_ptr + g_place, mask=pixel_mask, other=0)
        x = tl.load(
            x_in_ptr[:, None] + x_place,
            mask=in_mask[:, None] & pixel_mask[None, :] & inside,
            other=0,
        )
        acc += g.to(ACCUMULATE)[None, :] * x.to(ACCUMULATE)
    dw_place = (
        offsets_of(split, dw_split_stride, WIDE)
        + offsets_of(group, dw_strides[0], WIDE)
        + offsets_of(channel % n_out, dw_strides[1], WIDE)
        + offsets_of(ins, dw_strides[2], WIDE)
        + tap_place
    )
    total = tl.sum(acc, axis=1)
    tl.store(dw_ptr + dw_place, convert(total, dw_ptr.dtype.element_ty), mask=in_mask)
