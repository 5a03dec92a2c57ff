"""The incomplete gamma functions and Hurwitz' zeta, computed in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch.host.pointwise.special import (
    digamma,
    double_of_two,
    erfc64,
    in_double,
    lgamma64,
    polynomial,
    stirling,
)
from tritorch.kernels.scalar import fits

Array = np.ndarray[Any, Any]
_STEPS = 400
_EPS = 2.0**-53
_LOOK = 6  # steps after which those that are done are put aside
UNIFORM_FROM = 20  # a from which the uniform expansion serves, where x is near a

# ---- incomplete gamma functions ------------------------------------------------------------------


def _log_factor(a: Array, x: Array) -> Array:
    """log(x^a exp(-x) / gamma(a + 1)), without the large terms that cancel."""
    out = a * np.log(x) - x - lgamma64(a + 1)
    large = a >= 10
    if large.any():
        b, y = a[large], x[large]
        ratio = y / b
        deviance = np.where(
            np.abs(ratio - 1) < 0.4, np.log1p((y - b) / b) - (y - b) / b, np.log(ratio) - ratio + 1
        )
        out[large] = b * deviance - 0.5 * np.log(2 * math.pi * b) - stirling(b)
    return out


def _series(a: Array, x: Array) -> Array:
    """P = x^a exp(-x) / gamma(a + 1) (1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...)."""
    factor = np.exp(_log_factor(a, x))
    out = np.empty_like(x)
    place = np.arange(x.size)
    total, term = np.ones_like(x), np.ones_like(x)
    for k in range(1, _STEPS):
        term *= x / (a + k)
        total += term
        if k % _LOOK == 0:
            going = term > _EPS * total
            out[place[~going]] = total[~going]
            place, a, x, total, term = (v[going] for v in (place, a, x, total, term))
            if not place.size:
                break
    out[place] = total
    return out * factor


def _fraction(a: Array, x: Array) -> Array:
    """Q by Legendre's continued fraction, x > 1, by Lentz' method."""
    scale = a * np.exp(_log_factor(a, x))  # x^a exp(-x) / gamma(a)
    out = np.empty_like(x)
    place = np.arange(x.size)
    b = x + 1 - a
    c = np.full_like(x, 1e300)
    d = 1 / b
    h = d.copy()
    for k in range(1, _STEPS):
        factor = k * (a - k)
        b += 2
        d = factor * d + b
        d[d == 0] = 1e-300
        np.reciprocal(d, out=d)
        c = b + factor / c
        c[c == 0] = 1e-300
        step = d * c
        h *= step
        if k % _LOOK == 0:
            going = np.abs(step - 1) > _EPS * 2
            out[place[~going]] = h[~going]
            place, a, b, c, d, h = (v[going] for v in (place, a, b, c, d, h))
            if not place.size:
                break
    out[place] = h
    return out * scale


def _upper_series(a: Array, x: Array) -> Array:
    """Q for x <= 1.1, where it is not 1 - P: -expm1(log(x^a / gamma(a + 1))) and a sum."""
    total, term = np.zeros_like(x), np.ones_like(x)
    for k in range(1, _STEPS):
        term *= -x / k
        part = term / (a + k)
        total += part
        if not (np.abs(part) > _EPS * np.abs(total)).any():
            break
    power = a * np.log(x) - lgamma64(a + 1)
    return -np.expm1(power) - a * np.exp(power) * total


def _uniform(a: Array, x: Array, upper: bool) -> Array:
    """Temme's expansion: erfc(+-eta sqrt(a / 2)) / 2 and a correction; x near a, a large."""
    mu = (x - a) / a
    # eta^2 / 2 = mu - log(1 + mu)
    half = mu - np.log1p(mu)
    small = np.abs(mu) < 1e-3
    m = mu[small]
    half[small] = m * m * (1 / 2 - m * (1 / 3 - m * (1 / 4 - m * (1 / 5 - m * (1 / 6 - m / 7)))))
    eta = np.copysign(np.sqrt(2 * half), mu)
    total = np.zeros_like(a)
    for row in reversed(fits.TEMME):
        total = total / a + polynomial(row, eta)
    correction = total * np.exp(-a * half) / np.sqrt(2 * math.pi * a)
    sign = 1 if upper else -1
    return 0.5 * erfc64(sign * eta * np.sqrt(a / 2)) + sign * correction


def _incomplete(a: Array, x: Array, upper: bool) -> Array:
    out = np.full(x.shape, np.nan)
    good = (a >= 0) & (x >= 0)
    endless, everything = np.isinf(a), np.isinf(x)
    none = good & ((x == 0) & (a > 0) | (endless & ~everything))
    full = good & ~endless & ((a == 0) & (x > 0) | everything)
    out[none], out[full] = (1, 0) if upper else (0, 1)
    rest = good & (a > 0) & (x > 0) & ~endless & ~everything
    near = rest & (a >= UNIFORM_FROM) & (np.abs(x - a) < 0.3 * a)
    out[near] = _uniform(a[near], x[near], upper)
    rest &= ~near
    # The smaller of P and Q is computed, the other is the rest to 1.
    lower = rest & (x <= 1.1) & (x > 0) & ((x < a) | (not upper))
    tiny = rest & (x <= 1.1) & ~lower
    wide = rest & (x > 1.1)
    lower |= wide & (x <= a + 1)
    above = wide & (x > a + 1)
    p = _series(a[lower], x[lower])
    out[lower] = 1 - p if upper else p
    q = _fraction(a[above], x[above])
    out[above] = q if upper else 1 - q
    out[tiny] = _upper_series(a[tiny], x[tiny])
    return out


def igamma(a: Any, x: Any) -> Array:
    """The regularised lower incomplete gamma function."""
    return double_of_two(lambda a, x: _incomplete(a, x, False), a, x)


def igammac(a: Any, x: Any) -> Array:
    """The regularised upper incomplete gamma function."""
    return double_of_two(lambda a, x: _incomplete(a, x, True), a, x)


# ---- zeta and polygamma --------------------------------------------------------------------------

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


def _zeta_positive(s: Array, q: Array) -> Array:
    """Euler and Maclaurin's sum: terms up to q + 12, then the integral and its corrections."""
    out = np.zeros(q.shape)
    for k in range(12):
        out += np.power(q + k, -s)
    a = q + 12
    power = np.power(a, -s)
    out += power * a / (s - 1) + 0.5 * power
    rising, scale = s / a, power
    factorial = 2.0
    for k, b in enumerate(_BERNOULLI, start=1):
        correction = b / factorial * rising * scale
        out += np.where(scale == 0, 0, correction)  # 0 times what passes the range
        rising = rising * (s + 2 * k - 1) * (s + 2 * k) / (a * a)
        factorial *= (2 * k + 1) * (2 * k + 2)
    return np.where(np.isposinf(s), np.where(q == 1, 1, np.where(q > 1, 0, np.inf)), out)


def zeta64(s: Array, q: Array) -> Array:
    """The Hurwitz zeta function of float64 blocks.

    For q < 0 terms on both sides of zero are sums of the same kind, s being whole.
    """
    s, q = np.broadcast_arrays(s, q)
    out = np.full(q.shape, np.nan)
    positive = (q > 0) & (s > 1)
    out[positive] = _zeta_positive(s[positive], q[positive])
    whole = s == np.floor(s)
    pole = (q <= 0) & (q == np.floor(q))
    below = (q < 0) & whole & (s > 1) & ~pole & np.isfinite(s)
    if below.any():
        n, y = s[below], q[below]
        part = y - np.floor(y)
        sign = np.where(n % 2, -1, 1)
        out[below] = _zeta_positive(n, part) + sign * (
            _zeta_positive(n, 1 - part) - _zeta_positive(n, 1 - y)
        )
    out[pole & ~(s < 1)] = np.inf
    out[s == 1] = np.inf
    endless = s == np.inf  # PyTorch's loop ends with a NaN for q > 1
    out[endless] = np.where(q == 1, 1.0, np.where(q < 1, np.inf, np.nan))[endless]
    return out


def zeta(x: Any, q: Any) -> Array:
    """The Hurwitz zeta function, sum over k of (k + q)^-x."""
    return double_of_two(zeta64, x, q)


def factorial(n: int) -> float:
    """n! as a float64, infinite where that ends."""
    return float(math.factorial(n)) if n <= 170 else math.inf


def polygamma(n: int, x: Array) -> Array:
    """The n-th derivative of digamma."""
    if n == 0:
        return digamma(x)
    factor = (-1) ** (n + 1) * factorial(n)
    kind = x.dtype.type

    def compute(x: Array) -> Array:
        if n != 1:
            return factor * zeta64(np.float64(n + 1), x)  # type: ignore[arg-type]
        # Reflection: the sum would need as many terms as x is negative.
        low = x < 0
        out = zeta64(np.float64(2), np.where(low, 1 - x, x))  # type: ignore[arg-type]
        # PyTorch's sine, of a product rounded in the input's type: poles are finite.
        sine = np.sin(kind(math.pi) * x.astype(kind)).astype(np.float64)
        out = np.where(low, (math.pi / sine) ** 2 - out, out)
        return np.where(np.isposinf(x), 0.0, out)

    return in_double(compute, x)
