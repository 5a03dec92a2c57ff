"""Scalar special functions: the error function's family and gamma's."""

import triton
import triton.language as tl

from . import fits
from .elementary import exp, negated, polynomial, quotient, reciprocal, signbit, sqrt

ERFCX = tl.constexpr(fits.counted(fits.ERFCX))


@triton.jit
def sigmoid(x):
    return reciprocal(1 + exp(negated(x)))


@triton.jit
def erf(x):
    return tl.math.erf(x)


@triton.jit
def erfcx_positive(x):
    """exp(x^2) erfc(x), x >= 0."""
    q = tl.where(x == float("inf"), 1.0, quotient(x - 3.75, x + 3.75)).to(x.dtype)
    return quotient(polynomial(q, ERFCX), 1 + 2 * x)


@triton.jit
def exp_minus_square(x):
    """exp(-x^2), with what rounding the square loses."""
    square = x * x
    lost = tl.where(square < float("inf"), tl.fma(x, x, negated(square)), 0.0)
    return exp(negated(square)) * (1 - lost)


@triton.jit
def erfc(x):
    """1 - erf(x), without cancellation for large x."""
    a = tl.abs(x)
    tail = erfcx_positive(a) * exp_minus_square(a)
    y = tl.where(a < 0.5, 1 - tl.math.erf(x), tl.where(x < 0, 2 - tail, tail))
    return tl.where(x == x, y, x)


@triton.jit
def erfcx(x):
    """exp(x^2) erfc(x)."""
    y = erfcx_positive(tl.abs(x))
    y = tl.where(x < 0, quotient(2, exp_minus_square(tl.minimum(x, 0.0))) - y, y)
    return tl.where(x == x, y, x)


@triton.jit
def log_ndtr(x):
    """The logarithm of the standard normal distribution function."""
    t = x * 0.70710678118654752440
    below = tl.log(0.5 * erfcx_positive(tl.maximum(negated(t), 0.0))) - t * t
    half = 0.5 * erfc(tl.maximum(t, 0.0))
    u = 1 - half  # log1p(-half), half at most 1/2
    gone = (half == 0) | (u == 1)
    above = tl.where(gone, negated(half), quotient(tl.log(u) * half, tl.where(gone, 1.0, 1 - u)))
    y = tl.where(x < 0, tl.where(x == -float("inf"), x, below), above)
    return tl.where(x == x, y, x)


@triton.jit
def ndtri(p):
    """The quantile of the standard normal distribution.

    Small p by Newton's method on log(erfc), which is nearly linear there.
    """
    q = tl.where((p > 0) & (p < 0.02), p, 0.01).to(p.dtype)
    log = tl.log(q)
    t = sqrt(-2 * log)
    z = t - quotient(tl.log(t * 2.50662827463100050242), t)
    for _ in tl.static_range(4):
        tail = 0.5 * erfcx_positive(z * 0.70710678118654752440)
        z += (tl.log(tail) - 0.5 * z * z - log) * tail * 2.50662827463100050242
    y = erfinv(2 * p - 1) * 1.41421356237309504880
    return tl.where((p > 0) & (p < 0.02), negated(z), y).to(p.dtype)


@triton.jit
def entr(x):
    """-x log(x), 0 at 0, -inf below."""
    y = negated(x) * tl.log(tl.where(x > 0, x, 1.0))
    y = tl.where(x > 0, y, tl.where(x == 0, 0.0, -float("inf")))
    return tl.where(x == x, y, x).to(x.dtype)


@triton.jit
def erfinv(x):
    """Giles' approximation, then two steps of Newton's method."""
    w = negated(tl.log((1 - x) * (1 + x)))
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
        tail = (1 - tl.abs(x)) - erfc(tl.abs(y))
        error = tl.where(tl.abs(x) < 0.9, tl.math.erf(y) - x, tl.where(x > 0, tail, negated(tail)))
        y = y - error * 0.88622692545275801365 * exp(y * y)
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
    r = quotient(-1, y * y)
    s = 1.0 / 156.0
    s = s * r + 691.0 / 360360.0
    s = s * r + 1.0 / 1188.0
    s = s * r + 1.0 / 1680.0
    s = s * r + 1.0 / 1260.0
    s = s * r + 1.0 / 360.0
    s = s * r + 1.0 / 12.0
    return (y - 0.5) * tl.log(y) - y + 0.91893853320467274178 + quotient(s, y) - tl.log(shift)


@triton.jit
def lgamma(x):
    reflected = x < 0.5
    y = _lgamma_positive(tl.where(reflected, 1 - x, x))
    part = x - tl.floor(x)
    sine = tl.abs(tl.sin(3.14159265358979323846 * part))
    out = tl.where(reflected, 1.14472988584940017414 - tl.log(sine) - y, y)
    infinite = ((x <= 0) & (part == 0)) | (tl.abs(x) == float("inf"))
    return tl.where(infinite, float("inf"), out).to(x.dtype)


@triton.jit
def digamma(x):
    reflected = x < 0.5
    y = tl.where(reflected, 1 - x, x)
    below = tl.zeros_like(y)
    for _ in tl.static_range(10):
        low = y < 10
        below = tl.where(low, below + quotient(1, y), below)
        y = tl.where(low, y + 1, y)
    r = quotient(-1, y * y)
    s = 1.0 / 12.0
    s = s * r + 691.0 / 32760.0
    s = s * r + 1.0 / 132.0
    s = s * r + 1.0 / 240.0
    s = s * r + 1.0 / 252.0
    s = s * r + 1.0 / 120.0
    s = s * r + 1.0 / 12.0
    total = tl.log(y) - below - quotient(0.5, y) + s * r
    part = x - tl.floor(x)
    angle = 3.14159265358979323846 * part
    pole = (x <= 0) & (part == 0)
    cot = quotient(tl.cos(angle), tl.where(pole | (part == 0), 1.0, tl.sin(angle)))
    out = tl.where(reflected, total - 3.14159265358979323846 * cot, total)
    at_zero = tl.where(signbit(x), float("inf"), -float("inf"))
    return tl.where(pole, tl.where(x == 0, at_zero, float("nan")), out).to(x.dtype)


@triton.jit
def logit(x):
    return tl.log(quotient(x, 1 - x))


@triton.jit
def logit_clamped(x, eps):
    y = tl.where(x < eps, eps, tl.where(x > 1 - eps, 1 - eps, x))
    return tl.log(quotient(y, 1 - y))
