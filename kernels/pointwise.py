"""Pointwise kernels: templates that take a scalar function, and the scalar functions.

A template loads each operand (an array, or a number given as the bits of a float64 or an int64),
converts it to COMPUTE, calls OP, converts to the output's type and stores.
"""

import triton
import triton.language as tl

from .copy import convert

# ---- templates ------------------------------------------------------------------------------------


@triton.jit
def operand(x, offsets, mask, COMPUTE: tl.constexpr, NUMBER: tl.constexpr):
    """The elements at offsets of an array, or the one number, as COMPUTE."""
    if NUMBER:
        bits = tl.zeros(offsets.shape, tl.int64) + x.to(tl.int64)
        if COMPUTE.is_floating():
            return bits.to(tl.float64, bitcast=True).to(COMPUTE)
        return convert(bits, COMPUTE)
    return convert(tl.load(x + offsets, mask=mask), COMPUTE)


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


# ---- sign and magnitude ---------------------------------------------------------------------------


@triton.jit
def neg(x):
    return -x


@triton.jit
def abs(x):
    return tl.abs(x)


@triton.jit
def sign(x):
    if x.dtype.is_floating():
        return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, tl.where(x == 0, 0.0, x))).to(x.dtype)
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
def rsqrt(x):
    return 1.0 / sqrt(x)


@triton.jit
def reciprocal(x):
    return 1.0 / x


@triton.jit
def signbit(x):
    if x.dtype == tl.float32:
        return x.to(tl.int32, bitcast=True) < 0
    elif x.dtype == tl.float64:
        return x.to(tl.int64, bitcast=True) < 0
    return x < 0


# ---- exponentials and logarithms ------------------------------------------------------------------


@triton.jit
def exp(x):
    return tl.exp(x)


@triton.jit
def exp2(x):
    return tl.exp2(x)


@triton.jit
def expm1(x):
    """Kahan's: (e^x - 1) * x / log(e^x) cancels the rounding of e^x."""
    u = tl.exp(x)
    small = tl.abs(x) < 0.5
    safe = tl.where(small & (u != 1), u, 2.0)
    corrected = (safe - 1) * x / tl.log(safe)
    return tl.where(small, tl.where(u == 1, x, corrected), u - 1)


@triton.jit
def log(x):
    return tl.log(x)


@triton.jit
def log2(x):
    return tl.log2(x)


@triton.jit
def log10(x):
    return tl.log2(x) * 0.30102999566398119521


@triton.jit
def log1p(x):
    """Kahan's: log(1 + x) * x / ((1 + x) - 1)."""
    u = 1 + x
    small = tl.abs(x) < 0.5
    safe = tl.where(small & (u != 1), u, 2.0)
    corrected = tl.log(safe) * (x / (safe - 1))
    return tl.where(small, tl.where(u == 1, x, corrected), tl.log(u))


# ---- trigonometry ---------------------------------------------------------------------------------


@triton.jit
def sin(x):
    return tl.sin(x)


@triton.jit
def cos(x):
    return tl.cos(x)


@triton.jit
def tan(x):
    return tl.sin(x) / tl.cos(x)


@triton.jit
def _atan_core(x):
    """atan on [-0.66, 0.66] (Cephes' rational approximation)."""
    z = x * x
    p = -8.750608600031904122785e-1
    p = p * z - 1.615753718733365076637e1
    p = p * z - 7.500855792314704667340e1
    p = p * z - 1.228866684490136173410e2
    p = p * z - 6.485021904942025371773e1
    q = z + 2.485846490142306297962e1
    q = q * z + 1.650270098316988542046e2
    q = q * z + 4.328810604912902668951e2
    q = q * z + 4.853903996359136964868e2
    q = q * z + 1.945506571482613964425e2
    return x * (z * p / q) + x


@triton.jit
def atan(x):
    a = tl.abs(x)
    big = a > 2.41421356237309504880
    middle = (a > 0.66) & (a <= 2.41421356237309504880)
    safe = tl.where(a == 0, 1.0, a)
    reduced = tl.where(big, -1.0 / safe, tl.where(middle, (a - 1.0) / (a + 1.0), a))
    base = tl.where(big, 1.57079632679489661923, tl.where(middle, 0.78539816339744830962, 0.0))
    y = base + _atan_core(reduced)
    return tl.where(x < 0, -y, tl.where(x == x, y, x)).to(x.dtype)


@triton.jit
def atan2(y, x):
    pi = 3.14159265358979323846
    both_inf = (tl.abs(y) == float("inf")) & (tl.abs(x) == float("inf"))
    ratio = tl.where(both_inf, 1.0, tl.abs(y) / tl.where(x == 0, 1.0, tl.abs(x)))
    base = tl.where(x == 0, tl.where(y == 0, 0.0, pi / 2), atan(ratio))
    negative = signbit(x)
    out = tl.where(negative, pi - base, base)
    out = tl.where((x != x) | (y != y), x + y, out)
    return tl.where(signbit(y), -out, out).to(x.dtype)


@triton.jit
def asin(x):
    return atan2(x, sqrt((1 - x) * (1 + x)))


@triton.jit
def acos(x):
    return 2 * atan2(sqrt(1 - x), sqrt(1 + x))


@triton.jit
def sinh(x):
    t = expm1(tl.abs(x))
    y = tl.where(tl.abs(x) > 30, tl.exp(tl.abs(x) - 0.69314718055994530942), 0.5 * (t + t / (t + 1)))
    return tl.where(x < 0, -y, y)


@triton.jit
def cosh(x):
    t = tl.exp(tl.abs(x) - 0.69314718055994530942)
    return t + 0.25 / t


@triton.jit
def tanh(x):
    t = expm1(2 * tl.minimum(tl.abs(x), 30.0))
    y = t / (t + 2)
    return tl.where(x < 0, -y, tl.where(x == x, y, x))


@triton.jit
def asinh(x):
    a = tl.abs(x)
    safe = tl.minimum(a, 1e15)
    y = log1p(safe + safe * safe / (1 + sqrt(1 + safe * safe)))
    y = tl.where(a > 1e15, tl.log(a) + 0.69314718055994530942, y)
    return tl.where(x < 0, -y, tl.where(x == x, y, x))


@triton.jit
def acosh(x):
    t = x - 1
    return tl.where(x > 1e15, tl.log(x) + 0.69314718055994530942, log1p(t + sqrt(2 * t + t * t)))


@triton.jit
def atanh(x):
    return 0.5 * log1p(2 * x / (1 - x))


@triton.jit
def sinc(x):
    y = x * 3.14159265358979323846
    return tl.where(x == 0, 1.0, tl.sin(y) / tl.where(x == 0, 1.0, y))


@triton.jit
def deg2rad(x):
    return x * 0.01745329251994329577


@triton.jit
def rad2deg(x):
    return x * 57.29577951308232087680


# ---- special --------------------------------------------------------------------------------------


@triton.jit
def sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def erf(x):
    return tl.math.erf(x)


@triton.jit
def erfc(x):
    """1 - erf(x), by a continued fraction where that would cancel."""
    a = tl.abs(x)
    t = tl.maximum(a, 1.5)
    f = tl.zeros_like(t)
    for i in tl.static_range(50):
        f = (50 - i) * 0.5 / (t + f)
    tail = tl.exp(-a * a) / ((t + f) * 1.77245385090551602730)
    y = tl.where(a < 1.5, 1 - tl.math.erf(a), tail)
    return tl.where(x < 0, 2 - y, tl.where(x == x, y, x))


@triton.jit
def erfinv(x):
    """Giles' approximation, then two steps of Newton's method."""
    w = -tl.log((1 - x) * (1 + x))
    u = w - 2.5
    p = 2.81022636e-08
    p = 3.43273939e-07 + p * u
    p = -3.5233877e-06 + p * u
    p = -4.39150654e-06 + p * u
    p = 0.00021858087 + p * u
    p = -0.00125372503 + p * u
    p = -0.00417768164 + p * u
    p = 0.246640727 + p * u
    p = 1.50140941 + p * u
    v = sqrt(tl.maximum(w, 5.0)) - 3
    q = -0.000200214257
    q = 0.000100950558 + q * v
    q = 0.00134934322 + q * v
    q = -0.00367342844 + q * v
    q = 0.00573950773 + q * v
    q = -0.0076224613 + q * v
    q = 0.00943887047 + q * v
    q = 1.00167406 + q * v
    q = 2.83297682 + q * v
    y = tl.where(w < 5, p, q) * x
    for _ in tl.static_range(2):
        error = tl.where(tl.abs(x) < 0.9, tl.math.erf(y) - x, tl.where(x > 0, 1.0, -1.0) * ((1 - tl.abs(x)) - erfc(tl.abs(y))))
        y = y - error * 0.88622692545275801365 * tl.exp(y * y)
    y = tl.where(tl.abs(x) == 1, x * float("inf"), y)
    return tl.where(tl.abs(x) > 1, float("nan"), y).to(x.dtype)


@triton.jit
def _lgamma_positive(x):
    """log(gamma(x)) for x > 0: Stirling's series after shifting x above 8."""
    shift = tl.zeros_like(x) + 1.0
    y = x
    for _ in tl.static_range(8):
        low = y < 8
        shift = tl.where(low, shift * y, shift)
        y = tl.where(low, y + 1, y)
    r = 1 / (y * y)
    s = 1.0 / 156.0
    s = s * -r + 691.0 / 360360.0
    s = s * -r + 1.0 / 1188.0
    s = s * -r + 1.0 / 1680.0
    s = s * -r + 1.0 / 1260.0
    s = s * -r + 1.0 / 360.0
    s = s * -r + 1.0 / 12.0
    return (y - 0.5) * tl.log(y) - y + 0.91893853320467274178 + s / y - tl.log(shift)


@triton.jit
def lgamma(x):
    reflected = x < 0.5
    y = _lgamma_positive(tl.where(reflected, 1 - x, x))
    part = x - tl.floor(x)
    sine = tl.abs(tl.sin(3.14159265358979323846 * part))
    out = tl.where(reflected, 1.14472988584940017414 - tl.log(sine) - y, y)
    return tl.where((x <= 0) & (part == 0), float("inf"), out).to(x.dtype)


@triton.jit
def digamma(x):
    reflected = x < 0.5
    y = tl.where(reflected, 1 - x, x)
    total = tl.zeros_like(y)
    for _ in tl.static_range(10):
        low = y < 10
        total = tl.where(low, total - 1 / y, total)
        y = tl.where(low, y + 1, y)
    r = 1 / (y * y)
    s = 1.0 / 12.0
    s = s * -r + 691.0 / 32760.0
    s = s * -r + 1.0 / 132.0
    s = s * -r + 1.0 / 240.0
    s = s * -r + 1.0 / 252.0
    s = s * -r + 1.0 / 120.0
    s = s * -r + 1.0 / 12.0
    total = total + tl.log(y) - 0.5 / y - s * r
    part = x - tl.floor(x)
    angle = 3.14159265358979323846 * part
    pole = (x <= 0) & (part == 0)
    cot = tl.cos(angle) / tl.where(pole | (part == 0), 1.0, tl.sin(angle))
    out = tl.where(reflected, total - 3.14159265358979323846 * cot, total)
    return tl.where(pole, tl.where(x == 0, -float("inf"), float("nan")), out).to(x.dtype)


@triton.jit
def i0(x):
    """Modified Bessel function of order 0: its power series, asymptotic beyond 15."""
    a = tl.abs(x)
    q = tl.minimum(a, 15.0)
    q = q * q * 0.25
    term = tl.zeros_like(a) + 1.0
    total = term
    for k in tl.static_range(1, 40):
        term = term * q / (k * k)
        total = total + term
    big = tl.maximum(a, 15.0)
    tail_term = tl.zeros_like(a) + 1.0
    tail = tail_term
    for k in tl.static_range(1, 12):
        tail_term = tail_term * ((2 * k - 1) * (2 * k - 1)) / (8.0 * k * big)
        tail = tail + tail_term
    half = tl.exp(0.5 * big)  # squared last, so that it overflows no earlier than the result
    large = half * (tail / sqrt(6.28318530717958647693 * big)) * half
    return tl.where(a < 15, total, large).to(x.dtype)


@triton.jit
def i1(x):
    """Modified Bessel function of order 1: its power series, asymptotic beyond 15."""
    a = tl.abs(x)
    half = tl.minimum(a, 15.0) * 0.5
    term = half
    total = term
    for k in tl.static_range(1, 40):
        term = term * (half * half) / (k * (k + 1))
        total = total + term
    big = tl.maximum(a, 15.0)
    tail_term = tl.zeros_like(a) + 1.0
    tail = tail_term
    for k in tl.static_range(1, 12):
        tail_term = tail_term * ((2 * k - 1) * (2 * k - 1) - 4.0) / (8.0 * k * big)
        tail = tail + tail_term
    root = tl.exp(0.5 * big)
    large = root * (tail / sqrt(6.28318530717958647693 * big)) * root
    y = tl.where(a < 15, total, large)
    return tl.where(x < 0, -y, y).to(x.dtype)


# ---- rounding -------------------------------------------------------------------------------------


@triton.jit
def floor(x):
    return tl.floor(x) if x.dtype.is_floating() else x


@triton.jit
def ceil(x):
    return tl.ceil(x) if x.dtype.is_floating() else x


@triton.jit
def trunc(x):
    if x.dtype.is_floating():
        y = tl.floor(tl.abs(x))
        return tl.where(signbit(x), -y, y)
    return x


@triton.jit
def frac(x):
    return x - trunc(x)


@triton.jit
def round(x):
    """Half to even."""
    if x.dtype.is_floating():
        y = tl.floor(x)
        part = x - y
        odd = y - 2 * tl.floor(y * 0.5) == 1
        up = (part > 0.5) | ((part == 0.5) & odd)
        out = tl.where(up, y + 1, y)
        return tl.where((out == 0) & signbit(x), -0.0, out).to(x.dtype)
    return x


# ---- predicates -----------------------------------------------------------------------------------


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
def conj_physical(x):
    return x


@triton.jit
def angle(x):
    return tl.where(x != x, x, tl.where(x < 0, 3.14159265358979323846, 0.0))


# ---- activations ----------------------------------------------------------------------------------


@triton.jit
def relu(x):
    return tl.where(x > 0, x, tl.where(x == x, 0, x)).to(x.dtype)


@triton.jit
def gelu(x):
    return 0.5 * x * (1 + tl.math.erf(x * 0.70710678118654752440))


@triton.jit
def gelu_backward(g, x):
    cdf = 0.5 * (1 + tl.math.erf(x * 0.70710678118654752440))
    return g * (cdf + x * tl.exp(-0.5 * x * x) * 0.39894228040143267794)


@triton.jit
def gelu_tanh(x):
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)))


@triton.jit
def gelu_tanh_backward(g, x):
    t = tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))
    slope = 0.79788456080286535588 * (1 + 0.134145 * x * x)
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)


@triton.jit
def silu(x):
    return x / (1 + tl.exp(-x))


@triton.jit
def silu_backward(g, x):
    s = sigmoid(x)
    return g * s * (1 + x * (1 - s))


# ---- arithmetic -----------------------------------------------------------------------------------


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
    return tl.div_rn(a, b) if a.dtype == tl.float32 else a / b


@triton.jit
def trunc_divide(a, b):
    if a.dtype.is_floating():
        return trunc(div(a, b))
    return a // b


@triton.jit
def fmod(a, b):
    if a.dtype.is_floating():
        return tl.where(tl.abs(b) == float("inf"), tl.where(tl.abs(a) == float("inf"), float("nan"), a), a - b * trunc(div(a, b)))
    return a - b * (a // b)


@triton.jit
def remainder(a, b):
    r = fmod(a, b)
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


@triton.jit
def floor_divide(a, b):
    if a.dtype.is_floating():
        r = fmod(a, b)
        q = (a - r) / b
        q = tl.where((r != 0) & ((r < 0) != (b < 0)), q - 1, q)
        near = tl.floor(q)
        q = tl.where(q - near > 0.5, near + 1, near)
        return tl.where(b == 0, a / b, q)
    q = a // b
    return tl.where((a - q * b != 0) & ((a < 0) != (b < 0)), q - 1, q)


@triton.jit
def pow(a, b):
    if a.dtype.is_floating():
        x = tl.abs(a).to(tl.float64)
        y = b.to(tl.float64)
        magnitude = tl.exp2(y * tl.log2(x))
        whole = tl.floor(b) == b
        odd = whole & (tl.abs(b - 2 * tl.floor(b * 0.5)) == 1)
        out = tl.where((a < 0) & odd, -magnitude, magnitude)
        out = tl.where((a < 0) & (whole == 0) & (tl.abs(b) != float("inf")) & (tl.abs(a) != float("inf")), float("nan"), out)
        out = tl.where((tl.abs(a) == 1) & (tl.abs(b) == float("inf")), 1.0, out)
        out = tl.where((b == 0) | (a == 1), 1.0, out)
        return out.to(a.dtype)
    out = tl.full(a.shape, 1, a.dtype)
    base = a
    n = b
    for _ in range(63):
        out = tl.where((n & 1) != 0, out * base, out)
        base = base * base
        n = n >> 1
    return out


@triton.jit
def hypot(a, b):
    x = tl.maximum(tl.abs(a), tl.abs(b))
    y = tl.minimum(tl.abs(a), tl.abs(b))
    r = y / tl.where(x == 0, 1.0, x)
    out = x * sqrt(1 + r * r)
    out = tl.where((x == float("inf")), x, out)
    return tl.where((a != a) | (b != b), a + b, out)


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
    return tl.where(signbit(b), -tl.abs(a), tl.abs(a))


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
def logaddexp(a, b):
    top = maximum(a, b)
    low = minimum(a, b)
    return tl.where(tl.abs(top) == float("inf"), top, top + log1p(tl.exp(low - top)))


@triton.jit
def logaddexp2(a, b):
    top = maximum(a, b)
    low = minimum(a, b)
    out = top + log1p(tl.exp2(low - top)) * 1.44269504088896340736
    return tl.where(tl.abs(top) == float("inf"), top, out)


@triton.jit
def heaviside(a, b):
    return tl.where(a == 0, b, tl.where(a > 0, 1, tl.where(a == a, 0, a)).to(a.dtype)).to(a.dtype)


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
    return tl.abs(tl.where(g == 0, 0, a // tl.where(g == 0, 1, g) * b))


@triton.jit
def xlogy(a, b):
    return tl.where((a == 0) & (b == b), 0.0, a * tl.log(b))


# ---- comparisons and bits -------------------------------------------------------------------------


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


# ---- three and four -------------------------------------------------------------------------------


@triton.jit
def where(condition, a, b):
    return tl.where(condition != 0, a, b)


@triton.jit
def lerp(a, b, weight):
    return tl.where(tl.abs(weight) < 0.5, a + weight * (b - a), b - (b - a) * (1 - weight))


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
def addcmul(x, a, b, value):
    return x + value * a * b


@triton.jit
def addcdiv(x, a, b, value):
    return x + value * (a / b)
