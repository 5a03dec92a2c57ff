"""Special functions that NumPy lacks, by polynomials fitted to 40 digits (Chebyshev nodes).

All compute in float64 and round once, but erf of float32 (Note [Elementary functions]).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tritorch.host import loops
from tritorch.host.threads import BLOCK, mapped
from tritorch.kernels.scalar import fits

Array = np.ndarray[Any, Any]
Coefficients = tuple[float, ...]


@functools.cache
def _scalars(coefficients: Coefficients, kind: np.dtype[Any]) -> tuple[Array, ...]:
    # NumPy takes longer to convert a Python number than to add it to a small array.
    return tuple(np.full((), c, kind) for c in coefficients)


def polynomial(coefficients: Coefficients, x: Array) -> Array:
    """Horner's scheme."""
    first, *between, last = _scalars(coefficients, x.dtype)
    total = np.multiply(x, last)
    for c in reversed(between):
        total += c
        total *= x
    total += first
    return total


def in_double(function: Any, x: Array) -> Array:
    """A function of float64, of floats."""
    if x.dtype == np.float64:
        return mapped(function, np.float64, x)
    return mapped(lambda part: function(part.astype(np.float64)), x.dtype, x)


def double_of_two(function: Any, a: Any, b: Any) -> Array:
    """A function of two blocks of float64, of floats and numbers that broadcast."""
    arrays = [x.dtype for x in (a, b) if type(x) is np.ndarray]
    kind = arrays[0] if arrays else np.result_type(a, b)  # numbers have no say beside arrays
    given = np.broadcast_arrays(a, b)
    wide = lambda x: np.ascontiguousarray(x, np.float64)
    return mapped(lambda x, y: function(wide(x), wide(y)), kind, *given)


def exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a b and what its rounding lost (Dekker's product), of float64 below 1e150."""
    halves = []
    for x in (a, b):
        scaled = x * 134217729.0  # 2^27 + 1
        high = scaled - (scaled - x)
        halves.append((high, x - high))
    (a1, a2), (b1, b2) = halves
    product = a * b
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def over_root(y: Array, lacks: Array, x: Array) -> Array:
    """(y + lacks) / sqrt(x), with what the roundings of root and quotient lose."""
    root = np.sqrt(x)
    square, lost = exact_product(root, root)
    root_lacks = ((x - square) - lost) / (2 * root)
    out = y / root
    product, lost = exact_product(out, root)
    more = (((y - product) - lost + lacks) - out * root_lacks) / root
    return out + np.where(np.isfinite(more), more, 0)


# ---- the error function ----


def _erfc_positive(x: Array, scaled: bool = False) -> Array:
    """erfc(x), x >= 0; scaled: times exp(x^2)."""
    q = (x - 3.75) / (x + 3.75)
    q[np.isposinf(x)] = 1
    tail = polynomial(fits.ERFCX, q) / (1 + 2 * x)
    if scaled:
        return tail
    # x^2 = high^2 + (x - high) (x + high), the first exact: its rounding would be magnified.
    x = np.minimum(x, 30)
    high = x.astype(np.float32).astype(np.float64)
    tail *= np.exp(-high * high)
    tail *= np.exp((high - x) * (high + x))
    return tail


def erf64(x: Array) -> Array:
    """erf of a float64 block: the C library's, as `math.erf`."""
    return loops.erf64(x)


def erfc64(x: Array) -> Array:
    """erfc of a float64 block: the C library's, as `math.erfc`."""
    return loops.erfc64(x)


def erf(x: Array) -> Array:
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    if x.dtype == np.float32:
        return loops.erf(x) if x.ndim and 0 < x.size <= BLOCK else mapped(loops.erf, np.float32, x)
    return in_double(erf64, x)


def erfc(x: Array) -> Array:
    """1 - erf(x), accurate where that is small."""
    return in_double(erfc64, x)


def erfcx(x: Array) -> Array:
    """exp(x^2) erfc(x)."""

    def compute(x: Array) -> Array:
        out = _erfc_positive(np.abs(x), scaled=True)
        low = x < 0
        if low.any():
            y = x[low]
            out[low] = 2 * np.exp(y * y) - out[low]
        return out

    return in_double(compute, x)


def erfinv(x: Array) -> Array:
    """The y with erf(y) = x."""
    return mapped(loops.erfinv, x.dtype, x)


def ndtri(x: Array) -> Array:
    """The quantile of the standard normal distribution."""

    def compute(p: Array) -> Array:
        # Below one half by erfc alone, which stays accurate where 2 p - 1 would round to -1.
        out = loops.erfinv(2 * p - 1) * math.sqrt(2)
        small = (p > 0) & (p < 0.02)
        if small.any():
            q = p[small]
            t = np.sqrt(-2 * np.log(q))
            z = t - np.log(t * math.sqrt(2 * math.pi)) / t
            for _ in range(6):  # Newton on log(erfc), nearly linear there
                tail = _erfc_positive(z / math.sqrt(2), scaled=True) / 2
                z += (np.log(tail) - z * z / 2 - np.log(q)) * tail * math.sqrt(2 * math.pi)
            out[small] = -z
        return out

    return in_double(compute, x)


def log_ndtr(x: Array) -> Array:
    """The logarithm of the standard normal distribution function."""

    def compute(x: Array) -> Array:
        out = np.empty_like(x)
        near, low, high = (x > -1) & (x < 0.5), x <= -1, x >= 0.5
        out[near] = np.log1p(loops.erf64(x[near] / math.sqrt(2))) - math.log(2)
        y = x[low]
        square, lost = exact_product(y, y)
        lost[~(square < 1e300)] = 0
        scaled = _erfc_positive(y / -math.sqrt(2), scaled=True)
        out[low] = (np.log(scaled / 2) - lost / 2) - square / 2
        y = x[high]
        # exp(-y^2 / 2) from y itself: t = y / sqrt(2) is rounded, which would be magnified.
        square, lost = exact_product(y, y)
        tail = _erfc_positive(y / math.sqrt(2), scaled=True) * np.exp(-square / 2) / 2
        out[high] = np.log1p(-np.where(y > 40, 0, tail * (1 - lost / 2)))
        out[np.isnan(x)] = np.nan
        return out

    return in_double(compute, x)


# ---- the gamma function ----


_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)


def stirling(x: Array) -> Array:
    """lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2, x > 8."""
    inverse = 1 / x
    return inverse * polynomial(_STIRLING, inverse * inverse)


def lgamma64(x: Array) -> Array:
    """lgamma of a float64 block, as `math.lgamma`, nearer to exact from -1/2 on."""
    return loops.lgamma64(x)


def lgamma(x: Array) -> Array:
    """log |gamma(x)|."""
    return in_double(lgamma64, x)


_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12, 3617 / 8160)


def digamma64(x: Array) -> Array:
    low = x <= 0
    y = np.where(low, 1 - x, x)
    out = np.zeros_like(x)
    for _ in range(10):
        small = y < 10
        if not small.any():
            break
        out[small] -= 1 / y[small]
        y[small] += 1
    inverse = 1 / y
    square = inverse * inverse
    out += np.log(y) - 0.5 * inverse + square * polynomial(_DIGAMMA, square)
    if low.any():
        z = x[low]
        r = z - np.rint(z)
        value = out[low] - math.pi / np.tan(math.pi * r)
        value[r == 0] = np.nan
        value[z == 0] = np.copysign(np.inf, -z[z == 0])
        out[low] = value
    out[np.isposinf(x)] = np.inf
    return out


def digamma(x: Array) -> Array:
    """The derivative of lgamma."""
    return in_double(digamma64, x)


# ---- Bessel functions ----


def bessel_i(order: int, scaled: bool) -> Any:
    """I0 or I1 of a float64 block; scaled: times exp(-|x|)."""
    near, far = ((fits.I0_NEAR, fits.I0_FAR), (fits.I1_NEAR, fits.I1_FAR))[order]

    def compute(x: Array) -> Array:
        size = np.abs(x)
        inside = np.minimum(size, 8)
        out = polynomial(near, inside / 4 - 1)
        if order:
            out *= inside
        large = size > 8
        if large.any():
            y = size[large]
            t = 16 / y - 1
            rest = polynomial(far[1:], t) * t
            whole = far[0] + rest
            out[large] = over_root(whole, (far[0] - whole) + rest, y)
        if not scaled:
            # Half the exponent at a time: exp(x) overflows before the product does.
            half = np.exp(size / 2)
            out *= half
            out *= half
            out[np.isinf(size)] = np.nan  # as in PyTorch
        out[np.isnan(x)] = np.nan
        return np.copysign(out, x + 0.0, out=out) if order else out  # +0 for both zeros

    return compute


def i0(x: Array) -> Array:
    """The modified Bessel function of the first kind, order 0."""
    return in_double(bessel_i(0, False), x)


def i0e(x: Array) -> Array:
    """exp(-|x|) i0(x)."""
    return in_double(bessel_i(0, True), x)


def i1(x: Array) -> Array:
    """The modified Bessel function of the first kind, order 1."""
    return in_double(bessel_i(1, False), x)


def i1e(x: Array) -> Array:
    """exp(-|x|) i1(x)."""
    return in_double(bessel_i(1, True), x)
