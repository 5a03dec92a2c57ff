"""Interpolation, nearest and linear, and its gradients.

# Note [Sources]
Per dim, output i of m lies at `place` among n inputs.
    nearest   place = (i + shift) ratio                the source is floor(place), at most n - 1
    linear    place = max(i ratio + shift, 0)          between low = floor(place) and low + 1
Sources never decrease with i, so the outputs that show input j are those from begin(j) up to
begin(j + 1); those that it has a part in begin at begin(j - 1).  `begin` guesses by the inverse, at
most `margin` wrong, and walks from there: gradients gather exactly what the forward spread.
ratio, inverse and shift arrive as the bits of a float64.

Spatial dims are always three, the missing ones of size 1 in front.  Outputs are dense, with their
channels last or not; elements are counted in that order.
"""

import triton
import triton.language as tl

from ..copy import convert
from ..matrices.matmul import offsets_of
from ..pointwise import block_offsets
from ..scalar.elementary import round
from ..softmax import number
from .conv import locate
from .pooling import place_of


@triton.jit
def nearest_source(i, n, ratio, shift):
    """Which input output i shows; see Note [Sources]."""
    place = (i.to(tl.float32) + number(shift, tl.float32)) * number(ratio, tl.float32)
    return tl.minimum(tl.floor(place).to(i.dtype), n - 1)


@triton.jit
def linear_source(i, n, ratio, shift, COORDINATE: tl.constexpr):
    """low, and how far output i is on the way to low + 1; see Note [Sources]."""
    place = i.to(COORDINATE) * number(ratio, COORDINATE) + number(shift, COORDINATE)
    place = tl.maximum(place, 0.0)
    low = tl.minimum(place.to(i.dtype), n - 1)
    return low, tl.minimum(place - low.to(COORDINATE), 1.0)


@triton.jit
def begin(
    j, n, m, ratio, shift, inverse, margin, LINEAR: tl.constexpr, COORDINATE: tl.constexpr
):  # fmt: skip
    """The first output whose source (linear: low) is at least j; see Note [Sources]."""
    at = j.to(COORDINATE)
    if LINEAR:
        guess = (at - number(shift, COORDINATE)) * number(inverse, COORDINATE)
    else:
        guess = at * number(inverse, COORDINATE) - number(shift, COORDINATE)
    guess = tl.minimum(tl.maximum(tl.ceil(guess), 0.0), m)
    i = tl.maximum(guess.to(j.dtype) - margin, 0)
    for _step in range(2 * margin):
        if LINEAR:
            source, _part = linear_source(i, n, ratio, shift, COORDINATE)
        else:
            source = nearest_source(i, n, ratio, shift)
        i += ((i < m) & (source < j)).to(i.dtype)
    return tl.where(j <= 0, 0, tl.where(j >= n, m, i))


@triton.jit
def nearest(
    x_ptr, y_ptr, n_elements, n_channels, x_sizes, y_sizes, ratios, shifts, x_strides,
    CHANNELS_LAST: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[i] = x[source of i].  One program computes BLOCK elements of y."""
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    image, channel, z, y, x = place_of(linear, n_channels, y_sizes, CHANNELS_LAST)
    z = nearest_source(z, x_sizes[0], ratios[0], shifts[0])
    y = nearest_source(y, x_sizes[1], ratios[1], shifts[1])
    x = nearest_source(x, x_sizes[2], ratios[2], shifts[2])
    offsets, _inside = locate(z, y, x, x_sizes, x_strides, WIDE)
    offsets += offsets_of(image, x_strides[0], WIDE) + offsets_of(channel, x_strides[1], WIDE)
    tl.store(y_ptr + linear, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def nearest_backward(
    g_ptr, dx_ptr, n_elements, n_channels, margin, x_sizes, y_sizes, ratios, shifts, inverses,
    g_strides,
    COMPUTE: tl.constexpr, CHANNELS_LAST: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx[j] = sum of g[i] over the outputs i that show j.  One program computes BLOCK of dx."""
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    image, channel, z, y, x = place_of(linear, n_channels, x_sizes, CHANNELS_LAST)
    first_z = begin(z, x_sizes[0], y_sizes[0], ratios[0], shifts[0], inverses[0], margin, False,
                    tl.float32)  # fmt: skip
    first_y = begin(y, x_sizes[1], y_sizes[1], ratios[1], shifts[1], inverses[1], margin, False,
                    tl.float32)  # fmt: skip
    first_x = begin(x, x_sizes[2], y_sizes[2], ratios[2], shifts[2], inverses[2], margin, False,
                    tl.float32)  # fmt: skip
    end_z = begin(z + 1, x_sizes[0], y_sizes[0], ratios[0], shifts[0], inverses[0], margin, False,
                  tl.float32)  # fmt: skip
    end_y = begin(y + 1, x_sizes[1], y_sizes[1], ratios[1], shifts[1], inverses[1], margin, False,
                  tl.float32)  # fmt: skip
    end_x = begin(x + 1, x_sizes[2], y_sizes[2], ratios[2], shifts[2], inverses[2], margin, False,
                  tl.float32)  # fmt: skip
    g_plane_ptr = (
        g_ptr + offsets_of(image, g_strides[0], WIDE) + offsets_of(channel, g_strides[1], WIDE)
    )
    acc = tl.zeros([BLOCK], COMPUTE)
    for step_z in range(tl.max(end_z - first_z)):
        for step_y in range(tl.max(end_y - first_y)):
            for step_x in range(tl.max(end_x - first_x)):
                at_z = first_z + step_z
                at_y = first_y + step_y
                at_x = first_x + step_x
                shown = mask & (at_z < end_z) & (at_y < end_y) & (at_x < end_x)
                offsets, _inside = locate(at_z, at_y, at_x, y_sizes, g_strides, WIDE)
                acc += convert(tl.load(g_plane_ptr + offsets, mask=shown, other=0), COMPUTE)
    tl.store(dx_ptr + linear, convert(acc, dx_ptr.dtype.element_ty), mask=mask)


# ---- linear --------------------------------------------------------------------------------------


@triton.jit
def mixed(low, high, part):
    """Between low and high."""
    return low * (1 - part) + high * part


@triton.jit
def along_z(line, mask, low, high, part, COMPUTE: tl.constexpr, DIMS: tl.constexpr):
    """The elements of a line along z, at given offsets, mixed."""
    value = convert(tl.load(line + low, mask=mask, other=0), COMPUTE)
    if DIMS == 3:
        value = mixed(value, convert(tl.load(line + high, mask=mask, other=0), COMPUTE), part)
    return value


@triton.jit
def along_y(
    plane, mask, low, high, part, z_low, z_high, z_part, COMPUTE: tl.constexpr, DIMS: tl.constexpr
):  # fmt: skip
    """The elements of a plane across x, at given offsets, mixed."""
    value = along_z(plane + low, mask, z_low, z_high, z_part, COMPUTE, DIMS)
    if DIMS >= 2:
        other = along_z(plane + high, mask, z_low, z_high, z_part, COMPUTE, DIMS)
        value = mixed(value, other, part)
    return value


@triton.jit
def neighbours(
    i, n, ratio, shift, stride, COMPUTE: tl.constexpr, COORDINATE: tl.constexpr, WIDE: tl.constexpr
):  # fmt: skip
    """Offsets of the two inputs that output i is between, and the part of the second."""
    low, part = linear_source(i, n, ratio, shift, COORDINATE)
    high = tl.minimum(low + 1, n - 1)
    return offsets_of(low, stride, WIDE), offsets_of(high, stride, WIDE), part.to(COMPUTE)


@triton.jit
def linear(
    x_ptr, y_ptr, n_elements, n_channels, x_sizes, y_sizes, ratios, shifts, x_strides,
    COMPUTE: tl.constexpr, COORDINATE: tl.constexpr, DIMS: tl.constexpr,
    CHANNELS_LAST: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[i] = the mean of the 2^DIMS inputs around the place of i, weighted by nearness.

    COORDINATE: the type of places.  One program computes BLOCK elements of y.
    """
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    image, channel, z, y, x = place_of(linear, n_channels, y_sizes, CHANNELS_LAST)
    z_low, z_high, z_part = neighbours(
        z, x_sizes[0], ratios[0], shifts[0], x_strides[2], COMPUTE, COORDINATE, WIDE)  # fmt: skip
    y_low, y_high, y_part = neighbours(
        y, x_sizes[1], ratios[1], shifts[1], x_strides[3], COMPUTE, COORDINATE, WIDE)  # fmt: skip
    x_low, x_high, x_part = neighbours(
        x, x_sizes[2], ratios[2], shifts[2], x_strides[4], COMPUTE, COORDINATE, WIDE)  # fmt: skip
    x_plane_ptr = (
        x_ptr + offsets_of(image, x_strides[0], WIDE) + offsets_of(channel, x_strides[1], WIDE)
    )
    left = along_y(x_plane_ptr + x_low, mask, y_low, y_high, y_part, z_low, z_high, z_part,
                   COMPUTE, DIMS)  # fmt: skip
    right = along_y(x_plane_ptr + x_high, mask, y_low, y_high, y_part, z_low, z_high, z_part,
                    COMPUTE, DIMS)  # fmt: skip
    value = mixed(left, right, x_part)
    if not y_ptr.dtype.element_ty.is_floating():
        value = round(value)
    tl.store(y_ptr + linear, convert(value, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def share(i, j, n, ratio, shift, COMPUTE: tl.constexpr, COORDINATE: tl.constexpr):
    """The weight of input j in output i."""
    low, part = linear_source(i, n, ratio, shift, COORDINATE)
    part = part.to(COMPUTE)
    weight = tl.where(low == j, 1 - part, 0.0)
    return weight + tl.where(tl.minimum(low + 1, n - 1) == j, part, 0.0)


@triton.jit
def linear_backward(
    g_ptr, dx_ptr, n_elements, n_channels, margin, x_sizes, y_sizes, ratios, shifts, inverses,
    g_strides,
    COMPUTE: tl.constexpr, COORDINATE: tl.constexpr, CHANNELS_LAST: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx[j] = sum of g[i] times the weight of j in i, over the outputs i that it has a part in.

    One program computes BLOCK elements of dx.
    """
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    image, channel, z, y, x = place_of(linear, n_channels, x_sizes, CHANNELS_LAST)
    first_z = begin(z - 1, x_sizes[0], y_sizes[0], ratios[0], shifts[0], inverses[0], margin, True,
                    COORDINATE)  # fmt: skip
    first_y = begin(y - 1, x_sizes[1], y_sizes[1], ratios[1], shifts[1], inverses[1], margin, True,
                    COORDINATE)  # fmt: skip
    first_x = begin(x - 1, x_sizes[2], y_sizes[2], ratios[2], shifts[2], inverses[2], margin, True,
                    COORDINATE)  # fmt: skip
    end_z = begin(z + 1, x_sizes[0], y_sizes[0], ratios[0], shifts[0], inverses[0], margin, True,
                  COORDINATE)  # fmt: skip
    end_y = begin(y + 1, x_sizes[1], y_sizes[1], ratios[1], shifts[1], inverses[1], margin, True,
                  COORDINATE)  # fmt: skip
    end_x = begin(x + 1, x_sizes[2], y_sizes[2], ratios[2], shifts[2], inverses[2], margin, True,
                  COORDINATE)  # fmt: skip
    g_plane_ptr = (
        g_ptr + offsets_of(image, g_strides[0], WIDE) + offsets_of(channel, g_strides[1], WIDE)
    )
    acc = tl.zeros([BLOCK], COMPUTE)
    for step_z in range(tl.max(end_z - first_z)):
        at_z = first_z + step_z
        z_share = share(at_z, z, x_sizes[0], ratios[0], shifts[0], COMPUTE, COORDINATE)
        for step_y in range(tl.max(end_y - first_y)):
            at_y = first_y + step_y
            y_share = share(at_y, y, x_sizes[1], ratios[1], shifts[1], COMPUTE, COORDINATE)
            for step_x in range(tl.max(end_x - first_x)):
                at_x = first_x + step_x
                x_share = share(at_x, x, x_sizes[2], ratios[2], shifts[2], COMPUTE, COORDINATE)
                inside = mask & (at_z < end_z) & (at_y < end_y) & (at_x < end_x)
                offsets, _inside = locate(at_z, at_y, at_x, y_sizes, g_strides, WIDE)
                g = convert(tl.load(g_plane_ptr + offsets, mask=inside, other=0), COMPUTE)
                acc += g * (z_share * y_share * x_share)
    tl.store(dx_ptr + linear, convert(acc, dx_ptr.dtype.element_ty), mask=mask)
