"""Resampling of one dim of images by a table of weights."""

import triton
import triton.language as tl

from ..copy import convert
from ..matrices.matmul import offsets_of
from ..pointwise import block_offsets
from .pooling import place_of


@triton.jit
def resample(
    x_ptr, begin_ptr, weight_ptr, y_ptr, n_elements, n_channels, n_taps, n_inputs, y_sizes,
    x_strides,
    ACROSS: tl.constexpr, COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[i] = sum over k of weight[i, k] x[begin[i] + k], along rows (ACROSS) or columns.

    y is dense; weights past the end of x are 0.  One program computes BLOCK elements of y.
    """
    linear, mask = block_offsets(n_elements, WIDE, BLOCK)
    image, channel, _z, y, x = place_of(linear, n_channels, y_sizes, False)
    offsets = offsets_of(image, x_strides[0], WIDE) + offsets_of(channel, x_strides[1], WIDE)
    if ACROSS:
        row = x
        step = x_strides[4]
        offsets += offsets_of(y, x_strides[3], WIDE)
    else:
        row = y
        step = x_strides[3]
        offsets += offsets_of(x, x_strides[4], WIDE)
    begin = tl.load(begin_ptr + row, mask=mask, other=0).to(linear.dtype)
    total = tl.zeros([BLOCK], COMPUTE)
    for k in range(n_taps):
        seen = mask & (begin + k < n_inputs)
        weight = tl.load(weight_ptr + row * n_taps + k, mask=mask, other=0)
        value = tl.load(x_ptr + offsets + offsets_of(begin + k, step, WIDE), mask=seen, other=0)
        total += convert(value, COMPUTE) * convert(weight, COMPUTE)
    tl.store(y_ptr + linear, convert(total, y_ptr.dtype.element_ty), mask=mask)
