"""Windows of images: what regions of interest take from them, and which of many boxes are kept.

# Note [Windows]
A window k sees image batch[k]; each of its OUT_Y by OUT_X places is a weighted sum of a rectangle
of it, and the weights are products of one for the row and one for the column: y_weights[k, i, y]
x_weights[k, j, x].  y_range[k, i] are the first and the last row whose weight is not zero.  With
SPREAD each place reads a channel of its own: (c * OUT_Y + i) * OUT_X + j.
"""

import triton
import triton.language as tl

from ..copy import convert


@triton.jit
def place_of_window(at, channels, OUT_Y: tl.constexpr, OUT_X: tl.constexpr, SPREAD: tl.constexpr):
    """Of outputs (k, c, place_y, place_x): the two places, the window, and the image's channel."""
    place_x = at % OUT_X
    place_y = (at // OUT_X) % OUT_Y
    c = (at // (OUT_X * OUT_Y)) % channels
    k = at // (OUT_X * OUT_Y) // channels
    if SPREAD:
        c = (c * OUT_Y + place_y) * OUT_X + place_x
    return k, c, place_y, place_x


@triton.jit
def span(ranges, at, mask):
    """The first and the last index of ranges; those masked off are empty."""
    first = tl.load(ranges + 2 * at, mask=mask, other=0)
    last = tl.load(ranges + 2 * at + 1, mask=mask, other=-1)
    return first, last


@triton.jit
def window_sums(
    x_ptr, batch_ptr, y_weights_ptr, x_weights_ptr, y_range_ptr, x_range_ptr, out_ptr, n, channels,
    x_channels, height, width, OUT_Y: tl.constexpr, OUT_X: tl.constexpr, SPREAD: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """out[k, c, i, j] = sum of y_weights[k, i, y] x_weights[k, j, x] x[batch[k], c, y, x].

    One program sums BLOCK outputs, row by row; see Note [Windows].
    """
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    k, c, i, j = place_of_window(at, channels, OUT_Y, OUT_X, SPREAD)
    image = (tl.load(batch_ptr + k, mask=mask, other=0) * x_channels + c) * height
    row, column = k * OUT_Y + i, k * OUT_X + j
    y_first, y_last = span(y_range_ptr, row, mask)
    x_first, x_last = span(x_range_ptr, column, mask)
    rows, columns = tl.max(y_last - y_first) + 1, tl.max(x_last - x_first) + 1
    total = tl.zeros([BLOCK], y_weights_ptr.dtype.element_ty)
    for dy in range(rows):
        y = y_first + dy
        in_row = mask & (y <= y_last)
        y_weight = tl.load(y_weights_ptr + row * height + y, mask=in_row, other=0.0)
        for dx in range(columns):
            x = x_first + dx
            inside = in_row & (x <= x_last)
            weight = y_weight * tl.load(x_weights_ptr + column * width + x, mask=inside, other=0.0)
            value = tl.load(x_ptr + (image + y) * width + x, mask=inside, other=0.0)
            total += weight * value.to(weight.dtype)
    tl.store(out_ptr + at, convert(total, out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def window_sums_backward(
    dout_ptr, batch_ptr, y_weights_ptr, x_weights_ptr, y_range_ptr, x_range_ptr, dx_ptr, n, windows,
    channels, x_channels, height, width, OUT_Y: tl.constexpr, OUT_X: tl.constexpr,
    SPREAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx[b, c, y, x] = sum over windows of b and places of their weights times dout[k, c, i, j].

    One program sums BLOCK of an image's elements over all windows in order, so the sums repeat to
    the bit; windows that none of them is in are passed over.
    """
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = at % width
    y = (at // width) % height
    c = (at // width // height) % x_channels
    b = at // width // height // x_channels
    total = tl.zeros([BLOCK], y_weights_ptr.dtype.element_ty)
    for k in range(windows):
        seen = mask & (tl.load(batch_ptr + k) == b)
        if tl.max(seen.to(tl.int32)) > 0:
            if SPREAD:
                i = (c // OUT_X) % OUT_Y
                j = c % OUT_X
                row, column = k * OUT_Y + i, k * OUT_X + j
                weight = tl.load(y_weights_ptr + row * height + y, mask=seen, other=0.0)
                weight *= tl.load(x_weights_ptr + column * width + x, mask=seen, other=0.0)
                place = ((k * channels + c // (OUT_X * OUT_Y)) * OUT_Y + i) * OUT_X + j
                g = tl.load(dout_ptr + place, mask=seen & (weight != 0), other=0.0)
                total += weight * g.to(weight.dtype)
            else:
                for i in range(OUT_Y):
                    row = k * OUT_Y + i
                    first, last = tl.load(y_range_ptr + 2 * row), tl.load(y_range_ptr + 2 * row + 1)
                    in_row = seen & (y >= first) & (y <= last)
                    if tl.max(in_row.to(tl.int32)) > 0:
                        y_at = row * height + y
                        y_weight = tl.load(y_weights_ptr + y_at, mask=in_row, other=0.0)
                        for j in range(OUT_X):
                            column = k * OUT_X + j
                            x_at = column * width + x
                            weight = tl.load(x_weights_ptr + x_at, mask=in_row, other=0.0)
                            weight *= y_weight
                            place = ((k * channels + c) * OUT_Y + i) * OUT_X + j
                            g = tl.load(dout_ptr + place, mask=in_row & (weight != 0), other=0.0)
                            total += weight * g.to(weight.dtype)
    tl.store(dx_ptr + at, convert(total, dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def window_maxima(
    x_ptr, batch_ptr, y_range_ptr, x_range_ptr, out_ptr, place_ptr, n, channels, height, width,
    OUT_Y: tl.constexpr, OUT_X: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[k, c, i, j] = the maximum of x[batch[k], c] in a rectangle, and where it is first in the
    image (0 and -1 where the rectangle is empty).  One program makes BLOCK outputs."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    k, c, i, j = place_of_window(at, channels, OUT_Y, OUT_X, False)
    image = (tl.load(batch_ptr + k, mask=mask, other=0) * channels + c) * height
    row, column = k * OUT_Y + i, k * OUT_X + j
    y_first, y_last = span(y_range_ptr, row, mask)
    x_first, x_last = span(x_range_ptr, column, mask)
    rows, columns = tl.max(y_last - y_first) + 1, tl.max(x_last - x_first) + 1
    best = tl.full([BLOCK], float("-inf"), x_ptr.dtype.element_ty)
    place = tl.full([BLOCK], -1, tl.int32)
    for dy in range(rows):
        y = y_first + dy
        for dx in range(columns):
            x = x_first + dx
            inside = mask & (y <= y_last) & (x <= x_last)
            value = tl.load(x_ptr + (image + y) * width + x, mask=inside, other=0.0)
            better = inside & ((value > best) | (place < 0))
            best = tl.where(better, value, best)
            place = tl.where(better, (y * width + x).to(tl.int32), place)
    tl.store(out_ptr + at, tl.where(place < 0, 0.0, best).to(best.dtype), mask=mask)
    tl.store(place_ptr + at, place, mask=mask)


@triton.jit
def box_overlaps(boxes_ptr, over_ptr, n, threshold, BLOCK: tl.constexpr):
    """over[i, j] = whether box j > i covers more of what it shares with box i than the threshold:
    intersection / union.  Boxes are x1, y1, x2, y2; one program makes BLOCK elements of a row."""
    i = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = j < n
    x1, y1 = tl.load(boxes_ptr + 4 * i), tl.load(boxes_ptr + 4 * i + 1)
    x2, y2 = tl.load(boxes_ptr + 4 * i + 2), tl.load(boxes_ptr + 4 * i + 3)
    left = tl.load(boxes_ptr + 4 * j, mask=mask, other=0.0)
    top = tl.load(boxes_ptr + 4 * j + 1, mask=mask, other=0.0)
    right = tl.load(boxes_ptr + 4 * j + 2, mask=mask, other=0.0)
    bottom = tl.load(boxes_ptr + 4 * j + 3, mask=mask, other=0.0)
    w = tl.maximum(tl.minimum(x2, right) - tl.maximum(x1, left), 0.0)
    h = tl.maximum(tl.minimum(y2, bottom) - tl.maximum(y1, top), 0.0)
    shared = w * h
    union = (x2 - x1) * (y2 - y1) + (right - left) * (bottom - top) - shared
    over = (shared / union > threshold) & (j > i)
    tl.store(over_ptr + i * n + j, over, mask=mask)


@triton.jit
def keep_boxes(over_ptr, keep_ptr, n, BLOCK: tl.constexpr):
    """keep[i] = whether no box that is kept before it overlaps box i.  One program; BLOCK >= n."""
    at = tl.arange(0, BLOCK)
    mask = at < n
    gone = tl.zeros([BLOCK], tl.int32)
    for i in range(n):
        is_gone = tl.sum(tl.where(at == i, gone, 0))
        row = tl.load(over_ptr + i.to(tl.int64) * n + at, mask=mask & (is_gone == 0), other=0)
        gone |= row.to(tl.int32)
    tl.store(keep_ptr + at, gone == 0, mask=mask)
