"""Orthogonal polynomials: all elements take the recurrence's steps together, in their own dtype."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from tritorch.host.pointwise.special import double_of_two
from tritorch.kernels.scalar import recurrences
from tritorch.kernels.scalar.recurrences import Recurrence

Array = np.ndarray[Any, Any]


def _wave(x: Array, n: Array, kind: str) -> Array:
    """The closed form of Chebyshev's, -1 < x < 1."""
    a = np.arccos(x)
    if kind == "t":
        return np.cos(n * a)
    if kind == "u":
        return np.sin((n + 1) * a) / np.sin(a)
    if kind == "v":
        return np.cos((n + 0.5) * a) / np.cos(a / 2)
    return np.sin((n + 0.5) * a) / np.sin(a / 2)


def _steps(x: Array, off: Array, r: Recurrence) -> Generator[Array, int | None]:
    """p_1, p_2, ... by the recurrence.

    Where p_(k-1) and p_k are near each other, or near opposites, their difference d_k is carried
    instead of p_(k-1), which loses less (Reinsch): of Laguerre's, and of Chebyshev's near `side`,
    1 or -1, from which x is `off`.  What overflows takes the recurrence's own way to NaN.
    """
    before = np.ones_like(x)
    now = r.first_x * x + r.first_one
    if r.wave:
        side = np.where(x < 0, -1.0, 1.0)
        near = np.abs(x) > 0.75
        d = r.first_x * off + (r.first_x * side + r.first_one - side)
        now = np.where(near, d + side, now)
        while True:
            keep = yield now
            if keep is not None:
                x, off, side, near = x[:keep], off[:keep], side[:keep], near[:keep]
                d, now, before = d[:keep], now[:keep], before[:keep]
            d = 2 * off * now + side * d
            plain = 2 * x * now - before
            before, now = now, np.where(near & np.isfinite(plain), d + side * now, plain)
    k = 1
    d = now - before
    while True:
        keep = yield now
        if keep is not None:
            x, now, before, d = x[:keep], now[:keep], before[:keep], d[:keep]
        up = (r.x + r.kx * k) * x + (r.one + r.k * k)
        following = up * now - (r.last + r.klast * k) * before
        if r.divide:
            following /= 1 + r.divide * k
        if r is recurrences.LAGUERRE_L:
            d = (k * d - x * now) / (1 + k)
            following = np.where(np.isfinite(following), now + d, following)
        before, now = now, following
        k += 1


def _climb(x: Array, off: Array, n: Array, r: Recurrence) -> Array:
    """The polynomials of degrees n >= 0, by the recurrence; x is one-dimensional."""
    # By falling degree, so that those that are not done are always the first ones.
    order = np.argsort(-n, kind="stable")
    x, off, n = x[order], off[order], n[order]
    result = np.ones_like(x)
    steps = _steps(x, off, r)
    now = next(steps)
    k = 1
    result[n == 1] = now[n == 1]
    active = int(np.count_nonzero(n > 1))
    while active:
        n = n[:active]
        now = steps.send(active)
        k += 1
        done = n == k
        if np.isnan(now).all():
            result[:active] = np.nan
            break
        result[:active][done] = now[done]
        active = int(np.count_nonzero(n > k))
    out = np.empty_like(result)
    out[order] = result
    return out


def _evaluate(x: Array, degree: Array, r: Recurrence, shifted: bool, kind: Any) -> Array:
    n = np.where(np.isfinite(degree), degree, -1.0)
    n = np.trunc(np.clip(n, -1, 2**62)).astype(np.int64)
    # What x is off from the end of [-1, 1] on its side, exactly if it is near.
    off = np.where(x < 0, x + 1, x - 1)
    if shifted:
        off = np.where(x < 0.5, 2 * x, 2 * (x - 1))
        x = 2 * x - 1
    out = np.zeros_like(x)
    climbing = n >= 0
    if r.wave:
        waving = (n >= recurrences.WAVE_FROM[r.wave]) & (np.abs(x) < 1)
        out[waving] = _wave(x[waving], n[waving], r.wave)
        # At the ends the values are known: else large degrees would be climbed to.
        climbing &= ~waving
        for end in (1, -1):
            there = climbing & (x == end)
            if there.any():
                out[there] = _at_the_end(n[there], end, r)
                climbing &= ~there
    elif r.is_hermite:
        far = n > recurrences.HERMITE_LIMIT[kind.itemsize]
        out[far] = np.nan
        climbing &= ~far
    elif r is recurrences.LEGENDRE_P:
        there = climbing & (np.abs(x) == 1)
        out[there] = np.where(n[there] % 2, x[there], 1)
        climbing &= ~there
    else:
        there = climbing & (x == 0)
        out[there] = 1
        climbing &= ~there
    if climbing.any():
        out[climbing] = _climb(x[climbing], off[climbing], n[climbing], r)
    return out


def _at_the_end(n: Array, end: int, r: Recurrence) -> Array:
    """A Chebyshev polynomial at 1 or -1: p_n = p_0 + n (p_1 - p_0), with (-1)^n at -1."""
    first = end * (r.first_x * end + r.first_one)
    value = 1 + n * (first - 1)
    return value * np.where(n % 2, end, 1)


def _polynomial(recurrence: Recurrence, shifted: bool) -> Callable[[Any, Any], Array]:
    def function(x: Any, n: Any) -> Array:
        single = any(getattr(value, "dtype", None) == np.float32 for value in (x, n))
        kind = np.dtype(np.float32 if single else np.float64)
        return double_of_two(lambda a, b: _evaluate(a, b, recurrence, shifted, kind), x, n)

    return function


FUNCTIONS = {name: _polynomial(*each) for name, each in recurrences.PUBLIC.items()}
