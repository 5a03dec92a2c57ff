"""Scalar special functions: the error function's family, gamma's, Bessel's."""

import triton
import triton.language as tl

from .elementary import exp, odd, reciprocal, signbit, sqrt


@triton.jit
def sigmoid(x):
    return reciprocal(1 + exp(-x))


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
    tail = exp(-a * a) / ((t + f) * 1.77245385090551602730)
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
        tail = (1 - tl.abs(x)) - erfc(tl.abs(y))
        error = tl.where(tl.abs(x) < 0.9, tl.math.erf(y) - x, tl.where(x > 0, tail, -tail))
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
    infinite = ((x <= 0) & (part == 0)) | (tl.abs(x) == float("inf"))
    return tl.where(infinite, float("inf"), out).to(x.dtype)


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
    at_zero = tl.where(signbit(x), float("inf"), -float("inf"))
    return tl.where(pole, tl.where(x == 0, at_zero, float("nan")), out).to(x.dtype)


@triton.jit
def inverse_power(q, s, s_is_odd):
    """q^-s for an integer s."""
    size = tl.exp(-s * tl.log(tl.abs(q)))
    return tl.where((q < 0) & s_is_odd, -size, size)


@triton.jit
def polygamma(x, order, factor):
    """factor zeta(order + 1, x), factor = (-1)^(order + 1) order!; computed in float64.

    Euler and Maclaurin's sum: terms up to x + 12, then the integral and its corrections.  For
    order 1, negative x are reflected.
    """
    s = order + 1
    s_is_odd = s != 2 * tl.floor(s / 2)
    reflected = (x < 0) & (order == 1)
    q = tl.where(reflected, 1 - x, x)
    total = tl.zeros_like(q)
    for k in tl.static_range(12):
        total += inverse_power(q + k, s, s_is_odd)
    a = q + 12
    power = inverse_power(a, s, s_is_odd)
    r = 1 / (a * a)
    total += power * a / order + 0.5 * power
    term = s / a * power
    total += term / 12
    term = term * (s + 1) * (s + 2) * r
    total += term / -720
    term = term * (s + 3) * (s + 4) * r
    total += term / 30240
    term = term * (s + 5) * (s + 6) * r
    total += term / -1209600
    term = term * (s + 7) * (s + 8) * r
    total += term / 47900160
    term = term * (s + 9) * (s + 10) * r
    total += term / -1892437580.3183791606
    sine = tl.sin(3.14159265358979323846 * (x - tl.floor(x))) / 3.14159265358979323846
    total = tl.where(reflected, 1 / (sine * sine) - total, total)
    return factor * tl.where((x <= 0) & (x == tl.floor(x)), float("inf"), total)


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
    half = exp(0.5 * big)  # squared last, so that it overflows no earlier than the result
    large = half * (tail / sqrt(6.28318530717958647693 * big)) * half
    y = tl.where(a < 15, total, tl.where(a == float("inf"), a, large))
    return tl.where(x == x, y, x).to(x.dtype)


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
    root = exp(0.5 * big)
    large = root * (tail / sqrt(6.28318530717958647693 * big)) * root
    return odd(x, tl.where(a < 15, total, tl.where(a == float("inf"), a, large)).to(x.dtype))


@triton.jit
def logit(x):
    return tl.log(x / (1 - x))


@triton.jit
def logit_clamped(x, eps):
    y = tl.where(x < eps, eps, tl.where(x > 1 - eps, 1 - eps, x))
    return tl.log(y / (1 - y))
