"""Products of vectors of three numbers."""

import triton
import triton.language as tl

from ..pointwise import block_offsets, strided
from ..scalar.complex import part, store


@triton.jit
def difference(a, a_im, b, b_im, c, c_im, d, d_im, PAIR: tl.constexpr):
    """a b - c d."""
    if PAIR:
        re = (a * b - a_im * b_im) - (c * d - c_im * d_im)
        return re, (a * b_im + a_im * b) - (c * d_im + c_im * d)
    return a * b - c * d, a_im


@triton.jit
def cross(
    a_ptr, b_ptr, y_ptr, n_elements, shape, a_strides, b_strides, y_strides, a_step, b_step,
    y_step, COMPUTE: tl.constexpr, PAIR: tl.constexpr, NDIM: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y = a x b: y[i] = a[i + 1] b[i + 2] - a[i + 2] b[i + 1], i modulo 3.

    shape and strides are those of the other dims; steps go from one component to the next.
    """
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    a = strided(index, shape, a_strides, NDIM)
    b = strided(index, shape, b_strides, NDIM)
    y = strided(index, shape, y_strides, NDIM)
    a0 = part(a_ptr, a, mask, COMPUTE, PAIR, False)
    a1 = part(a_ptr, a + a_step, mask, COMPUTE, PAIR, False)
    a2 = part(a_ptr, a + 2 * a_step, mask, COMPUTE, PAIR, False)
    b0 = part(b_ptr, b, mask, COMPUTE, PAIR, False)
    b1 = part(b_ptr, b + b_step, mask, COMPUTE, PAIR, False)
    b2 = part(b_ptr, b + 2 * b_step, mask, COMPUTE, PAIR, False)
    p0 = part(a_ptr, a, mask, COMPUTE, PAIR, True)
    p1 = part(a_ptr, a + a_step, mask, COMPUTE, PAIR, True)
    p2 = part(a_ptr, a + 2 * a_step, mask, COMPUTE, PAIR, True)
    q0 = part(b_ptr, b, mask, COMPUTE, PAIR, True)
    q1 = part(b_ptr, b + b_step, mask, COMPUTE, PAIR, True)
    q2 = part(b_ptr, b + 2 * b_step, mask, COMPUTE, PAIR, True)
    re, im = difference(a1, p1, b2, q2, a2, p2, b1, q1, PAIR)
    store(y_ptr, y, mask, re, im, PAIR)
    re, im = difference(a2, p2, b0, q0, a0, p0, b2, q2, PAIR)
    store(y_ptr, y + y_step, mask, re, im, PAIR)
    re, im = difference(a0, p0, b1, q1, a1, p1, b0, q0, PAIR)
    store(y_ptr, y + 2 * y_step, mask, re, im, PAIR)
