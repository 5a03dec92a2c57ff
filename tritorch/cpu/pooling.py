"""Pooling over windows of (N, C, spatial...)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tritorch.cpu.narrow import like, widen

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


def out_size(n: int, k: int, s: int, p: int, d: int, ceil: bool) -> int:
    """How many windows fit; with ceil, the last may begin inside but never in the padding."""
    span = n + 2 * p - d * (k - 1) - 1
    count = (-(-span // s) if ceil else span // s) + 1
    return count - 1 if ceil and (count - 1) * s >= n + p else count


def _starts(n: int, s: int, p: int) -> Array:
    return np.arange(n) * s - p


def max_pool(
    x: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Array, Array]:
    """The largest of each window (the first of equals), and where in the plane."""
    spatial = x.shape[2:]
    out = tuple(
        out_size(n, *v, ceil_mode) for n, *v in zip(spatial, kernel, stride, padding, dilation)
    )
    wide = widen(x)
    lowest = -np.inf if wide.dtype.kind == "f" else np.iinfo(wide.dtype).min
    best = np.full((*x.shape[:2], *out), lowest, wide.dtype)
    index = np.zeros(best.shape, np.int64)
    first = np.ones(best.shape, bool)
    plane = np.arange(math.prod(spatial)).reshape(spatial)
    for tap in itertools.product(*(range(k) for k in kernel)):
        places = [
            _starts(m, s, p) + t * d for m, s, p, t, d in zip(out, stride, padding, tap, dilation)
        ]
        inside = [(at >= 0) & (at < n) for at, n in zip(places, spatial)]
        if not all(i.any() for i in inside):
            continue
        grid = np.ix_(*(np.clip(at, 0, n - 1) for at, n in zip(places, spatial)))
        valid = np.ones(out, bool)
        for dim, mask in enumerate(inside):
            valid &= mask.reshape([-1 if i == dim else 1 for i in range(len(out))])
        seen = wide[(slice(None), slice(None), *grid)]
        better = valid & ((seen > best) | first | (seen != seen))
        best = np.where(better, seen, best)
        index = np.where(better, plane[grid], index)
        first &= ~valid
    return like(best, x), index


def max_pool_backward(g: Array, indices: Array, shape: Ints) -> Array:
    """Each output's gradient at its window's largest."""
    n, c = shape[:2]
    wide = widen(g).reshape(n * c, -1)
    size = math.prod(shape[2:])
    flat = indices.reshape(n * c, -1) + np.arange(n * c)[:, None] * size
    total = np.bincount(flat.reshape(-1), wide.reshape(-1).astype(np.float64), n * c * size)
    return total.reshape(shape).astype(g.dtype)


def _divisors(
    out: Ints, spatial: Ints, kernel: Ints, stride: Ints, padding: Ints, include: bool
) -> Array:
    """How many elements each window counts."""
    total = np.ones(out)
    for dim, (m, n, k, s, p) in enumerate(zip(out, spatial, kernel, stride, padding)):
        start = _starts(m, s, p)
        end = np.minimum(start + k, n + p)
        if not include:
            start, end = np.maximum(start, 0), np.minimum(end, n)
        total = total * (end - start).reshape([-1 if i == dim else 1 for i in range(len(out))])
    return total


def avg_pool(
    x: Array,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Array:
    """The mean of each window."""
    spatial = x.shape[2:]
    wide = widen(x)
    out = tuple(out_size(n, *v, 1, ceil_mode) for n, *v in zip(spatial, kernel, stride, padding))
    total = wide
    for dim, (n, k, s, p) in enumerate(zip(spatial, kernel, stride, padding)):
        total = _window_sums(total, dim + 2, n, k, s, p, out[dim])
    scale = divisor or _divisors(out, spatial, kernel, stride, padding, count_include_pad)
    if x.dtype.kind in "iu":
        return np.trunc(total / scale).astype(x.dtype)
    return like((total / scale).astype(wide.dtype), x)


def _window_sums(x: Array, dim: int, n: int, k: int, s: int, p: int, m: int) -> Array:
    moved = np.moveaxis(x, dim, -1)
    total = np.zeros((*moved.shape[:-1], m), x.dtype)
    for tap in range(k):
        at = _starts(m, s, p) + tap
        inside = (at >= 0) & (at < n)
        total[..., inside] += moved[..., at[inside]]
    return np.moveaxis(total, -1, dim)


def avg_pool_backward(
    g: Array,
    shape: Ints,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Array:
    """Each output's gradient, spread over its window."""
    spatial, out = shape[2:], g.shape[2:]
    scale = divisor or _divisors(out, spatial, kernel, stride, padding, count_include_pad)
    wide = widen(g)
    spread = (wide / scale).astype(wide.dtype)
    for dim, (n, k, s, p) in enumerate(zip(spatial, kernel, stride, padding)):
        moved = np.moveaxis(spread, dim + 2, -1)
        total = np.zeros((*moved.shape[:-1], n), wide.dtype)
        for tap in range(k):
            at = _starts(out[dim], s, p) + tap
            inside = (at >= 0) & (at < n)
            total[..., at[inside]] += moved[..., inside]
        spread = np.moveaxis(total, -1, dim + 2)
    return like(np.ascontiguousarray(spread), g)


def _bounds(n: int, m: int) -> tuple[Array, Array]:
    """The windows by which n elements become m."""
    i = np.arange(m)
    return i * n // m, -(-(i + 1) * n // m)


def adaptive_avg_pool(x: Array, size: Ints) -> Array:
    """Means over windows so chosen that the spatial dims become `size`."""
    wide = widen(x)
    for dim, m in enumerate(size, start=2):
        weights = _averaging(wide.shape[dim], m, wide.dtype)
        wide = np.moveaxis(np.moveaxis(wide, dim, -1) @ weights, -1, dim)
    return like(np.ascontiguousarray(wide), x)


def _averaging(n: int, m: int, kind: Any) -> Array:
    start, end = _bounds(n, m)
    at = np.arange(n)[:, None]
    return (((at >= start) & (at < end)) / (end - start)).astype(kind)


def adaptive_avg_pool_backward(g: Array, shape: Ints) -> Array:
    """Each output's gradient, spread over its window."""
    wide = widen(g)
    for dim, n in enumerate(shape[2:], start=2):
        weights = _averaging(n, wide.shape[dim], wide.dtype)
        wide = np.moveaxis(np.moveaxis(wide, dim, -1) @ weights.T, -1, dim)
    return like(np.ascontiguousarray(wide), g)


def adaptive_max_pool(x: Array, size: Ints) -> tuple[Array, Array]:
    """Maxima over windows so chosen that the spatial dims become `size`."""
    spatial = x.shape[2:]
    wide = widen(x)
    best = np.empty((*x.shape[:2], *size), wide.dtype)
    index = np.empty(best.shape, np.int64)
    plane = np.arange(math.prod(spatial)).reshape(spatial)
    bounds = [list(zip(*_bounds(n, m))) for n, m in zip(spatial, size)]
    for at in itertools.product(*(range(m) for m in size)):
        window = tuple(slice(*bounds[dim][i]) for dim, i in enumerate(at))
        flat = wide[(slice(None), slice(None), *window)].reshape(*x.shape[:2], -1)
        place = flat.argmax(-1)
        best[(slice(None), slice(None), *at)] = np.take_along_axis(flat, place[..., None], -1)[..., 0]
        index[(slice(None), slice(None), *at)] = plane[window].reshape(-1)[place]
    return like(best, x), index
