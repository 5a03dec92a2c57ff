"""Scalar special functions: the error function's family and gamma's."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from . import fits
from .elementary import exp, log1p, negated, polynomial, quotient, reciprocal, signbit, sqrt

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
    return libdevice.erfc(x)


@triton.jit
def erfcx(x):
    """exp(x^2) erfc(x)."""
    y = erfcx_positive(tl.abs(x))
    y = tl.where(x < 0, quotient(2, exp_minus_square(tl.minimum(x, 0.0))) - y, y)
    return tl.where(x == x, y, x)


@triton.jit
def log_ndtr(x):
    """The logarithm of the standard normal distribution function."""
    return log_ndtr_of_double(x.to(tl.float64)).to(x.dtype)


@triton.jit
def log_ndtr_of_double(x):
    """Near 0 log1p(erf) - log(2); elsewhere by erfcx, with what rounding x^2 loses."""
    t = x * 0.70710678118654752440
    near = log1p(erf(tl.minimum(tl.maximum(t, -1.0), 1.0))) - 0.69314718055994530942
    square = x * x
    lost = tl.where(square < 1e300, tl.fma(x, x, negated(square)), 0.0)
    scaled = 0.5 * erfcx_positive(tl.abs(t))
    below = (tl.log(scaled) - 0.5 * lost) - 0.5 * square
    above = log1p(negated(scaled * exp(-0.5 * square) * (1 - 0.5 * lost)))
    y = tl.where(x < 0.5, near, above)
    y = tl.where(x > -1, y, tl.where(x == -float("inf"), x, below))
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
    return libdevice.erfinv(x)


@triton.jit
def lgamma(x):
    return libdevice.lgamma(x)


@triton.jit
def digamma(x):
    """Stirling's series from 10 on; of negative numbers by reflection, with exact distances from
    integers."""
    below_zero = x < 0
    y = tl.where(below_zero, 1 - x, x)
    pole = (x <= 0) & (x == tl.floor(x))
    y = tl.where(pole, 1.0, y)
    below = tl.zeros_like(y)
    for _ in tl.static_range(10):
        low = y < 10
        below = tl.where(low, below + quotient(1, y), below)
        y = tl.where(low, y + 1, y)
    r = quotient(-1, y * y)
    s = r * (1.0 / 12.0) + 691.0 / 32760.0
    s = s * r + 1.0 / 132.0
    s = s * r + 1.0 / 240.0
    s = s * r + 1.0 / 252.0
    s = s * r + 1.0 / 120.0
    s = s * r + 1.0 / 12.0
    total = tl.log(y) - below - quotient(0.5, y) + s * r
    angle = 3.14159265358979323846 * (x - tl.floor(x + 0.5))
    cot = quotient(tl.cos(angle), tl.where(below_zero & (pole == 0), tl.sin(angle), 1.0))
    out = tl.where(below_zero, total - 3.14159265358979323846 * cot, total)
    at_zero = tl.where(signbit(x), float("inf"), -float("inf"))
    return tl.where(pole, tl.where(x == 0, at_zero, float("nan")), out).to(x.dtype)


@triton.jit
def logit(x):
    return tl.log(quotient(x, 1 - x))


@triton.jit
def logit_clamped(x, eps):
    y = tl.where(x < eps, eps, tl.where(x > 1 - eps, 1 - eps, x))
    return tl.log(quotient(y, 1 - y))
