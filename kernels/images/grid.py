"""Images sampled at the places of a grid, and the gradients of both.

# Note [Taps]
Per dim, a coordinate c in [-1, 1] is the place (c + 1) / 2 (n - 1), or ((c + 1) n - 1) / 2 where
corners are not aligned, and reads taps: 1 (NEAREST), 2 (LINEAR) or 4 (CUBIC).  PADDING moves places
(of the cubic: its taps) into the image: at the border, or by reflection; taps that are still
outside count as 0.  Spatial dims are always three; with DIMS = 2 the first has one tap, 0.
"""

import triton
import triton.language as tl

from ..copy import convert
from ..matrices.matmul import offsets_of
from ..pointwise import block_offsets
from ..scalar.elementary import negated, round
from .conv import split_index
from .pooling import place_of

NEAREST = tl.constexpr(1)
CUBIC = tl.constexpr(2)
REFLECTION = tl.constexpr(2)


@triton.jit
def bounded(place, n, PADDING: tl.constexpr, ALIGN: tl.constexpr):
    """Places moved into the image, and the slope of that; see Note [Taps]."""
    slope = place * 0 + 1
    top = tl.cast(n - 1, place.dtype)  # n may be a constant 1
    if PADDING == REFLECTION:
        if ALIGN:
            low = 0.0
            span = top
        else:
            low = -0.5
            span = top + 1
        slope = tl.where(place < low, negated(slope), slope)
        away = tl.abs(place - low)
        flips = tl.floor(away / tl.where(span == 0, 1.0, span))
        extra = away - flips * span
        odd = flips - 2 * tl.floor(flips / 2) != 0
        place = tl.where(odd, span - extra, extra) + low
        slope = tl.where(odd, negated(slope), slope)
        place = tl.where(span == 0, 0.0, place)
        slope = tl.where(span == 0, 0.0, slope)
    if PADDING:
        slope = tl.where((place > 0) & (place < top), slope, 0.0)
        place = tl.minimum(tl.maximum(place, 0.0), top)
    return place, slope


@triton.jit
def cubic(part, TAP: tl.constexpr):
    """The weight of one of four taps, and its slope."""
    a = -0.75
    if TAP == 0 or TAP == 3:
        t = part + 1 if TAP == 0 else 2 - part
        weight = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        slope = (3 * a * t - 10 * a) * t + 8 * a
    else:
        t = part if TAP == 1 else 1 - part
        weight = ((a + 2) * t - (a + 3)) * t * t + 1
        slope = (3 * (a + 2) * t - 2 * (a + 3)) * t
    if TAP >= 2:
        slope = negated(slope)
    return weight, slope


@triton.jit
def tap(
    c, n, TAP: tl.constexpr, MODE: tl.constexpr, PADDING: tl.constexpr, ALIGN: tl.constexpr,
    MISSING: tl.constexpr,
):  # fmt: skip
    """One tap of coordinates in a dim of n elements: index, whether it is inside, weight, and the
    weight's slope; MISSING: of the dim that there is not.  See Note [Taps]."""
    if MISSING:
        inside = c == c
        index = inside.to(tl.int32) * 0
        weight = index.to(c.dtype) + 1
        slope = weight * 0
    else:
        if ALIGN:
            scale = (n - 1) * 0.5
            place = (c + 1) * scale
        else:
            scale = n * 0.5
            place = ((c + 1) * n - 1) * 0.5
        if MODE == CUBIC:
            low = tl.floor(place)
            weight, slope = cubic(place - low, TAP)
            place, _slope = bounded(low + (TAP - 1), n, PADDING, ALIGN)
        else:
            place, factor = bounded(place, n, PADDING, ALIGN)
            if MODE == NEAREST:
                place = round(place)
                weight = place * 0 + 1
                slope = place * 0
            else:
                low = tl.floor(place)
                weight = place - low
                slope = factor
                if TAP == 0:
                    weight = 1 - weight
                    slope = negated(slope)
                place = low + TAP
        slope *= scale
        inside = (place >= 0) & (place < n)
        index = tl.where(inside, place, 0).to(tl.int32)
        weight = tl.where(inside, weight, 0.0)
        slope = tl.where(inside, slope, 0.0)
    return index, inside, weight, slope


@triton.jit
def coordinates(
    grid, image, at, mask, y_sizes, grid_strides, DIMS: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """The three coordinates (z, y, x) of points `at` of an image; the grid has them reversed."""
    _outer, z, y, x = split_index(at, y_sizes)
    offsets = (
        offsets_of(image, grid_strides[0], WIDE) + offsets_of(z, grid_strides[1], WIDE)
        + offsets_of(y, grid_strides[2], WIDE) + offsets_of(x, grid_strides[3], WIDE)
    )  # fmt: skip
    c_x = convert(tl.load(grid + offsets, mask=mask, other=0), COMPUTE)
    offsets += grid_strides[4]
    c_y = convert(tl.load(grid + offsets, mask=mask, other=0), COMPUTE)
    if DIMS == 3:
        offsets += grid_strides[4]
        c_z = convert(tl.load(grid + offsets, mask=mask, other=0), COMPUTE)
    else:
        c_z = c_x * 0
    return c_z, c_y, c_x


@triton.jit
def place_offsets(z, y, x, strides, WIDE: tl.constexpr):
    """Offsets of places in an image whose strides are the last three."""
    return (
        offsets_of(z, strides[2], WIDE) + offsets_of(y, strides[3], WIDE)
        + offsets_of(x, strides[4], WIDE)
    )  # fmt: skip


@triton.jit
def grid_sample(
    x_ptr, grid_ptr, y_ptr, n_points, n_channels, plane, x_sizes, y_sizes, x_strides,
    grid_strides,
    MODE: tl.constexpr, PADDING: tl.constexpr, ALIGN: tl.constexpr, DIMS: tl.constexpr,
    TAPS: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
    CHANNELS: tl.constexpr,
):  # fmt: skip
    """y[n, c, p] = sum over taps of weight x[n, c, tap]; y is dense.

    n_points: of all images, `plane` of each.  One program computes BLOCK points in CHANNELS
    channels, whose taps are the same.
    """
    linear, mask = block_offsets(n_points, WIDE, BLOCK)
    image = linear // plane
    at = linear % plane
    c_z, c_y, c_x = coordinates(
        grid_ptr, image, at, mask, y_sizes, grid_strides, DIMS, COMPUTE, WIDE
    )
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    there = (channel < n_channels)[None, :]
    x_plane_ptr = (
        x_ptr + offsets_of(image, x_strides[0], WIDE)[:, None]
        + offsets_of(channel, x_strides[1], WIDE)[None, :]
    )  # fmt: skip
    total = tl.zeros([BLOCK, CHANNELS], COMPUTE)
    for i in tl.static_range(TAPS if DIMS == 3 else 1):
        z, in_z, w_z, _s = tap(c_z, x_sizes[0], i, MODE, PADDING, ALIGN, DIMS == 2)
        for j in tl.static_range(TAPS):
            y, in_y, w_y, _s = tap(c_y, x_sizes[1], j, MODE, PADDING, ALIGN, False)
            for k in tl.static_range(TAPS):
                x, in_x, w_x, _s = tap(c_x, x_sizes[2], k, MODE, PADDING, ALIGN, False)
                seen = (mask & in_z & in_y & in_x)[:, None] & there
                offsets = place_offsets(z, y, x, x_strides, WIDE)[:, None]
                value = tl.load(x_plane_ptr + offsets, mask=seen, other=0)
                total += convert(value, COMPUTE) * (w_z * w_y * w_x)[:, None]
    y_offsets = (image[:, None] * n_channels + channel[None, :]) * plane + at[:, None]
    kind = y_ptr.dtype.element_ty
    tl.store(y_ptr + y_offsets, convert(total, kind), mask=mask[:, None] & there)


@triton.jit
def grid_backward(
    g_ptr, x_ptr, grid_ptr, dgrid_ptr, n_points, n_channels, plane, x_sizes, y_sizes, g_strides,
    x_strides, grid_strides,
    MODE: tl.constexpr, PADDING: tl.constexpr, ALIGN: tl.constexpr, DIMS: tl.constexpr,
    TAPS: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
    CHANNELS: tl.constexpr,
):  # fmt: skip
    """dgrid[n, p] = sum over taps of the weight's slope times sum over c of g[n, c, p]
    x[n, c, tap]; dgrid is dense.  One program computes BLOCK points."""
    linear, mask = block_offsets(n_points, WIDE, BLOCK)
    image = linear // plane
    at = linear % plane
    c_z, c_y, c_x = coordinates(
        grid_ptr, image, at, mask, y_sizes, grid_strides, DIMS, COMPUTE, WIDE
    )
    _outer, out_z, out_y, out_x = split_index(at, y_sizes)
    g_at_ptr = (
        g_ptr + offsets_of(image, g_strides[0], WIDE)
        + place_offsets(out_z, out_y, out_x, g_strides, WIDE)
    )[:, None]  # fmt: skip
    channels = tl.arange(0, CHANNELS)
    x_image_ptr = x_ptr + offsets_of(image, x_strides[0], WIDE)
    d_z = tl.zeros([BLOCK], COMPUTE)
    d_y = tl.zeros([BLOCK], COMPUTE)
    d_x = tl.zeros([BLOCK], COMPUTE)
    for i in tl.static_range(TAPS if DIMS == 3 else 1):
        z, in_z, w_z, s_z = tap(c_z, x_sizes[0], i, MODE, PADDING, ALIGN, DIMS == 2)
        for j in tl.static_range(TAPS):
            y, in_y, w_y, s_y = tap(c_y, x_sizes[1], j, MODE, PADDING, ALIGN, False)
            for k in tl.static_range(TAPS):
                x, in_x, w_x, s_x = tap(c_x, x_sizes[2], k, MODE, PADDING, ALIGN, False)
                seen = mask & in_z & in_y & in_x
                x_at_ptr = x_image_ptr + place_offsets(z, y, x, x_strides, WIDE)
                dot = tl.zeros([BLOCK], COMPUTE)
                for first in range(0, n_channels, CHANNELS):
                    channel = first + channels
                    there = (channel < n_channels)[None, :]
                    x_channel_ptr = x_at_ptr[:, None] + offsets_of(channel, x_strides[1], WIDE)
                    value = tl.load(x_channel_ptr, mask=seen[:, None] & there, other=0)
                    g_channel_ptr = g_at_ptr + offsets_of(channel, g_strides[1], WIDE)
                    g = tl.load(g_channel_ptr, mask=mask[:, None] & there, other=0)
                    dot += tl.sum(convert(value, COMPUTE) * convert(g, COMPUTE), axis=1)
                d_z += dot * s_z * w_y * w_x
                d_y += dot * w_z * s_y * w_x
                d_x += dot * w_z * w_y * s_x
    kind = dgrid_ptr.dtype.element_ty
    tl.store(dgrid_ptr + linear * DIMS, convert(d_x, kind), mask=mask)
    tl.store(dgrid_ptr + linear * DIMS + 1, convert(d_y, kind), mask=mask)
    if DIMS == 3:
        tl.store(dgrid_ptr + linear * DIMS + 2, convert(d_z, kind), mask=mask)


@triton.jit
def grid_taps(
    grid_ptr, key_ptr, weight_ptr, n_points, plane, n_pixels, x_sizes, y_sizes, grid_strides,
    MODE: tl.constexpr, PADDING: tl.constexpr, ALIGN: tl.constexpr, DIMS: tl.constexpr,
    TAPS: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """key[tap, p] = the pixel (of all images) that a tap of a point reads, n_pixels for none, and
    its weight.  One program computes BLOCK points."""
    linear, mask = block_offsets(n_points, WIDE, BLOCK)
    image = linear // plane
    at = linear % plane
    c_z, c_y, c_x = coordinates(
        grid_ptr, image, at, mask, y_sizes, grid_strides, DIMS, COMPUTE, WIDE
    )
    for i in tl.static_range(TAPS if DIMS == 3 else 1):
        z, in_z, w_z, _s = tap(c_z, x_sizes[0], i, MODE, PADDING, ALIGN, DIMS == 2)
        for j in tl.static_range(TAPS):
            y, in_y, w_y, _s = tap(c_y, x_sizes[1], j, MODE, PADDING, ALIGN, False)
            for k in tl.static_range(TAPS):
                x, in_x, w_x, _s = tap(c_x, x_sizes[2], k, MODE, PADDING, ALIGN, False)
                pixel = image.to(tl.int64) * x_sizes[0] + z
                pixel = (pixel * x_sizes[1] + y) * x_sizes[2] + x
                key = tl.where(in_z & in_y & in_x, pixel, n_pixels)
                row = ((i * TAPS + j) * TAPS + k) * n_points
                tl.store(key_ptr + row + linear, key, mask=mask)
                tl.store(weight_ptr + row + linear, w_z * w_y * w_x, mask=mask)


@triton.jit
def grid_gather(
    g_ptr, order_ptr, begin_ptr, weight_ptr, dx_ptr, n_elements, n_channels, n_points, plane,
    x_sizes, y_sizes, g_strides,
    COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx[n, c, q] = sum of weight g[n, c, p] over the taps (tap, p) of pixel q, which stand in
    order[begin[q]:begin[q + 1]]; dx is dense.  One program computes BLOCK elements."""
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    image, channel, z, y, x = place_of(linear, n_channels, x_sizes, False)
    pixel = ((image * x_sizes[0] + z) * x_sizes[1] + y) * x_sizes[2] + x
    begin = tl.load(begin_ptr + pixel, mask=mask, other=0)
    end = tl.load(begin_ptr + pixel + 1, mask=mask, other=0)
    g_plane_ptr = (
        g_ptr + offsets_of(image, g_strides[0], WIDE) + offsets_of(channel, g_strides[1], WIDE)
    )
    total = tl.zeros([BLOCK], COMPUTE)
    for step in range(tl.max(end - begin)):
        seen = begin + step < end
        order = tl.load(order_ptr + begin + step, mask=seen, other=0)
        weight = tl.load(weight_ptr + order, mask=seen, other=0)
        at = (order % n_points % plane).to(linear.dtype)
        _outer, out_z, out_y, out_x = split_index(at, y_sizes)
        offsets = place_offsets(out_z, out_y, out_x, g_strides, WIDE)
        total += weight * convert(tl.load(g_plane_ptr + offsets, mask=seen, other=0), COMPUTE)
    tl.store(dx_ptr + linear, convert(total, dx_ptr.dtype.element_ty), mask=mask)
