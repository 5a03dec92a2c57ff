"""Bessel functions and Airy's, by fitted polynomials (kernels/scalar/fits.py), computed in
float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch.host.pointwise.special import bessel_i, in_double, polynomial
from tritorch.kernels.scalar import fits

Array = np.ndarray[Any, Any]
Function = Callable[[Array], Array]
_TWO_OVER_PI = 2 / math.pi
_ROOT_HALF = math.sqrt(0.5)


def _pieces(x: Array, *pieces: tuple[Array, Function]) -> Array:
    """Each function where its mask holds, NaN elsewhere."""
    out = np.full(x.shape, np.nan)
    for mask, function in pieces:
        if mask.any():
            out[mask] = function(x[mask])
    return out


# ---- first and second kind -----------------------------------------------------------------------


def _waves(x: Array, order: int, first: bool) -> Array:
    """J (first) or Y beyond 8, from sines and cosines of x itself, which are exact for any x."""
    square = 8 / x
    square *= square
    p, q = (
        polynomial(table, 2 * square - 1)
        for table in ((fits.JY0_P, fits.JY0_Q), (fits.JY1_P, fits.JY1_Q))[order]
    )
    q /= x
    sin, cos = np.sin(x), np.cos(x)
    # cos and sin of x - pi / 4, or of x - 3 pi / 4
    c, s = (cos + sin, sin - cos) if order == 0 else (sin - cos, -sin - cos)
    wave = p * c - q * s if first else p * s + q * c
    wave *= _ROOT_HALF * np.sqrt(_TWO_OVER_PI / x)
    return wave  # NaN at infinity, as in PyTorch


def _j_near(x: Array, order: int) -> Array:
    square = x * x
    if not order:
        return np.where(
            square < 1,
            1 + square * polynomial(fits.J0_SERIES, square),
            _j_by_roots(x, square, order),
        )
    return _j_by_roots(x, square, order)


def _j_by_roots(x: Array, square: Array, order: int) -> Array:
    a, a_rest, b, b_rest = (fits.J0_ROOTS, fits.J1_ROOTS)[order]
    out = polynomial((fits.J0_NEAR, fits.J1_NEAR)[order], square / 32 - 1)
    out *= (square - a) - a_rest
    out *= (square - b) - b_rest
    return out * x if order else out


def _j(order: int) -> Function:
    def compute(x: Array) -> Array:
        size = np.abs(x)
        out = _pieces(
            size,
            (size <= 8, lambda x: _j_near(x, order)),
            (size > 8, lambda x: _waves(x, order, True)),
        )
        return np.where(np.signbit(x), -out, out) if order else out

    return compute


def _y_near(x: Array, order: int) -> Array:
    out = polynomial((fits.Y0_NEAR, fits.Y1_NEAR)[order], x * x / 32 - 1)
    if order:
        out *= x
        return out + _TWO_OVER_PI * (np.log(x) * _j_near(x, 1) - 1 / x)
    return out + _TWO_OVER_PI * np.log(x) * _j_near(x, 0)


def _y(order: int) -> Function:
    def compute(x: Array) -> Array:
        out = _pieces(
            x,
            ((x > 0) & (x <= 8), lambda x: _y_near(x, order)),
            (x > 8, lambda x: _waves(x, order, False)),
        )
        out[x == 0] = -np.inf
        return out

    return compute


# ---- modified ------------------------------------------------------------------------------------


def _k_near(x: Array, order: int) -> Array:
    out = polynomial((fits.K0_NEAR, fits.K1_NEAR)[order], x * x / 2 - 1)
    log = np.log(x / 2)
    if order:
        return out * x + log * bessel_i(1, False)(x) + 1 / x
    return out - log * bessel_i(0, False)(x)


def _k(order: int, scaled: bool) -> Function:
    def near(x: Array) -> Array:
        out = _k_near(x, order)
        return out * np.exp(x) if scaled else out

    def far(x: Array) -> Array:
        out = polynomial((fits.K0_FAR, fits.K1_FAR)[order], 4 / x - 1) / np.sqrt(x)
        return out if scaled else out * np.exp(-x)

    def compute(x: Array) -> Array:
        out = _pieces(x, ((x > 0) & (x <= 2), near), (x > 2, far))
        out[x == 0] = np.inf
        return out

    return compute


# ---- Airy's and the spherical one ----------------------------------------------------------------

_Z_ABOVE, _Z_BELOW = 2 / 3 * 2**1.5, 2 / 3 * 6**1.5


def _airy_above(x: Array) -> Array:
    root = np.sqrt(x)
    z = 2 / 3 * x * root
    out = polynomial(fits.AIRY_ABOVE, 2 * _Z_ABOVE / z - 1) * np.exp(-z)
    return out / (2 * math.sqrt(math.pi) * np.sqrt(root))


def _airy_below(x: Array) -> Array:
    size = -x
    root = np.sqrt(size)
    z = 2 / 3 * size * root
    ratio = _Z_BELOW / z
    p, q = (polynomial(table, 2 * ratio * ratio - 1) for table in (fits.AIRY_P, fits.AIRY_Q))
    sin, cos = np.sin(z), np.cos(z)
    out = (p * (cos + sin) + q / z * (sin - cos)) * _ROOT_HALF
    out /= math.sqrt(math.pi) * np.sqrt(root)
    return out


# Ai(x) = Ai(0) f(x^3) + Ai'(0) x g(x^3)
_AIRY_AT_0, _AIRY_SLOPE = 0.35502805388781723926, -0.25881940379280679840


def _airy_small(x: Array) -> Array:
    cube = x * x * x
    f, g = (polynomial(table, cube) * cube for table in (fits.AIRY_F, fits.AIRY_G))
    return _AIRY_AT_0 + (_AIRY_SLOPE * x + (_AIRY_AT_0 * f + _AIRY_SLOPE * x * g))


def _airy(x: Array) -> Array:
    x = np.where(np.isinf(x), np.nan, x)  # as in PyTorch
    return _pieces(
        x,
        (x < -6, _airy_below),
        (np.abs(x) < 1, _airy_small),
        (
            (x >= -6) & (x <= 2) & (np.abs(x) >= 1),
            lambda x: polynomial(fits.AIRY_NEAR, (x + 2) / 4),
        ),
        (x > 2, _airy_above),
    )


def _spherical(x: Array) -> Array:
    out = np.sin(x) / x
    out[x == 0] = 1
    out[np.isinf(x)] = 0
    return out


def _public(function: Function, doc: str) -> Function:
    def wrapper(x: Array) -> Array:
        return in_double(function, x)

    wrapper.__doc__ = doc
    return wrapper


airy_ai = _public(_airy, "Airy's function Ai.")
bessel_j0 = _public(_j(0), "The Bessel function of the first kind, order 0.")
bessel_j1 = _public(_j(1), "The Bessel function of the first kind, order 1.")
bessel_y0 = _public(_y(0), "The Bessel function of the second kind, order 0.")
bessel_y1 = _public(_y(1), "The Bessel function of the second kind, order 1.")
modified_bessel_k0 = _public(_k(0, False), "The modified Bessel function of the second kind, 0.")
modified_bessel_k1 = _public(_k(1, False), "The modified Bessel function of the second kind, 1.")
scaled_modified_bessel_k0 = _public(_k(0, True), "exp(x) modified_bessel_k0(x).")
scaled_modified_bessel_k1 = _public(_k(1, True), "exp(x) modified_bessel_k1(x).")
spherical_bessel_j0 = _public(_spherical, "sin(x) / x.")
