"""Random numbers: Philox 4x32-10, four numbers a counter, one counter for four elements.

Element e of a call is lane e % 4 of counter offset / 4 + e // 4: whatever the block size.
"""

import triton
import triton.language as tl

from .copy import convert
from .pointwise import strided, tan
from .scalar.elementary import negated
from .softmax import number


@triton.jit
def to_unit(bits):
    """Uniform in [0, 1), 24 bits."""
    return (bits.to(tl.uint32, bitcast=True) >> 8).to(tl.float32) * 5.9604644775390625e-08


@triton.jit
def to_wide_unit(high, low):
    """Uniform in [0, 1), 53 bits, float64."""
    bits = high.to(tl.uint32, bitcast=True).to(tl.uint64) << 32
    bits = (bits | low.to(tl.uint32, bitcast=True).to(tl.uint64)) >> 11
    return bits.to(tl.float64) * 1.1102230246251565e-16


@triton.jit
def uniform(u, v, p, q):
    return u * (q - p) + p


# Narrow types get as many bits as they have: rounding to them would make 1 of the numbers below it.
@triton.jit
def uniform_float16(u, v, p, q):
    return tl.floor(u * 2048) * (1 / 2048) * (q - p) + p


@triton.jit
def uniform_bfloat16(u, v, p, q):
    return tl.floor(u * 256) * (1 / 256) * (q - p) + p


@triton.jit
def normal(u, v, p, q):
    """Box and Muller's: of the two numbers, lanes take the cosine or the sine of v's."""
    radius = tl.sqrt(-2 * tl.log(1 - u))
    return p + q * radius * tl.cos(6.28318530717958647693 * v)


@triton.jit
def exponential(u, v, p, q):
    least = 5.5511151231257827e-17 if u.dtype == tl.float64 else 2.98023223876953125e-08
    return tl.maximum(negated(tl.log(1 - u)), least) / p  # never 0


@triton.jit
def cauchy(u, v, p, q):
    return p + q * tan(3.14159265358979323846 * (u - 0.5))


@triton.jit
def log_normal(u, v, p, q):
    return tl.exp(normal(u, v, p, q))


@triton.jit
def geometric(u, v, p, q):
    return tl.maximum(tl.ceil(tl.log(1 - u) / tl.log(1 - p)), 1.0)


@triton.jit
def store_lane(y, elements, lane, value, n_elements):
    at = elements + lane
    tl.store(y + at, convert(value, y.dtype.element_ty), mask=at < n_elements)


@triton.jit(do_not_specialize=["seed", "offset", "p", "q"])
def draw(
    y_ptr, n_elements, seed, offset, p, q, OP: tl.constexpr, COMPUTE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """y[e] = OP(uniform numbers of e, p, q).  One program draws 4 * BLOCK elements.

    float64 takes the low halves of its numbers from a second key.
    """
    group = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    p, q = number(p, COMPUTE), number(q, COMPUTE)
    a, b, c, d = tl.randint4x(seed.to(tl.uint64), group + offset // 4)
    if tl.float64 == COMPUTE:
        e, f, g, h = tl.randint4x(seed.to(tl.uint64) ^ 0x5851F42D4C957F2D, group + offset // 4)
        u0, u1, u2, u3 = (
            to_wide_unit(a, e), to_wide_unit(b, f), to_wide_unit(c, g), to_wide_unit(d, h),
        )  # fmt: skip
    else:
        u0, u1, u2, u3 = to_unit(a), to_unit(b), to_unit(c), to_unit(d)
    at = group * 4
    store_lane(y_ptr, at, 0, OP(u0, u1, p, q), n_elements)
    store_lane(
        y_ptr, at, 1, OP(u0, u1 + 0.25, p, q) if OP is normal else OP(u1, u0, p, q), n_elements
    )
    store_lane(y_ptr, at, 2, OP(u2, u3, p, q), n_elements)
    store_lane(
        y_ptr, at, 3, OP(u2, u3 + 0.25, p, q) if OP is normal else OP(u3, u2, p, q), n_elements
    )


@triton.jit(do_not_specialize=["seed", "offset", "p"])
def dropout(
    x_ptr, y_ptr, n_elements, shape, x_strides, y_strides, seed, offset, p, NDIM: tl.constexpr,
    COMPUTE: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = x / (1 - p) where the element's number is p or more, else 0 x.

    Run again with the same numbers it drops the same elements, whatever the strides: no mask is
    stored.  One program takes 4 * BLOCK elements.
    """
    group = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed.to(tl.uint64), group + offset // 4)
    bits = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (4 * BLOCK,))
    if WIDE:
        index = tl.program_id(0).to(tl.int64) * (4 * BLOCK) + tl.arange(0, 4 * BLOCK)
    else:
        index = tl.program_id(0) * (4 * BLOCK) + tl.arange(0, 4 * BLOCK)
    mask = index < n_elements
    p = number(p, COMPUTE)
    x = tl.load(x_ptr + strided(index, shape, x_strides, NDIM), mask=mask)
    y = convert(x, COMPUTE) * tl.where(to_unit(bits).to(COMPUTE) >= p, 1 / (1 - p), 0.0)
    at = strided(index, shape, y_strides, NDIM)
    tl.store(y_ptr + at, convert(y, y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def scaled_integer(bits, low, span):
    """low + a number below span: the high half of a 32 x 32 bit product."""
    wide = bits.to(tl.uint32, bitcast=True).to(tl.uint64) * span.to(tl.uint64)
    return low + (wide >> 32).to(tl.int64)


@triton.jit
def scaled_wide(high, low_half, low, span):
    """low + a number below span, of 64 bits."""
    bits = high.to(tl.uint32, bitcast=True).to(tl.uint64) << 32
    bits = bits | low_half.to(tl.uint32, bitcast=True).to(tl.uint64)
    return low + tl.umulhi(bits, tl.zeros_like(bits) + span.to(tl.uint64)).to(tl.int64)


@triton.jit(do_not_specialize=["seed", "offset", "low", "span"])
def integers(y_ptr, n_elements, seed, offset, low, span, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """y[e] = low + a random number below span (WIDE: 2^32 or more, of which a second key gives the
    low halves)."""
    group = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed.to(tl.uint64), group + offset // 4)
    at = group * 4
    if WIDE:
        e, f, g, h = tl.randint4x(seed.to(tl.uint64) ^ 0x5851F42D4C957F2D, group + offset // 4)
        store_lane(y_ptr, at, 0, scaled_wide(a, e, low, span), n_elements)
        store_lane(y_ptr, at, 1, scaled_wide(b, f, low, span), n_elements)
        store_lane(y_ptr, at, 2, scaled_wide(c, g, low, span), n_elements)
        store_lane(y_ptr, at, 3, scaled_wide(d, h, low, span), n_elements)
    else:
        store_lane(y_ptr, at, 0, scaled_integer(a, low, span), n_elements)
        store_lane(y_ptr, at, 1, scaled_integer(b, low, span), n_elements)
        store_lane(y_ptr, at, 2, scaled_integer(c, low, span), n_elements)
        store_lane(y_ptr, at, 3, scaled_integer(d, low, span), n_elements)
