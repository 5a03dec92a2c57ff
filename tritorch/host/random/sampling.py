"""Samples whose parameters are arrays, and how samples of gamma and beta move with them.

# Note [Implicit gradients]
A sample x of parameter a stands for the number u = F(x; a) that it was made of: u held still,
dx / da = -(dF / da) / (dF / dx).  F is a series of positive terms, so its derivative is one of the
same terms, each times a difference of digammas; where a is large, it is the expansion around the
mean that Temme gave for F, differentiated, whose error falls with a^-2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch import _C
from tritorch.host.pointwise.special import digamma64, double_of_two
from tritorch.host.random.random import floats
from tritorch.host.threads import mapped

Array = np.ndarray[Any, Any]
Generator = _C.CpuGenerator
# From which parameters the expansion serves, and when a series is done: for float64, and for
# results that are float32 or narrower.
WIDE = (500.0, 2.0**-53)
NARROW = (60.0, 2.0**-29)
_STEPS = 20000
_LOOK = 8  # steps after which those that are done are put aside
_NEAR = 1e-3  # closer to the mean than this, the expansion's correction is taken at this distance

# ---- samples -------------------------------------------------------------------------------------


def standard_gamma(rng: Generator, a: Array) -> Array:
    """Gamma distributed, of rate 1; at least the least normal number, for its logarithm."""
    given, wide = floats(a)
    out = np.empty(given.shape, given.dtype)
    rng.draw_gamma(out, given, wide)
    return out


def _row_sums(x: Array) -> Array:
    """Sums over the last dim in PyTorch's order: that of four lanes, which for short rows have four
    running sums each."""
    n = x.shape[-1]
    if n >= 256:  # from there on PyTorch adds sums of sums
        return x.sum(-1, keepdims=True)
    columns = np.ascontiguousarray(np.moveaxis(x, -1, 0))
    sums = np.zeros((16, *x.shape[:-1]))
    for i in range(0, n - 15, 16):
        sums += columns[i : i + 16]
    lanes = sums[:4]
    for i in range(n // 16 * 16, n - 3, 4):
        lanes += columns[i : i + 4]
    for i in (4, 8, 12):
        lanes += sums[i : i + 4]
    total = np.zeros(x.shape[:-1])
    for part in (*columns[n // 4 * 4 :], *lanes):
        total += part
    return total[..., None]


def dirichlet(rng: Generator, a: Array) -> Array:
    """Gamma distributed numbers, divided by their sums over the last dim."""
    parts = standard_gamma(rng, a.astype(np.float64))
    limits = np.finfo(a.dtype)
    shares = (parts / _row_sums(parts)).astype(a.dtype)
    return np.clip(shares, limits.tiny, np.nextafter(a.dtype.type(1), a.dtype.type(0)))


def poisson(rng: Generator, rate: Array) -> Array:
    """Poisson distributed."""
    given = rate.astype(np.float64, order="C", copy=False)
    out = np.empty(given.shape)
    rng.draw_poisson(out, given)
    return out.astype(rate.dtype, copy=False)


def binomial(rng: Generator, count: Array, p: Array) -> Array:
    """Binomially distributed; no trials for a count below 1, NaN for a NaN."""
    given, wide = floats(count)
    out = np.empty(given.shape, given.dtype)
    rng.draw_binomial(out, given, floats(p)[0], wide)
    return out.astype(count.dtype, copy=False)


# ---- implicit gradients --------------------------------------------------------------------------


def _gamma_series(a: Array, x: Array, eps: float) -> Array:
    """sum of x^(k + 1) / (a (a + 1) ... (a + k)) (digamma(a + k + 1) - log(x)) over k."""
    out = np.empty_like(a)
    place = np.arange(a.size)
    term, weight = x / a, digamma64(a + 1) - np.log(x)
    total, at = term * weight, a.copy()
    for k in range(1, _STEPS):
        at += 1
        inverse = 1 / at
        term *= x * inverse
        weight += inverse
        step = term * weight
        total += step
        if k % _LOOK == 0:
            going = (np.abs(step) > eps * np.abs(total)) | (at < x)
            out[place[~going]] = total[~going]
            place, at, x, term, weight, total = (
                v[going] for v in (place, at, x, term, weight, total)
            )
            if not place.size:
                break
    out[place] = total
    return out


def _off(x: Array) -> Array:
    """x, not closer to 0 than _NEAR."""
    return np.where(np.abs(x) < _NEAR, _NEAR, x)


def _log1p_ratio(x: Array) -> Array:
    """log(1 + x) / x."""
    safe = np.where(x == 0, 1.0, x)
    return np.where(x == 0, 1.0, np.log1p(safe) / safe)


def _gamma_expansion(a: Array, x: Array) -> Array:
    r = x / a
    d = _off(r - 1)
    s = 1 + d
    correction = s / d - 2 * (d - np.log1p(d)) * s * s / (d * d * d)
    return r * _log1p_ratio(r - 1) - correction / (2 * a)


def standard_gamma_grad(a: Any, x: Any) -> Array:
    """How a gamma distributed x moves with its parameter a; see Note [Implicit gradients]."""
    kinds = [v.dtype for v in (a, x) if type(v) is np.ndarray]
    large, eps = WIDE if np.float64 in kinds else NARROW

    def slope(a: Array, x: Array) -> Array:
        out = np.full(a.shape, np.nan)
        good = (a > 0) & (x >= 0) & np.isfinite(x) & np.isfinite(a)
        out[good & (x == 0)] = 0
        good &= x > 0
        wide = good & (a > large)
        out[wide] = _gamma_expansion(a[wide], x[wide])
        good &= ~wide
        out[good] = _gamma_series(a[good], x[good], eps)
        return out

    return double_of_two(slope, a, x)


def _beta_series(at: Array, s: Array, x: Array, weight: Array, falls: Array, eps: float) -> Array:
    """sum of c_k w_k, c_k = (s)_k / (at + 1)_k x^k.

    w_k is weight + digamma(s + k), with falls less digamma(at + 1 + k) too.
    """
    out = np.empty_like(x)
    place = np.arange(x.size)
    term, top, below = np.ones_like(x), s.copy(), at + 1
    weight = weight + digamma64(s) - np.where(falls, digamma64(at + 1), 0.0)
    total = weight.copy()
    for k in range(1, _STEPS):
        over = 1 / below
        term *= x * top * over
        weight += 1 / top - np.where(falls, over, 0.0)
        step = term * weight
        total += step
        top += 1
        below += 1
        if k % _LOOK == 0:
            going = (np.abs(step) > eps * np.abs(total)) | (x * top > below)
            out[place[~going]] = total[~going]
            place, x, term, weight, total, top, below, falls = (
                v[going] for v in (place, x, term, weight, total, top, below, falls)
            )
            if not place.size:
                break
    out[place] = total
    return out


def _beta_expansion(a: Array, b: Array, x: Array) -> Array:
    s = a + b
    # Around the mean, x s = a (1 + d).
    lead = lambda x, d: x * (1 - x) * _log1p_ratio(d) / a
    first = lead(x, x * s / a - 1)
    d = _off(x * s / a - 1)
    at = (1 + d) * a / s
    inside = (at > 0) & (at < 1)
    d, at = np.where(inside, d, -_NEAR), np.where(inside, at, (1 - _NEAR) * a / s)
    moves = 0.5 * (1 / a - 1 / s) - (lead(at, d) * s + at - 1) / (a * d)
    return first + at * (1 - at) / (a * d) * moves


def _beta_slope(a: Array, b: Array, x: Array, large: float, eps: float) -> Array:
    """How a beta distributed sample x moves with a, b held."""
    out = np.full(a.shape, np.nan)
    good = (a > 0) & (b > 0) & (x >= 0) & (x <= 1) & np.isfinite(a) & np.isfinite(b)
    out[good & ((x == 0) | (x == 1))] = 0
    good &= (x > 0) & (x < 1)
    wide = good & (a > large) & (b > large)
    out[wide] = _beta_expansion(a[wide], b[wide], x[wide])
    good &= ~wide
    a, b, x = a[good], b[good], x[good]
    low = x < 0.5
    # F(x; a, b) or, by symmetry, 1 - F(1 - x; b, a)
    at = np.where(low, a, b)
    weight = np.log(x) - np.where(low, 0.0, digamma64(a))
    total = _beta_series(at, a + b, np.where(low, x, 1 - x), weight, low, eps)
    out[good] = np.where(low, -1, 1) * x * (1 - x) / at * total
    return out


def dirichlet_grad(x: Any, a: Any, total: Any) -> Array:
    """How share x of a Dirichlet sample moves with its parameter a, of 1 - x.

    The shares' marginals are beta distributed, of a and total - a.
    """
    kind = np.result_type(*(v.dtype for v in (x, a, total)))
    precision = WIDE if kind == np.float64 else NARROW

    def slope(*parts: Array) -> Array:
        x, a, total = (np.ascontiguousarray(part, np.float64) for part in parts)
        rest = np.where(x < 1, 1 - x, 1.0)
        return _beta_slope(a, total - a, x, *precision) / rest

    return mapped(slope, kind, *np.broadcast_arrays(x, a, total))
