"""Pooling: the largest element or the mean of windows, and their gradients.

# Note [Windows]
Per dim, window o of n elements takes those at start + t dilation, 0 <= t < count, that are inside.
    fixed     start = o stride - padding      count = kernel
    ADAPTIVE  start = floor(o n / m)          count = ceil((o + 1) n / m) - start
where m is the number of windows; the launcher gives `kernel` the most that a count can be.

Gradients are gathered: a program owns a block of input elements and adds what the windows over each
of them pass on, always in the same order.  Spatial dims are always three, the missing ones of size
1 in front.  Outputs are dense, with their channels last or not; elements are counted in that order.
"""

import triton
import triton.language as tl

from ..copy import convert
from ..matrices.matmul import offsets_of
from ..pointwise import block_offsets, div
from .conv import locate, split_index


@triton.jit
def place_of(linear, n_channels, sizes, CHANNELS_LAST: tl.constexpr):
    """Image, channel and three coordinates of elements counted in the order of memory."""
    if CHANNELS_LAST:
        channel = linear % n_channels
        image, z, y, x = split_index(linear // n_channels, sizes)
    else:
        plane, z, y, x = split_index(linear, sizes)
        channel = plane % n_channels
        image = plane // n_channels
    return image, channel, z, y, x


@triton.jit
def window(o, n, m, kernel, stride, padding, ADAPTIVE: tl.constexpr):
    """start and count of windows in one dim; see Note [Windows]."""
    if ADAPTIVE:
        start = o * n // m
        count = ((o + 1) * n + m - 1) // m - start
    else:
        start = o * stride - padding
        count = kernel + 0 * o
    return start, count


@triton.jit
def counted(
    o, n, m, kernel, stride, padding, ADAPTIVE: tl.constexpr, COUNT_PADDING: tl.constexpr
):  # fmt: skip
    """How many elements of windows a mean is over, in one dim."""
    start, count = window(o, n, m, kernel, stride, padding, ADAPTIVE)
    if COUNT_PADDING:
        size = tl.minimum(start + count, n + padding) - start
    else:
        size = tl.minimum(start + count, n) - tl.maximum(start, 0)
    return size


@triton.jit
def divisor_of(
    z, y, x, divisor, x_sizes, y_sizes, kernel, stride, padding, ADAPTIVE: tl.constexpr,
    COUNT_PADDING: tl.constexpr, HAS_DIVISOR: tl.constexpr,
):  # fmt: skip
    """By what the sums of windows are divided."""
    if HAS_DIVISOR:
        count = divisor + 0 * x
    else:
        count = (
            counted(z, x_sizes[0], y_sizes[0], kernel[0], stride[0], padding[0], ADAPTIVE,
                    COUNT_PADDING)
            * counted(y, x_sizes[1], y_sizes[1], kernel[1], stride[1], padding[1], ADAPTIVE,
                      COUNT_PADDING)
            * counted(x, x_sizes[2], y_sizes[2], kernel[2], stride[2], padding[2], ADAPTIVE,
                      COUNT_PADDING)
        )  # fmt: skip
    return count


@triton.jit
def mean(total, count):
    """total / count; integers are rounded towards zero."""
    if total.dtype.is_floating():
        y = div(total, count.to(total.dtype))
    else:
        y = total // count
    return y


@triton.jit
def larger(a, i, b, j):
    """Of (a, i) and (b, j) the larger element: of equal ones the first, of NaNs the last."""
    a_nan = a != a
    b_nan = b != b
    second = (b > a) | ((b == a) & (j < i)) | (b_nan & ((a_nan == 0) | (j > i)))
    return tl.where(second, b, a), tl.where(second, j, i)


@triton.jit
def max_pool(
    x_ptr, y_ptr, index_ptr, n_elements, n_channels, x_sizes, y_sizes, kernel, stride, padding,
    dilation, x_strides,
    VALUE: tl.constexpr, LOWEST: tl.constexpr, ADAPTIVE: tl.constexpr, CHANNELS_LAST: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr, TAPS: tl.constexpr,
):  # fmt: skip
    """y[o] = the largest of window o, index[o] = its place in the plane.

    A window of nothing but LOWEST (padding is, too) gives the place of its first element.  One
    program computes BLOCK windows, and looks at TAPS elements of each at a time.
    """
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    image, channel, z, y, x = place_of(linear, n_channels, y_sizes, CHANNELS_LAST)
    from_z, count_z = window(z, x_sizes[0], y_sizes[0], kernel[0], stride[0], padding[0], ADAPTIVE)
    from_y, count_y = window(y, x_sizes[1], y_sizes[1], kernel[1], stride[1], padding[1], ADAPTIVE)
    from_x, count_x = window(x, x_sizes[2], y_sizes[2], kernel[2], stride[2], padding[2], ADAPTIVE)
    x_plane_ptr = (
        x_ptr + offsets_of(image, x_strides[0], WIDE) + offsets_of(channel, x_strides[1], WIDE)
    )[:, None]
    first_z = from_z + (tl.maximum(-from_z, 0) + dilation[0] - 1) // dilation[0] * dilation[0]
    first_y = from_y + (tl.maximum(-from_y, 0) + dilation[1] - 1) // dilation[1] * dilation[1]
    first_x = from_x + (tl.maximum(-from_x, 0) + dilation[2] - 1) // dilation[2] * dilation[2]
    first = (first_z * x_sizes[1] + first_y) * x_sizes[2] + first_x
    best = tl.full([BLOCK, TAPS], LOWEST, VALUE)
    place = tl.zeros([BLOCK, TAPS], first.dtype) + first[:, None]
    for step in range(tl.cdiv(kernel[0] * kernel[1] * kernel[2], TAPS)):
        if TAPS == 1:
            tap = step
        else:
            tap = (step * TAPS + tl.arange(0, TAPS))[None, :]
        tap_x = tap % kernel[2]
        tap_y = tap // kernel[2] % kernel[1]
        tap_z = tap // kernel[2] // kernel[1]
        at_z = from_z[:, None] + tap_z * dilation[0]
        at_y = from_y[:, None] + tap_y * dilation[1]
        at_x = from_x[:, None] + tap_x * dilation[2]
        offsets, inside = locate(at_z, at_y, at_x, x_sizes, x_strides, WIDE)
        inside &= (
            mask[:, None]
            & (tap_z < count_z[:, None])
            & (tap_y < count_y[:, None])
            & (tap_x < count_x[:, None])
        )
        seen = convert(tl.load(x_plane_ptr + offsets, mask=inside, other=0), VALUE)
        better = inside & ((seen > best) | (seen != seen))
        best = tl.where(better, seen, best)
        place = tl.where(better, (at_z * x_sizes[1] + at_y) * x_sizes[2] + at_x, place)
    if TAPS > 1:
        best, place = tl.reduce((best, place), 1, larger, keep_dims=True)
    targets, mask = linear[:, None], mask[:, None]
    tl.store(y_ptr + targets, convert(best, y_ptr.dtype.element_ty), mask=mask)
    tl.store(index_ptr + targets, place.to(tl.int64), mask=mask)


@triton.jit
def index_bounds(
    index_ptr, bound_ptr, n_elements, n_places, n_channels, x_sizes, y_sizes, index_strides,
    CHANNELS_LAST: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """How far an index is from where its window would begin if m windows divided n elements evenly.

    bound[program] = the least distance per dim, then the least of their negatives, over every
    n_programs-th block of BLOCK windows.  An index outside its plane of n_places does not count.
    """
    low_z = tl.zeros([BLOCK], tl.int64) + x_sizes[0]
    low_y = tl.zeros([BLOCK], tl.int64) + x_sizes[1]
    low_x = tl.zeros([BLOCK], tl.int64) + x_sizes[2]
    less_z = low_z
    less_y = low_y
    less_x = low_x
    pid = tl.program_id(0)
    for block in range(pid, tl.cdiv(n_elements, BLOCK), tl.num_programs(0)):
        linear = offsets_of(block + 0 * pid, BLOCK, WIDE) + tl.arange(0, BLOCK)
        mask = linear < n_elements
        image, channel, z, y, x = place_of(linear, n_channels, y_sizes, CHANNELS_LAST)
        offsets, _inside = locate(z, y, x, y_sizes, index_strides, WIDE)
        offsets += offsets_of(image, index_strides[0], WIDE)
        offsets += offsets_of(channel, index_strides[1], WIDE)
        index = tl.load(index_ptr + offsets, mask=mask, other=-1)
        inside = (index >= 0) & (index < n_places)
        _outer, at_z, at_y, at_x = split_index(index.to(linear.dtype), x_sizes)
        at_z -= z * x_sizes[0] // y_sizes[0]
        at_y -= y * x_sizes[1] // y_sizes[1]
        at_x -= x * x_sizes[2] // y_sizes[2]
        low_z = tl.where(inside, tl.minimum(low_z, at_z), low_z)
        low_y = tl.where(inside, tl.minimum(low_y, at_y), low_y)
        low_x = tl.where(inside, tl.minimum(low_x, at_x), low_x)
        less_z = tl.where(inside, tl.minimum(less_z, -at_z), less_z)
        less_y = tl.where(inside, tl.minimum(less_y, -at_y), less_y)
        less_x = tl.where(inside, tl.minimum(less_x, -at_x), less_x)
    tl.store(bound_ptr + pid * 6, tl.min(low_z))
    tl.store(bound_ptr + pid * 6 + 1, tl.min(low_y))
    tl.store(bound_ptr + pid * 6 + 2, tl.min(low_x))
    tl.store(bound_ptr + pid * 6 + 3, tl.min(less_z))
    tl.store(bound_ptr + pid * 6 + 4, tl.min(less_y))
    tl.store(bound_ptr + pid * 6 + 5, tl.min(less_x))


@triton.jit
def within(i, n, m, low, less):
    """The windows, from one up to another, whose index may be i in one dim, given the bounds."""
    low = low.to(i.dtype)
    less = less.to(i.dtype)
    first = (tl.maximum(i + less, 0) * m + n - 1) // n
    last = i - low  # where the last of them would begin
    end = tl.where(last < 0, 0, tl.minimum(((last + 1) * m - 1) // n + 1, m))
    return first, end


@triton.jit
def max_pool_backward(
    g_ptr, index_ptr, bound_ptr, dx_ptr, n_elements, n_channels, x_sizes, y_sizes, g_strides,
    index_strides,
    ACCUMULATE: tl.constexpr, CHANNELS_LAST: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx[i] = sum of g[o] over the windows o with index[o] == i; bound: as in index_bounds.

    One program computes BLOCK elements of dx.
    """
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    image, channel, z, y, x = place_of(linear, n_channels, x_sizes, CHANNELS_LAST)
    first_z, end_z = within(
        z, x_sizes[0], y_sizes[0], tl.load(bound_ptr), tl.load(bound_ptr + 3))  # fmt: skip
    first_y, end_y = within(
        y, x_sizes[1], y_sizes[1], tl.load(bound_ptr + 1), tl.load(bound_ptr + 4))  # fmt: skip
    first_x, end_x = within(
        x, x_sizes[2], y_sizes[2], tl.load(bound_ptr + 2), tl.load(bound_ptr + 5))  # fmt: skip
    here = (z * x_sizes[1] + y) * x_sizes[2] + x
    g_plane_ptr = (
        g_ptr + offsets_of(image, g_strides[0], WIDE) + offsets_of(channel, g_strides[1], WIDE)
    )
    index_plane_ptr = (
        index_ptr
        + offsets_of(image, index_strides[0], WIDE)
        + offsets_of(channel, index_strides[1], WIDE)
    )
    acc = tl.zeros([BLOCK], ACCUMULATE)
    for step_z in range(tl.max(end_z - first_z)):
        for step_y in range(tl.max(end_y - first_y)):
            for step_x in range(tl.max(end_x - first_x)):
                at_z = first_z + step_z
                at_y = first_y + step_y
                at_x = first_x + step_x
                seen = mask & (at_z < end_z) & (at_y < end_y) & (at_x < end_x)
                offsets, _inside = locate(at_z, at_y, at_x, y_sizes, index_strides, WIDE)
                index = tl.load(index_plane_ptr + offsets, mask=seen, other=-1)
                offsets, _inside = locate(at_z, at_y, at_x, y_sizes, g_strides, WIDE)
                hit = seen & (index == here)
                acc += convert(tl.load(g_plane_ptr + offsets, mask=hit, other=0), ACCUMULATE)
    tl.store(dx_ptr + linear, convert(acc, dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def avg_pool(
    x_ptr, y_ptr, n_elements, n_channels, divisor, x_sizes, y_sizes, kernel, stride, padding,
    x_strides,
    ACCUMULATE: tl.constexpr, ADAPTIVE: tl.constexpr, COUNT_PADDING: tl.constexpr,
    HAS_DIVISOR: tl.constexpr, CHANNELS_LAST: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr, TAPS: tl.constexpr,
):  # fmt: skip
    """y[o] = the sum of window o / divisor, or / the number of its elements.

    COUNT_PADDING: the padding counts as elements.  One program computes BLOCK windows, and looks at
    TAPS elements of each at a time.
    """
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    image, channel, z, y, x = place_of(linear, n_channels, y_sizes, CHANNELS_LAST)
    from_z, count_z = window(z, x_sizes[0], y_sizes[0], kernel[0], stride[0], padding[0], ADAPTIVE)
    from_y, count_y = window(y, x_sizes[1], y_sizes[1], kernel[1], stride[1], padding[1], ADAPTIVE)
    from_x, count_x = window(x, x_sizes[2], y_sizes[2], kernel[2], stride[2], padding[2], ADAPTIVE)
    x_plane_ptr = (
        x_ptr + offsets_of(image, x_strides[0], WIDE) + offsets_of(channel, x_strides[1], WIDE)
    )[:, None]
    acc = tl.zeros([BLOCK, TAPS], ACCUMULATE)
    for step in range(tl.cdiv(kernel[0] * kernel[1] * kernel[2], TAPS)):
        if TAPS == 1:
            tap = step
        else:
            tap = (step * TAPS + tl.arange(0, TAPS))[None, :]
        tap_x = tap % kernel[2]
        tap_y = tap // kernel[2] % kernel[1]
        tap_z = tap // kernel[2] // kernel[1]
        offsets, inside = locate(
            from_z[:, None] + tap_z, from_y[:, None] + tap_y, from_x[:, None] + tap_x,
            x_sizes, x_strides, WIDE,
        )  # fmt: skip
        inside &= (
            mask[:, None]
            & (tap_z < count_z[:, None])
            & (tap_y < count_y[:, None])
            & (tap_x < count_x[:, None])
        )
        acc += convert(tl.load(x_plane_ptr + offsets, mask=inside, other=0), ACCUMULATE)
    if TAPS > 1:
        acc = tl.sum(acc, axis=1, keep_dims=True)
    count = divisor_of(
        z, y, x, divisor, x_sizes, y_sizes, kernel, stride, padding, ADAPTIVE, COUNT_PADDING,
        HAS_DIVISOR,
    )  # fmt: skip
    y = mean(acc, count[:, None])
    tl.store(y_ptr + linear[:, None], convert(y, y_ptr.dtype.element_ty), mask=mask[:, None])


@triton.jit
def over(i, n, m, kernel, stride, padding, ADAPTIVE: tl.constexpr):
    """The windows, from one up to another, that lie over i in one dim; see Note [Windows]."""
    if ADAPTIVE:
        first = i * m // n
        end = ((i + 1) * m - 1) // n + 1
    else:
        first = tl.maximum(i + padding - kernel + stride, 0) // stride
        end = tl.minimum((i + padding) // stride + 1, m)
    return first, end


@triton.jit
def avg_pool_backward(
    g_ptr, dx_ptr, n_elements, n_channels, divisor, x_sizes, y_sizes, kernel, stride, padding,
    g_strides,
    ACCUMULATE: tl.constexpr, ADAPTIVE: tl.constexpr, COUNT_PADDING: tl.constexpr,
    HAS_DIVISOR: tl.constexpr, CHANNELS_LAST: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx[i] = sum of g[o] / divisor (as in avg_pool) over the windows o that i is in.

    One program computes BLOCK elements of dx.
    """
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    image, channel, z, y, x = place_of(linear, n_channels, x_sizes, CHANNELS_LAST)
    first_z, end_z = over(z, x_sizes[0], y_sizes[0], kernel[0], stride[0], padding[0], ADAPTIVE)
    first_y, end_y = over(y, x_sizes[1], y_sizes[1], kernel[1], stride[1], padding[1], ADAPTIVE)
    first_x, end_x = over(x, x_sizes[2], y_sizes[2], kernel[2], stride[2], padding[2], ADAPTIVE)
    g_plane_ptr = (
        g_ptr + offsets_of(image, g_strides[0], WIDE) + offsets_of(channel, g_strides[1], WIDE)
    )
    acc = tl.zeros([BLOCK], ACCUMULATE)
    for step_z in range(tl.max(end_z - first_z)):
        for step_y in range(tl.max(end_y - first_y)):
            for step_x in range(tl.max(end_x - first_x)):
                at_z = first_z + step_z
                at_y = first_y + step_y
                at_x = first_x + step_x
                inside = mask & (at_z < end_z) & (at_y < end_y) & (at_x < end_x)
                offsets, _inside = locate(at_z, at_y, at_x, y_sizes, g_strides, WIDE)
                g = convert(tl.load(g_plane_ptr + offsets, mask=inside, other=0), ACCUMULATE)
                count = divisor_of(
                    at_z, at_y, at_x, divisor, x_sizes, y_sizes, kernel, stride, padding, ADAPTIVE,
                    COUNT_PADDING, HAS_DIVISOR,
                )  # fmt: skip
                acc += tl.where(inside, mean(g, count), 0)
    tl.store(dx_ptr + linear, convert(acc, dx_ptr.dtype.element_ty), mask=mask)
