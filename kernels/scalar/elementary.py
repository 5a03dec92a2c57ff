"""Scalar functions of one real number: sign, exponentials, trigonometry, rounding, predicates.

Constants are written into expressions with x, whose type they take; where `tl.where` would choose
between two constants, `like` gives them that type (they would be float32).  A constant that is
assigned to a name becomes float32, too: Horner's scheme begins with a product, `x * A + B`.
Functions that CUDA's libdevice has are its: rounded twice or worse where they would be composed.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def like(x, value):
    """A constant with x's shape and type."""
    return tl.full(x.shape, value, x.dtype)


@triton.jit
def negated(x):
    """-x, which Triton 3.6 compiles to 0 - x: that loses the sign of a zero."""
    return x * -1.0 if x.dtype.is_floating() else 0 - x


@triton.jit
def quotient(x, y):
    """x / y, rounded once: of float32, Triton's `/` is near it, and 0 for a y above 2^126."""
    return tl.div_rn(x, y) if y.dtype == tl.float32 else x / y


@triton.jit
def odd(x, y):
    """y with the sign of x, x itself where that is a zero or NaN: y is an odd function of x."""
    return tl.where(x < 0, negated(y), tl.where(x > 0, y, x))


@triton.jit
def polynomial(x, TABLE: tl.constexpr):
    """Horner's scheme; TABLE has its length, then ascending powers."""
    N: tl.constexpr = TABLE[0]
    y = like(x, TABLE[N])
    for i in tl.static_range(1, N):
        y = y * x + TABLE[N - i]
    return y


# ---- sign and magnitude --------------------------------------------------------------------------


@triton.jit
def neg(x):
    return negated(x)


@triton.jit
def abs(x):
    return tl.abs(x)


@triton.jit
def sign(x):
    """-1, 0 or 1; 0 for NaN."""
    if x.dtype == tl.int1:
        return x
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def sgn(x):
    return sign(x)


@triton.jit
def square(x):
    return x * x


@triton.jit
def sqrt(x):
    return tl.sqrt_rn(x) if x.dtype == tl.float32 else tl.sqrt(x)


@triton.jit
def reciprocal(x):
    return quotient(1.0, x)


@triton.jit
def rsqrt(x):
    return reciprocal(sqrt(x))


@triton.jit
def signbit(x):
    if x.dtype == tl.float32:
        return x.to(tl.int32, bitcast=True) < 0
    elif x.dtype == tl.float64:
        return x.to(tl.int64, bitcast=True) < 0
    return x < 0


# ---- exponentials and logarithms -----------------------------------------------------------------


@triton.jit
def exp(x):
    """2^n e^r, r = x - n log(2): the hardware's e^x loses what rounding x * log2(e) loses."""
    if x.dtype == tl.float32:
        n = tl.floor(x * 1.44269504088896340736 + 0.5)
        n = tl.minimum(tl.maximum(n, -152.0), 130.0)
        r = (x - n * 0.693359375) + n * 2.12194440054690583e-4
        half = tl.floor(n * 0.5)  # 2^n itself may pass the range
        return tl.exp2(r * 1.44269504088896340736) * tl.exp2(half) * tl.exp2(n - half)
    return tl.exp(x)


@triton.jit
def exp2(x):
    return tl.exp2(x)


@triton.jit
def expm1(x):
    return libdevice.expm1(x)


@triton.jit
def log(x):
    return tl.log(x)


@triton.jit
def log2(x):
    return tl.log2(x)


@triton.jit
def log10(x):
    return libdevice.log10(x)


@triton.jit
def log1p(x):
    return libdevice.log1p(x)


# ---- trigonometry --------------------------------------------------------------------------------


@triton.jit
def sin(x):
    return tl.sin(x)


@triton.jit
def cos(x):
    return tl.cos(x)


@triton.jit
def tan(x):
    return libdevice.tan(x)


@triton.jit
def atan(x):
    return libdevice.atan(x)


@triton.jit
def atan2(y, x):
    return libdevice.atan2(y, x)


@triton.jit
def asin(x):
    return libdevice.asin(x)


@triton.jit
def acos(x):
    return libdevice.acos(x)


@triton.jit
def sinh(x):
    return libdevice.sinh(x)


@triton.jit
def cosh(x):
    return libdevice.cosh(x)


@triton.jit
def tanh(x):
    return libdevice.tanh(x)


@triton.jit
def asinh(x):
    return libdevice.asinh(x)


@triton.jit
def acosh(x):
    return libdevice.acosh(x)


@triton.jit
def atanh(x):
    return libdevice.atanh(x)


@triton.jit
def sinc(x):
    y = x * 3.14159265358979323846
    return tl.where(x == 0, 1.0, quotient(tl.sin(y), tl.where(x == 0, 1.0, y)))


@triton.jit
def deg2rad(x):
    return x * 0.01745329251994329577


@triton.jit
def rad2deg(x):
    return x * 57.29577951308232087680


# ---- rounding ------------------------------------------------------------------------------------


@triton.jit
def floor(x):
    return tl.floor(x) if x.dtype.is_floating() else x


@triton.jit
def ceil(x):
    return tl.ceil(x) if x.dtype.is_floating() else x


@triton.jit
def trunc(x):
    if x.dtype.is_floating():
        return odd(x, tl.floor(tl.abs(x)))
    return x


@triton.jit
def frac(x):
    return x - trunc(x)


@triton.jit
def round(x):
    """Half to even."""
    if x.dtype.is_floating():
        a = tl.abs(x)
        y = tl.floor(a)
        part = a - y
        up = (part > 0.5) | ((part == 0.5) & (y - 2 * tl.floor(y * 0.5) == 1))
        return odd(x, tl.where(up, y + 1, y))
    return x


@triton.jit
def round_decimals(x, scale, inverse):
    """round(x * 10^d) / 10^d: scale is 10^d for d > 0, else inverse is 10^-d; the other is 1."""
    y = round(quotient(x * scale, inverse))
    return quotient(y, scale) * inverse


# ---- predicates ----------------------------------------------------------------------------------


@triton.jit
def isnan(x):
    return x != x


@triton.jit
def isinf(x):
    if x.dtype.is_floating():
        return tl.abs(x) == float("inf")
    return x != x


@triton.jit
def isfinite(x):
    if x.dtype.is_floating():
        return tl.abs(x) < float("inf")
    return x == x


@triton.jit
def isposinf(x):
    if x.dtype.is_floating():
        return x == float("inf")
    return x != x


@triton.jit
def isneginf(x):
    if x.dtype.is_floating():
        return x == -float("inf")
    return x != x


@triton.jit
def logical_not(x):
    return x == 0


@triton.jit
def bitwise_not(x):
    if x.dtype == tl.int1:
        return x == 0
    return ~x


@triton.jit
def real(x):
    return x


@triton.jit
def imag(x):
    return tl.zeros_like(x)


@triton.jit
def conj_physical(x):
    return x


@triton.jit
def angle(x):
    if not x.dtype.is_floating():
        x = x.to(tl.float32)
    return tl.where(x != x, x, tl.where(x < 0, like(x, 3.14159265358979323846), 0.0))


# ---- mantissa and exponent -----------------------------------------------------------------------


@triton.jit
def bits_and_exponent(x):
    """The bits of x, scaled into the normal numbers, and its exponent (0 for 0, inf and NaN)."""
    if x.dtype == tl.float32:
        small = tl.abs(x) < 1.1754943508222875e-38
        bits = tl.where(small, x * 33554432.0, x).to(tl.int32, bitcast=True)
        field = (bits >> 23) & 255
        exponent = field - 126 - tl.where(small, 25, 0)
        none = (x == 0) | (field == 255)
    else:
        small = tl.abs(x) < 2.2250738585072014e-308
        bits = tl.where(small, x * 18014398509481984.0, x).to(tl.int64, bitcast=True)
        field = (bits >> 52) & 2047
        exponent = (field - 1022 - tl.where(small, 54, 0)).to(tl.int32)
        none = (x == 0) | (field == 2047)
    return bits, tl.where(none, 0, exponent), none


@triton.jit
def exponent(x):
    _bits, found, _none = bits_and_exponent(x)
    return found


@triton.jit
def mantissa(x):
    """x / 2^exponent: the bits, with the exponent -1."""
    bits, _found, none = bits_and_exponent(x)
    if x.dtype == tl.float32:
        scaled = ((bits & -2139095041) | (126 << 23)).to(tl.float32, bitcast=True)
    else:
        scaled = ((bits & -9218868437227405313) | (1022 << 52)).to(tl.float64, bitcast=True)
    return tl.where(none, x, scaled)
