"""Interpolation, one spatial dim after the other."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.host import loops
from tritorch.host.chains.rowwise import FLOATS
from tritorch.host.pointwise.narrow import like, widen

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]
Scales = tuple[float | None, ...]


def _nearest_source(n: int, m: int, scale: float | None, exact: bool, planar: bool) -> Array:
    if planar and not exact and m in (n, 2 * n):  # PyTorch's way, whatever the scale says
        return np.arange(m) // (m // n)
    ratio = np.float32(1.0 / scale) if scale else np.float32(n / m)
    at = np.arange(m, dtype=np.float32)
    place = np.floor((at + np.float32(0.5)) * ratio) if exact else np.floor(at * ratio)
    return np.minimum(place.astype(np.int64), n - 1)


def nearest(x: Array, size: Ints, scales: Scales, exact: bool) -> Array:
    """Each output element is the nearest input element."""
    for dim, (m, scale) in enumerate(zip(size, scales), start=2):
        x = np.take(x, _nearest_source(x.shape[dim], m, scale, exact, len(size) == 2), axis=dim)
    return np.ascontiguousarray(x)


def nearest_backward(g: Array, shape: Ints, scales: Scales, exact: bool) -> Array:
    """Each input element gathers from the outputs that show it."""
    wide = widen(g)
    for dim, scale in enumerate(scales, start=2):
        n, m = shape[dim], wide.shape[dim]
        source = _nearest_source(n, m, scale, exact, len(scales) == 2)
        weights = (np.arange(n)[:, None] == source).astype(wide.dtype)
        wide = np.moveaxis(np.moveaxis(wide, dim, -1) @ weights.T, -1, dim)
    return like(np.ascontiguousarray(wide), g)


@functools.lru_cache(64)
def _linear_source(
    n: int, m: int, scale: float | None, align: bool, kind: Any
) -> tuple[Array, Array, Array]:
    """For each output element the two input elements that it is between, and how far along."""
    at = np.arange(m, dtype=np.float64)
    if align:
        place = at * ((n - 1) / (m - 1)) if m > 1 else np.zeros(m)
    else:
        ratio = 1.0 / scale if scale else n / m
        place = np.maximum((at + 0.5) * ratio - 0.5, 0)
    if m == n:
        place = at  # whatever the scale says
    low = np.minimum(place.astype(np.int64), n - 1)
    return low, np.minimum(low + 1, n - 1), np.clip(place - low, 0, 1).astype(kind)


@functools.lru_cache(64)
def _linear_weights(n: int, m: int, scale: float | None, align: bool, kind: Any) -> Array:
    """The matrix (n, m) of what each input element gives to each output element."""
    low, high, part = _linear_source(n, m, scale, align, kind)
    weights = np.zeros((n, m), kind)
    np.add.at(weights, (low, np.arange(m)), 1 - part)
    np.add.at(weights, (high, np.arange(m)), part)
    return weights


@loops.gate("interpolate_planes")
def _is_native(x: Array) -> bool:
    return x.ndim == 4 and x.dtype in FLOATS and x.size > 0


def _planes(x: Array, size: Ints, scales: Scales, align_corners: bool) -> Array:
    """Linear interpolation of planes of floats, natively."""
    between = []
    for n, m, scale in zip(x.shape[2:], size, scales):
        low, high, part = _linear_source(n, m, scale, align_corners, x.dtype)
        between.append((low, low if m == n else high, part))
    out = np.empty((*x.shape[:2], *size), x.dtype)
    sizes = (math.prod(x.shape[:2]), *x.shape[2:], *size)
    _C.interpolate_planes(np.ascontiguousarray(x), out, x.dtype.char, sizes, *between)
    return out


def _dim_by_dim(x: Array, size: Ints, scales: Scales, align_corners: bool) -> Array:
    """Linear interpolation of floats along one dim after the other."""
    for dim, (m, scale) in enumerate(zip(size, scales), start=2):
        if m == x.shape[dim]:
            if not math.isfinite(np.add.reduce(x, None)):
                x = x + x * 0  # an infinity and nothing of itself: NaN, as in PyTorch
            continue
        low, high, part = _linear_source(x.shape[dim], m, scale, align_corners, x.dtype)
        part = part.reshape([-1 if i == dim else 1 for i in range(x.ndim)])
        out = np.take(x, low, axis=dim)
        out *= 1 - part
        other = np.take(x, high, axis=dim)
        other *= part
        out += other
        x = out
    return x


def linear(x: Array, size: Ints, scales: Scales, align_corners: bool) -> Array:
    """Linear interpolation along each spatial dim."""
    wide = widen(x)
    if wide.dtype.kind in "iu":
        wide = wide.astype(np.float32)
    wide = (_planes if _is_native(wide) else _dim_by_dim)(wide, size, scales, align_corners)
    if x.dtype.kind in "iu":
        wide = np.rint(wide)
    return (
        wide.astype(x.dtype) if wide.dtype != x.dtype or wide is x else np.ascontiguousarray(wide)
    )


def linear_backward(g: Array, shape: Ints, scales: Scales, align_corners: bool) -> Array:
    """The transpose of `linear`: a product with the matrix of its weights."""
    wide = widen(g)
    for dim, scale in enumerate(scales, start=2):
        n, m = shape[dim], wide.shape[dim]
        if m == n:
            continue
        weights = _linear_weights(n, m, scale, align_corners, wide.dtype)
        wide = np.moveaxis(np.moveaxis(wide, dim, -1) @ weights.T, -1, dim)
    return like(np.ascontiguousarray(wide), g) if wide is not g else g.copy()
