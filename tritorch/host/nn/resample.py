"""Resampling of one dim by a table of weights: bicubic, and filters that widen when they shrink."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch.host.pointwise.narrow import like, row_major, widen

Array = np.ndarray[Any, Any]

_FEW = 16  # taps, up to which they are added one after the other


def _triangle(x: Array) -> Array:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x: Array, a: float) -> Array:
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(x: Array) -> Array:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


# filter, and how far it reaches
_FILTERS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "bilinear": (_triangle, 1.0), "bicubic": (lambda x: _cubic(x, -0.5), 2.0),
    "lanczos": (_lanczos, 3.0),
}  # fmt: skip


def _ratio(n: int, m: int, scale: float | None, align: bool) -> float:
    if align:
        return (n - 1) / (m - 1) if m > 1 else 0.0
    return 1.0 / scale if scale else n / m


def _bicubic(n: int, m: int, scale: float | None, align: bool) -> tuple[Array, Array, Array]:
    ratio, at = _ratio(n, m, scale, align), np.arange(m)
    place = at * ratio if align else (at + 0.5) * ratio - 0.5
    low = np.floor(place)
    taps = low[:, None] + np.arange(-1, 3)
    weights = _cubic(place[:, None] - taps, -0.75)
    rows = np.broadcast_to(at[:, None], taps.shape)
    return rows, taps.clip(0, n - 1).astype(np.int64), weights


def _filtered(
    n: int, m: int, scale: float | None, align: bool, kind: str
) -> tuple[Array, Array, Array]:
    function, reach = _FILTERS[kind]
    ratio, at = _ratio(n, m, scale, align), np.arange(m)
    reach *= max(ratio, 1.0)
    centre = ratio * (at + 0.5)
    low = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    high = np.minimum((centre + reach + 0.5).astype(np.int64), n)
    taps = low[:, None] + np.arange(max(int((high - low).max()), 1))
    weights = function((taps - centre[:, None] + 0.5) / max(ratio, 1.0))
    weights = np.where(taps < high[:, None], weights, 0)
    total = weights.sum(1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    rows = np.broadcast_to(at[:, None], taps.shape)
    return rows, taps.clip(0, n - 1), weights


@functools.lru_cache(maxsize=64)
def table(
    n: int, m: int, scale: float | None, align: bool, kind: str, transposed: bool
) -> tuple[Array, Array]:
    """(begin, weights): output i is the sum over k of weights[i, k] input[begin[i] + k].

    kind: bicubic, or a filter by its name with _aa; transposed: the gradient's.
    """
    if kind.endswith("_aa"):
        rows, cols, weights = _filtered(n, m, scale, align, kind[:-3])
    else:
        rows, cols, weights = _bicubic(n, m, scale, align)
    rows, cols, weights = rows.reshape(-1), cols.reshape(-1), weights.reshape(-1)
    used = weights != 0
    rows, cols, weights = rows[used], cols[used], weights[used]
    size, inner = (n, m) if transposed else (m, n)
    if transposed:
        rows, cols = cols, rows
    begin = np.full(size, inner, np.int64)
    end = np.zeros(size, np.int64)
    np.minimum.at(begin, rows, cols)
    np.maximum.at(end, rows, cols + 1)
    begin = np.where(end, begin, 0)
    width = max(int((end - begin).max()), 1)
    out = np.zeros((size, width))
    np.add.at(out, (rows, cols - begin[rows]), weights)
    return begin, out


def resample(
    x: Array, dim: int, n: int, m: int, scale: float | None, align: bool, kind: str,
    transposed: bool,
) -> Array:  # fmt: skip
    """One dim of n elements as m; transposed: back, as gradients go."""
    begin, weights = table(n, m, scale, align, kind, transposed)
    wide = widen(x)
    size, width = weights.shape
    weights = weights.astype(wide.dtype)
    if width <= _FEW:
        side = [-1 if i == dim else 1 for i in range(x.ndim)]
        total: Any = 0
        for k in range(width):
            at = np.minimum(begin + k, x.shape[dim] - 1)
            part = np.take(wide, at, axis=dim)
            part *= weights[:, k].reshape(side)
            total = part if k == 0 else np.add(total, part, out=total)
        return like(total, x)
    dense = np.zeros((size, x.shape[dim] + width), wide.dtype)
    dense[np.arange(size)[:, None], begin[:, None] + np.arange(width)] = weights
    out = np.moveaxis(np.moveaxis(wide, dim, -1) @ dense[:, : x.shape[dim]].T, -1, dim)
    return like(row_major(out), x)
