"""Pointwise kernels: templates that take a scalar function, and functions of two and more numbers.

Those of one number are in elementary.py, special.py, bessel.py and activations.py, further ones of
two in gamma.py and polynomials.py; all are found here too.

A template loads each operand (an array, or a number given as the bits of a float64 or an int64),
converts it to COMPUTE, calls OP, converts to the output's type and stores.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from .copy import convert
from .scalar.activations import *  # noqa: F403
from .scalar.bessel import *  # noqa: F403
from .scalar.elementary import *  # noqa: F403
from .scalar.elementary import exp, log1p, negated, quotient, round, signbit, trunc
from .scalar.gamma import *  # noqa: F403
from .scalar.polynomials import *  # noqa: F403
from .scalar.special import *  # noqa: F403

# ---- templates -----------------------------------------------------------------------------------


@triton.jit
def operand(x, offsets, mask, COMPUTE: tl.constexpr, NUMBER: tl.constexpr):
    """The elements at offsets of an array, or the one number, as COMPUTE."""
    if NUMBER:
        bits = tl.zeros(offsets.shape, tl.int64) + x.to(tl.int64)
        if COMPUTE.is_floating():
            return bits.to(tl.float64, bitcast=True).to(COMPUTE)
        else:
            return convert(bits, COMPUTE)
    elif mask is None:
        return convert(tl.load(x + offsets), COMPUTE)
    else:
        # 0 where nothing is: an operator may loop until its last element is done
        return convert(tl.load(x + offsets, mask=mask, other=0), COMPUTE)


@triton.jit
def block_offsets(n_elements, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """This program's element numbers, and which of them exist."""
    pid = tl.program_id(0)
    if WIDE:
        offsets = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    else:
        offsets = pid * BLOCK + tl.arange(0, BLOCK)
    return offsets, offsets < n_elements


@triton.jit
def strided(index, shape, strides, NDIM: tl.constexpr):
    """The offsets of row-major element numbers in an array with strides."""
    rest = index
    offsets = tl.zeros_like(index)
    for i in tl.static_range(NDIM - 1):
        offsets += (rest % shape[NDIM - 1 - i]) * strides[NDIM - 1 - i]
        rest = rest // shape[NDIM - 1 - i]
    return offsets + rest * strides[0]


@triton.jit
def map1_flat(
    a_ptr, y_ptr, n_elements, OP: tl.constexpr, COMPUTE: tl.constexpr, A_NUMBER: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = OP(a), all dense in one order."""
    offsets, mask = block_offsets(n_elements, WIDE, BLOCK)
    a = operand(a_ptr, offsets, mask, COMPUTE, A_NUMBER)
    tl.store(y_ptr + offsets, convert(OP(a), y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def map1_strided(
    a_ptr, y_ptr, n_elements, shape, a_strides, y_strides, OP: tl.constexpr, COMPUTE: tl.constexpr,
    A_NUMBER: tl.constexpr, NDIM: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = OP(a), any strides."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    a = operand(a_ptr, strided(index, shape, a_strides, NDIM), mask, COMPUTE, A_NUMBER)
    y_offsets = strided(index, shape, y_strides, NDIM)
    tl.store(y_ptr + y_offsets, convert(OP(a), y_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["a_ptr", "b_ptr"])
def map2_flat_number(
    a_ptr, b_ptr, y_ptr, n_elements, OP: tl.constexpr, COMPUTE: tl.constexpr,
    A_NUMBER: tl.constexpr, B_NUMBER: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = OP(a, b), one of them a number."""
    offsets, mask = block_offsets(n_elements, WIDE, BLOCK)
    a = operand(a_ptr, offsets, mask, COMPUTE, A_NUMBER)
    b = operand(b_ptr, offsets, mask, COMPUTE, B_NUMBER)
    tl.store(y_ptr + offsets, convert(OP(a, b), y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def map2_flat(
    a_ptr, b_ptr, y_ptr, n_elements, OP: tl.constexpr, COMPUTE: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = OP(a, b), all dense in one order."""
    offsets, mask = block_offsets(n_elements, WIDE, BLOCK)
    a = operand(a_ptr, offsets, mask, COMPUTE, False)
    b = operand(b_ptr, offsets, mask, COMPUTE, False)
    tl.store(y_ptr + offsets, convert(OP(a, b), y_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["a_ptr", "b_ptr"])
def map2_strided(
    a_ptr, b_ptr, y_ptr, n_elements, shape, a_strides, b_strides, y_strides, OP: tl.constexpr,
    COMPUTE: tl.constexpr, A_NUMBER: tl.constexpr, B_NUMBER: tl.constexpr, NDIM: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = OP(a, b), any strides."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    a = operand(a_ptr, strided(index, shape, a_strides, NDIM), mask, COMPUTE, A_NUMBER)
    b = operand(b_ptr, strided(index, shape, b_strides, NDIM), mask, COMPUTE, B_NUMBER)
    y_offsets = strided(index, shape, y_strides, NDIM)
    tl.store(y_ptr + y_offsets, convert(OP(a, b), y_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["a_ptr", "b_ptr", "c_ptr"])
def map3_strided(
    a_ptr, b_ptr, c_ptr, y_ptr, n_elements, shape, a_strides, b_strides, c_strides, y_strides,
    OP: tl.constexpr, COMPUTE: tl.constexpr, A_NUMBER: tl.constexpr, B_NUMBER: tl.constexpr,
    C_NUMBER: tl.constexpr, NDIM: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = OP(a, b, c), any strides."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    a = operand(a_ptr, strided(index, shape, a_strides, NDIM), mask, COMPUTE, A_NUMBER)
    b = operand(b_ptr, strided(index, shape, b_strides, NDIM), mask, COMPUTE, B_NUMBER)
    c = operand(c_ptr, strided(index, shape, c_strides, NDIM), mask, COMPUTE, C_NUMBER)
    y_offsets = strided(index, shape, y_strides, NDIM)
    tl.store(y_ptr + y_offsets, convert(OP(a, b, c), y_ptr.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["a_ptr", "b_ptr", "c_ptr", "d_ptr"])
def map4_strided(
    a_ptr, b_ptr, c_ptr, d_ptr, y_ptr, n_elements, shape, a_strides, b_strides, c_strides,
    d_strides, y_strides, OP: tl.constexpr, COMPUTE: tl.constexpr, A_NUMBER: tl.constexpr,
    B_NUMBER: tl.constexpr, C_NUMBER: tl.constexpr, D_NUMBER: tl.constexpr, NDIM: tl.constexpr,
    WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y = OP(a, b, c, d), any strides."""
    index, mask = block_offsets(n_elements, WIDE, BLOCK)
    a = operand(a_ptr, strided(index, shape, a_strides, NDIM), mask, COMPUTE, A_NUMBER)
    b = operand(b_ptr, strided(index, shape, b_strides, NDIM), mask, COMPUTE, B_NUMBER)
    c = operand(c_ptr, strided(index, shape, c_strides, NDIM), mask, COMPUTE, C_NUMBER)
    d = operand(d_ptr, strided(index, shape, d_strides, NDIM), mask, COMPUTE, D_NUMBER)
    y_offsets = strided(index, shape, y_strides, NDIM)
    tl.store(y_ptr + y_offsets, convert(OP(a, b, c, d), y_ptr.dtype.element_ty), mask=mask)


# ---- arithmetic ----------------------------------------------------------------------------------


@triton.jit
def add(a, b):
    if a.dtype == tl.int1:
        return a | b
    return a + b


@triton.jit
def sub(a, b):
    return a - b


@triton.jit
def mul(a, b):
    if a.dtype == tl.int1:
        return a & b
    return a * b


@triton.jit
def div(a, b):
    return quotient(a, b)


@triton.jit
def trunc_divide(a, b):
    if a.dtype.is_floating():
        return trunc(div(a, b))
    else:
        return a // b


@triton.jit
def fmod(a, b):
    """What a division that rounds towards 0 leaves: exactly, as each step subtracts a multiple of b
    without rounding."""
    if a.dtype.is_floating():
        rest = tl.abs(a).to(tl.float64)
        by = tl.abs(b).to(tl.float64)
        for _ in tl.static_range(3):
            # Rounded up, the quotient is one too large, and the rest negative.
            rest = tl.fma(negated(tl.floor(quotient(rest, by))), by, rest)
            rest = tl.where(rest < 0, rest + by, rest)
        rest = tl.where(rest >= by, rest - by, rest)
        out = tl.where(tl.abs(b) == float("inf"), tl.abs(a), rest.to(a.dtype))
        out = tl.where((tl.abs(a) == float("inf")) | (b != b), float("nan"), out)
        return tl.where(signbit(a), negated(out), out).to(a.dtype)
    else:
        return a - b * (a // b)


@triton.jit
def remainder(a, b):
    r = fmod(a, b)
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


@triton.jit
def floor_divide(a, b):
    if a.dtype.is_floating():
        r = fmod(a, b)
        q = div(a - r, b)
        q = tl.where((r != 0) & ((r < 0) != (b < 0)), q - 1, q)
        near = tl.floor(q)
        zero = copysign(tl.zeros_like(q), div(a, b))
        whole = tl.where(q == 0, zero, tl.where(q - near > 0.5, near + 1, near))
        return tl.where(b == 0, div(a, b), whole)
    else:
        q = a // b
        return tl.where((a - q * b != 0) & ((a < 0) != (b < 0)), q - 1, q)


@triton.jit
def _integer_pow(a, b):
    out = tl.full(a.shape, 1, a.dtype)
    base = a
    n = b
    if b.dtype.is_int_signed():
        n = tl.where(b < 0, 0, b).to(b.dtype)
    for _ in range(b.dtype.primitive_bitwidth):
        out = tl.where((n & 1) != 0, out * base, out)
        base = base * base
        n = n >> 1
    if b.dtype.is_int_signed():
        # 1 / a^-b: what an integer division leaves.
        odd_power = (b & 1) != 0
        inverse = tl.where((a == 1) | ((a == -1) & ~odd_power), 1, 0)
        inverse = tl.where((a == -1) & odd_power, -1, inverse).to(a.dtype)
        out = tl.where(b < 0, inverse, out)
    return out


@triton.jit
def pow(a, b):
    if a.dtype.is_floating():
        if a.dtype == tl.float64:
            return libdevice.pow(a, b)
        x = tl.abs(a).to(tl.float64)
        y = b.to(tl.float64)
        magnitude = tl.exp2(y * tl.log2(x))
        whole = tl.floor(b) == b
        odd_power = whole & (tl.abs(b - 2 * tl.floor(b * 0.5)) == 1)
        finite = (tl.abs(b) != float("inf")) & (tl.abs(a) != float("inf"))
        out = tl.where(signbit(a) & odd_power, negated(magnitude), magnitude)
        out = tl.where((a < 0) & (whole == 0) & finite, float("nan"), out)
        out = tl.where((tl.abs(a) == 1) & (tl.abs(b) == float("inf")), 1.0, out)
        out = tl.where((b == 0) | (a == 1), 1.0, out)
        return out.to(a.dtype)
    else:
        return _integer_pow(a, b)


@triton.jit
def hypot(a, b):
    return libdevice.hypot(a, b)


@triton.jit
def maximum(a, b):
    out = tl.where(a > b, a, b)
    return tl.where(a != a, a, out)


@triton.jit
def minimum(a, b):
    out = tl.where(a < b, a, b)
    return tl.where(a != a, a, out)


@triton.jit
def fmax(a, b):
    return tl.where((a > b) | (b != b), a, b)


@triton.jit
def fmin(a, b):
    return tl.where((a < b) | (b != b), a, b)


@triton.jit
def copysign(a, b):
    return tl.where(signbit(b), negated(tl.abs(a)), tl.abs(a))


@triton.jit
def nextafter(a, b):
    """The next number after a towards b, by stepping its bits."""
    if a.dtype == tl.float64:
        bits = a.to(tl.int64, bitcast=True)
        up = ((b > a) == (a > 0)) | (a == 0)
        stepped = tl.where(up, bits + 1, bits - 1)
        tiny = tl.where(b > 0, 1, -9223372036854775807)
        stepped = tl.where(a == 0, tiny.to(tl.int64), stepped)
        out = stepped.to(tl.float64, bitcast=True)
    else:
        bits = a.to(tl.int32, bitcast=True)
        up = ((b > a) == (a > 0)) | (a == 0)
        stepped = tl.where(up, bits + 1, bits - 1)
        tiny = tl.where(b > 0, 1, -2147483647)
        stepped = tl.where(a == 0, tiny.to(tl.int32), stepped)
        out = stepped.to(tl.float32, bitcast=True)
    return tl.where((a != a) | (b != b), a + b, tl.where(a == b, b, out))


@triton.jit
def _next_of_16_bits(a, b, KIND: tl.constexpr):
    """nextafter among the numbers of a 16-bit type, which a and b are."""
    at = a.to(KIND).to(tl.int16, bitcast=True)
    up = ((b > a) == (a > 0)) | (a == 0)
    stepped = tl.where(up, at + 1, at - 1)
    stepped = tl.where(a == 0, tl.where(b > 0, 1, -32767), stepped).to(tl.int16)
    out = stepped.to(KIND, bitcast=True).to(tl.float32)
    return tl.where((a != a) | (b != b), a + b, tl.where(a == b, b, out))


@triton.jit
def nextafter_half(a, b):
    return _next_of_16_bits(a, b, tl.float16)


@triton.jit
def nextafter_bfloat16(a, b):
    return _next_of_16_bits(a, b, tl.bfloat16)


@triton.jit
def logaddexp(a, b):
    top = maximum(a, b)
    low = minimum(a, b)
    return tl.where(tl.abs(top) == float("inf"), top, top + log1p(exp(low - top)))


@triton.jit
def logaddexp2(a, b):
    top = maximum(a, b)
    low = minimum(a, b)
    out = top + log1p(tl.exp2(low - top)) * 1.44269504088896340736
    return tl.where(tl.abs(top) == float("inf"), top, out)


@triton.jit
def heaviside(a, b):
    return tl.where(a == 0, b, (a > 0).to(b.dtype))


@triton.jit
def gcd(a, b):
    x = tl.abs(a)
    y = tl.abs(b)
    for _ in range(93):  # as many steps as Euclid's algorithm takes for 64 bits
        safe = tl.where(y == 0, 1, y)
        r = tl.where(y == 0, y, x % safe)
        x = tl.where(y == 0, x, y)
        y = r
    return x


@triton.jit
def lcm(a, b):
    g = gcd(a, b)
    return tl.where(g == 0, 0, tl.abs(a) // tl.where(g == 0, 1, g) * tl.abs(b)).to(a.dtype)


@triton.jit
def xlogy(a, b):
    return tl.where((a == 0) & (b == b), 0.0, a * tl.log(b)).to(a.dtype)


@triton.jit
def xlog1py(a, b):
    return tl.where((a == 0) & (b == b), 0.0, a * log1p(b)).to(a.dtype)


@triton.jit
def ldexp(a, b):
    return a * tl.exp2(b)


@triton.jit
def add_scaled(a, b, alpha):
    return a + alpha * b


@triton.jit
def sub_scaled(a, b, alpha):
    return a - alpha * b


# ---- comparisons and bits ------------------------------------------------------------------------


@triton.jit
def eq(a, b):
    return a == b


@triton.jit
def ne(a, b):
    return a != b


@triton.jit
def lt(a, b):
    return a < b


@triton.jit
def le(a, b):
    return a <= b


@triton.jit
def gt(a, b):
    return a > b


@triton.jit
def ge(a, b):
    return a >= b


@triton.jit
def logical_and(a, b):
    return (a != 0) & (b != 0)


@triton.jit
def logical_or(a, b):
    return (a != 0) | (b != 0)


@triton.jit
def logical_xor(a, b):
    return (a != 0) != (b != 0)


@triton.jit
def bitwise_and(a, b):
    return a & b


@triton.jit
def bitwise_or(a, b):
    return a | b


@triton.jit
def bitwise_xor(a, b):
    return a ^ b


@triton.jit
def bitwise_left_shift(a, b):
    return a << b


@triton.jit
def bitwise_right_shift(a, b):
    return a >> b


# ---- three and four ------------------------------------------------------------------------------


@triton.jit
def where(condition, a, b):
    return tl.where(condition != 0, a, b)


@triton.jit
def masked_fill(x, mask, value):
    return tl.where(mask != 0, value, x)


@triton.jit
def fused(a, b, c):
    """a b + c, of floats rounded once; b may be a number."""
    if a.dtype.is_floating():
        return tl.fma(a, (b * tl.full(a.shape, 1.0, a.dtype)).to(a.dtype), c)
    return a * b + c


@triton.jit
def lerp(a, b, weight):
    near = tl.abs(weight) < 0.5
    span = tl.where(near, b - a, negated(b - a))
    factor = tl.where(near, weight, 1 - weight)
    return fused(span, factor, tl.where(near, a, b))


@triton.jit
def clamp(x, low, high):
    y = tl.where(x < low, low, x)
    y = tl.where(y > high, high, y)
    y = tl.where(low != low, low, tl.where(high != high, high, y))
    return tl.where(x != x, x, y)


@triton.jit
def clamp_min(x, low):
    return maximum(x, low)


@triton.jit
def clamp_max(x, high):
    return minimum(x, high)


@triton.jit
def fake_quantize(x, scale, low, high):
    q = round(x * quotient(1.0, scale))
    q = tl.where((q >= low) | (low != low), q, low)
    return tl.where(q > high, high, q) * scale + 0.0  # no -0


@triton.jit
def addcmul(x, a, b, value):
    return fused(value * a, b, x)


@triton.jit
def addcdiv(x, a, b, value):
    return fused(quotient(a, b), value, x)
