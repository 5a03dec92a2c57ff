"""Pointwise functions of complex numbers: kernels see pairs of reals.

Each function takes (re, im) for every operand and returns (re, im); for a real or bool result the
second is ignored.
"""

import triton
import triton.language as tl

from .. import pointwise as real
from ..copy import convert
from ..pointwise import atan2, block_offsets, hypot, strided
from .elementary import negated, quotient


@triton.jit
def part(x, offsets, mask, COMPUTE: tl.constexpr, PAIR: tl.constexpr, SECOND: tl.constexpr):
    """The real or imaginary parts of an operand (0 for the imaginary parts of a real one)."""
    if SECOND and not PAIR:
        return tl.zeros(offsets.shape, COMPUTE)
    if SECOND:
        return convert(tl.load(x + offsets + 1, mask=mask), COMPUTE)
    return convert(tl.load(x + offsets, mask=mask), COMPUTE)


@triton.jit
def store(y, offsets, mask, re, im, PAIR: tl.constexpr):
    """Both parts of the result, or the first."""
    tl.store(y + offsets, convert(re, y.dtype.element_ty), mask=mask)
    if PAIR:
        tl.store(y + offsets + 1, convert(im, y.dtype.element_ty), mask=mask)


@triton.jit
def map1(
    a_ptr, y_ptr, n_elements, shape, a_strides, y_strides, OP: tl.constexpr, COMPUTE: tl.constexpr,
    A_PAIR: tl.constexpr, Y_PAIR: tl.constexpr, NDIM: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y = OP(a)."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    a = strided(index, shape, a_strides, NDIM)
    re, im = OP(
        part(a_ptr, a, mask, COMPUTE, A_PAIR, False), part(a_ptr, a, mask, COMPUTE, A_PAIR, True)
    )
    store(y_ptr, strided(index, shape, y_strides, NDIM), mask, re, im, Y_PAIR)


@triton.jit
def map2(
    a_ptr, b_ptr, y_ptr, n_elements, shape, a_strides, b_strides, y_strides, OP: tl.constexpr,
    COMPUTE: tl.constexpr, A_PAIR: tl.constexpr, B_PAIR: tl.constexpr, Y_PAIR: tl.constexpr,
    NDIM: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = OP(a, b)."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    a = strided(index, shape, a_strides, NDIM)
    b = strided(index, shape, b_strides, NDIM)
    re, im = OP(
        part(a_ptr, a, mask, COMPUTE, A_PAIR, False), part(a_ptr, a, mask, COMPUTE, A_PAIR, True),
        part(b_ptr, b, mask, COMPUTE, B_PAIR, False), part(b_ptr, b, mask, COMPUTE, B_PAIR, True),
    )  # fmt: skip
    store(y_ptr, strided(index, shape, y_strides, NDIM), mask, re, im, Y_PAIR)


@triton.jit
def map3(
    a_ptr, b_ptr, c_ptr, y_ptr, n_elements, shape, a_strides, b_strides, c_strides, y_strides,
    OP: tl.constexpr, COMPUTE: tl.constexpr, A_PAIR: tl.constexpr, B_PAIR: tl.constexpr,
    C_PAIR: tl.constexpr, Y_PAIR: tl.constexpr, NDIM: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y = OP(a, b, c)."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    a = strided(index, shape, a_strides, NDIM)
    b = strided(index, shape, b_strides, NDIM)
    c = strided(index, shape, c_strides, NDIM)
    re, im = OP(
        part(a_ptr, a, mask, COMPUTE, A_PAIR, False), part(a_ptr, a, mask, COMPUTE, A_PAIR, True),
        part(b_ptr, b, mask, COMPUTE, B_PAIR, False), part(b_ptr, b, mask, COMPUTE, B_PAIR, True),
        part(c_ptr, c, mask, COMPUTE, C_PAIR, False), part(c_ptr, c, mask, COMPUTE, C_PAIR, True),
    )  # fmt: skip
    store(y_ptr, strided(index, shape, y_strides, NDIM), mask, re, im, Y_PAIR)


@triton.jit
def map4(
    a_ptr, b_ptr, c_ptr, d_ptr, y_ptr, n_elements, shape, a_strides, b_strides, c_strides,
    d_strides, y_strides, OP: tl.constexpr, COMPUTE: tl.constexpr, A_PAIR: tl.constexpr,
    B_PAIR: tl.constexpr, C_PAIR: tl.constexpr, D_PAIR: tl.constexpr, Y_PAIR: tl.constexpr,
    NDIM: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = OP(a, b, c, d)."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    a = strided(index, shape, a_strides, NDIM)
    b = strided(index, shape, b_strides, NDIM)
    c = strided(index, shape, c_strides, NDIM)
    d = strided(index, shape, d_strides, NDIM)
    re, im = OP(
        part(a_ptr, a, mask, COMPUTE, A_PAIR, False), part(a_ptr, a, mask, COMPUTE, A_PAIR, True),
        part(b_ptr, b, mask, COMPUTE, B_PAIR, False), part(b_ptr, b, mask, COMPUTE, B_PAIR, True),
        part(c_ptr, c, mask, COMPUTE, C_PAIR, False), part(c_ptr, c, mask, COMPUTE, C_PAIR, True),
        part(d_ptr, d, mask, COMPUTE, D_PAIR, False), part(d_ptr, d, mask, COMPUTE, D_PAIR, True),
    )  # fmt: skip
    store(y_ptr, strided(index, shape, y_strides, NDIM), mask, re, im, Y_PAIR)


# ---- functions ----------------------------------------------------------------------------------


@triton.jit
def neg(a, b):
    return negated(a), negated(b)


@triton.jit
def conj_physical(a, b):
    return a, negated(b)


@triton.jit
def add(a, b, c, d):
    return a + c, b + d


@triton.jit
def sub(a, b, c, d):
    return a - c, b - d


@triton.jit
def mul(a, b, c, d):
    return a * c - b * d, a * d + b * c


@triton.jit
def div(a, b, c, d):
    """Smith's: scaled by the larger part of the divisor."""
    swap = tl.abs(c) < tl.abs(d)
    big = tl.where(swap, d, c)
    ratio = quotient(tl.where(swap, c, d), big)
    scale = big + tl.where(swap, c, d) * ratio
    re = quotient(tl.where(swap, a * ratio + b, a + b * ratio), scale)
    im = quotient(tl.where(swap, b * ratio - a, b - a * ratio), scale)
    zero = big == 0
    return tl.where(zero, quotient(a, c), re), tl.where(zero, quotient(b, c), im)


@triton.jit
def reciprocal(a, b):
    swap = tl.abs(a) < tl.abs(b)
    big = tl.where(swap, b, a)
    ratio = quotient(tl.where(swap, a, b), big)
    scale = big + tl.where(swap, a, b) * ratio
    re = quotient(tl.where(swap, ratio, 1.0), scale)
    im = quotient(tl.where(swap, -1.0, negated(ratio)), scale)
    zero = big == 0
    return tl.where(zero, quotient(1, a), re), tl.where(zero, float("nan"), im)


@triton.jit
def square(a, b):
    return mul(a, b, a, b)


@triton.jit
def abs(a, b):
    return hypot(a, b), b


@triton.jit
def angle(a, b):
    return atan2(b, a), b


@triton.jit
def sgn(a, b):
    r = hypot(a, b)
    safe = tl.where(r == 0, 1.0, r)
    return tl.where(r == 0, 0.0, quotient(a, safe)), tl.where(r == 0, 0.0, quotient(b, safe))


@triton.jit
def exp(a, b):
    r = real.exp(a)
    return r * tl.cos(b), tl.where(b == 0, b, r * tl.sin(b))


@triton.jit
def exp2(a, b):
    return exp(a * 0.69314718055994530942, b * 0.69314718055994530942)


@triton.jit
def expm1(a, b):
    s = tl.sin(b * 0.5)
    return real.expm1(a) * tl.cos(b) - 2 * s * s, real.exp(a) * tl.sin(b)


@triton.jit
def log(a, b):
    return tl.log(hypot(a, b)), atan2(b, a)


@triton.jit
def log2(a, b):
    re, im = log(a, b)
    return re * 1.44269504088896340736, im * 1.44269504088896340736


@triton.jit
def log10(a, b):
    re, im = log(a, b)
    return re * 0.43429448190325182765, im * 0.43429448190325182765


@triton.jit
def log1p(a, b):
    return log(a + 1, b)


@triton.jit
def sqrt(a, b):
    r = hypot(a, b)
    t = real.sqrt(0.5 * (r + tl.abs(a)))
    safe = tl.where(t == 0, 1.0, t)
    u = quotient(tl.abs(b) * 0.5, safe)
    re = tl.where(a >= 0, t, u)
    im = tl.where(a >= 0, u, t)
    return re, tl.where(real.signbit(b), negated(im), im)


@triton.jit
def rsqrt(a, b):
    re, im = sqrt(a, b)
    return reciprocal(re, im)


@triton.jit
def sin(a, b):
    return tl.sin(a) * real.cosh(b), tl.cos(a) * real.sinh(b)


@triton.jit
def cos(a, b):
    return tl.cos(a) * real.cosh(b), negated(tl.sin(a)) * real.sinh(b)


@triton.jit
def sinh(a, b):
    return real.sinh(a) * tl.cos(b), real.cosh(a) * tl.sin(b)


@triton.jit
def cosh(a, b):
    return real.cosh(a) * tl.cos(b), real.sinh(a) * tl.sin(b)


@triton.jit
def tanh(a, b):
    x = tl.minimum(tl.maximum(a, -20.0), 20.0)
    sr, si = sinh(x, b)
    cr, ci = cosh(x, b)
    return div(sr, si, cr, ci)


@triton.jit
def tan(a, b):
    re, im = tanh(negated(b), a)
    return im, negated(re)


@triton.jit
def sigmoid(a, b):
    re, im = exp(negated(a), negated(b))
    return reciprocal(1 + re, im)


@triton.jit
def pow(a, b, c, d):
    lr, li = log(a, b)
    re, im = exp(lr * c - li * d, lr * d + li * c)
    zero = (a == 0) & (b == 0)  # as C's exp of what -inf gives
    re = tl.where(zero, tl.where(c > 0, 0.0, tl.where(c < 0, float("inf"), float("nan"))), re)
    im = tl.where(zero, tl.where(c > 0, 0.0, float("nan")), im)
    return re, im


@triton.jit
def eq(a, b, c, d):
    return (a == c) & (b == d), b


@triton.jit
def ne(a, b, c, d):
    return (a != c) | (b != d), b


@triton.jit
def isnan(a, b):
    return (a != a) | (b != b), b


@triton.jit
def isinf(a, b):
    return (tl.abs(a) == float("inf")) | (tl.abs(b) == float("inf")), b


@triton.jit
def isfinite(a, b):
    return (tl.abs(a) < float("inf")) & (tl.abs(b) < float("inf")), b


@triton.jit
def logical_not(a, b):
    return (a == 0) & (b == 0), b


@triton.jit
def logical_and(a, b, c, d):
    return ((a != 0) | (b != 0)) & ((c != 0) | (d != 0)), b


@triton.jit
def logical_or(a, b, c, d):
    return (a != 0) | (b != 0) | (c != 0) | (d != 0), b


@triton.jit
def logical_xor(a, b, c, d):
    return ((a != 0) | (b != 0)) != ((c != 0) | (d != 0)), b


@triton.jit
def where(a, b, c, d, e, f):
    return tl.where(a != 0, c, e), tl.where(a != 0, d, f)


# ---- inverse functions (Kahan's, who says where they jump by signs of zeros) ---------------------


@triton.jit
def roots_beside(a, b):
    """The roots of 1 - z and 1 + z."""
    low, low_im = sqrt(1 - a, negated(b))
    high, high_im = sqrt(1 + a, b)
    return low, low_im, high, high_im


@triton.jit
def asin(a, b):
    p, q, r, s = roots_beside(a, b)
    return atan2(a, p * r - q * s), real.asinh(p * s - q * r)


@triton.jit
def acos(a, b):
    p, q, r, s = roots_beside(a, b)
    return 2 * atan2(p, r), real.asinh(r * q - s * p)


@triton.jit
def asinh(a, b):
    re, im = asin(negated(b), a)
    return im, negated(re)


@triton.jit
def acosh(a, b):
    p, q = sqrt(a - 1, b)
    r, s = sqrt(a + 1, b)
    return real.asinh(p * r + q * s), 2 * atan2(q, r)


@triton.jit
def atanh(a, b):
    """log((1 + z) / (1 - z)) / 2, where the magnitude's logarithm is near 0."""
    x = tl.abs(a)
    re = 0.25 * real.log1p(quotient(4 * x, (1 - x) * (1 - x) + b * b))
    large = (x > 1e15) | (tl.abs(b) > 1e15)
    angle = 0.5 * atan2(2 * b, (1 - x) * (1 + x) - b * b)
    half = real.copysign(tl.full(a.shape, 1.57079632679489661923, a.dtype), b)
    distance = hypot(a, b)
    re = tl.where(large, quotient(quotient(x, distance), distance), re)
    re = real.copysign(tl.where(distance == float("inf"), 0.0, re), a)
    return re, tl.where(large, half, angle)


@triton.jit
def atan(a, b):
    re, im = atanh(negated(b), a)
    return im, negated(re)


# ---- sinc, and of several operands ---------------------------------------------------------------


@triton.jit
def sinc(a, b):
    zero = (a == 0) & (b == 0)
    x = tl.where(zero, 1.0, a * 3.14159265358979323846)
    y = b * 3.14159265358979323846
    re, im = sin(x, y)
    re, im = div(re, im, x, y)
    return tl.where(zero, 1.0, re), tl.where(zero, 0.0, im)


@triton.jit
def lerp(a, b, c, d, u, v):
    p, q = mul(u, v, c - a, d - b)
    r, s = mul(1 - u, negated(v), c - a, d - b)
    near = hypot(u, v) < 0.5
    return tl.where(near, a + p, c - r), tl.where(near, b + q, d - s)


@triton.jit
def addcmul(a, b, c, d, e, f, u, v):
    p, q = mul(u, v, c, d)
    p, q = mul(p, q, e, f)
    return a + p, b + q


@triton.jit
def addcdiv(a, b, c, d, e, f, u, v):
    p, q = mul(u, v, c, d)
    p, q = div(p, q, e, f)
    return a + p, b + q


@triton.jit
def logaddexp(a, b, c, d):
    """The one with the greater real part, and log(1 + exp) of how far the other is from it."""
    swap = a < c
    low, low_im = tl.where(swap, a, c), tl.where(swap, b, d)
    high, high_im = tl.where(swap, c, a), tl.where(swap, d, b)
    nothing = high == float("-inf")  # both are log(0)
    re, im = exp(tl.where(nothing, 0.0, low - high), tl.where(nothing, 0.0, low_im - high_im))
    re, im = log(1 + re, im)
    return tl.where(nothing, high, high + re), tl.where(nothing, high_im, high_im + im)
