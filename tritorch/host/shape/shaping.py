"""Joining, reordering and padding."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch.arrays.arrays import by_steps, put, seen, seen_scratch

Array = np.ndarray[Any, Any]
_joined, _empty_like = seen(np.concatenate), seen_scratch(np.empty_like)
_ALL, _BACK = slice(None), slice(None, None, -1)
_JOINED = 1 << 13  # elements of a result from which arrays are joined by copies that threads share


@by_steps
def cat(arrays: Sequence[Array], dim: int) -> Array:
    """Arrays joined along a dim."""
    first = arrays[0]
    n, shape = first.ndim, list(first.shape)
    if sum([x.size for x in arrays]) < _JOINED or not -n <= dim < n:
        return _joined(arrays, dim)
    dim %= n
    if not all(
        x.dtype is first.dtype and x.flags.c_contiguous and x.ndim == first.ndim
        and x.shape[:dim] == first.shape[:dim] and x.shape[dim + 1 :] == first.shape[dim + 1 :]
        for x in arrays
    ):  # fmt: skip
        return np.concatenate(arrays, axis=dim)
    shape[dim] = sum(x.shape[dim] for x in arrays)
    out, at = np.empty(shape, first.dtype), 0
    for x in arrays:
        put(out[(*(_ALL,) * dim, slice(at, at + x.shape[dim]))], x)
        at += x.shape[dim]
    return out


@by_steps
def flip(x: Array, dims: tuple[int, ...]) -> Array:
    """Dims reversed."""
    out = _empty_like(x)
    put(out, x[tuple(_BACK if i in dims else _ALL for i in range(x.ndim))])
    return out


def roll(x: Array, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Array:
    """Dims shifted around the end."""
    by = [0] * x.ndim
    for shift, dim in zip(shifts, dims):
        by[dim] += shift
    if len(dims) == 1 and x.size < _JOINED and x.flags.c_contiguous and x.size:
        at, lead = x.shape[dims[0]] - by[dims[0]] % x.shape[dims[0]], (_ALL,) * dims[0]
        return np.concatenate((x[(*lead, slice(at, None))], x[(*lead, slice(at))]), dims[0])
    out = np.empty(x.shape, x.dtype)
    places: list[Sequence[tuple[slice, slice]]] = [((_ALL, _ALL),)] * x.ndim
    for dim, (n, shift) in enumerate(zip(x.shape, by)):
        at = shift % n if n else 0
        if at:
            places[dim] = (
                (slice(at, None), slice(0, n - at)), (slice(0, at), slice(n - at, None))
            )  # fmt: skip
    for pairs in itertools.product(*places):
        to, source = zip(*pairs)
        put(out[to], x[source])
    return out


def _triangle(rows: int, columns: int, diagonal: int, lower: bool, itemsize: int) -> Array:
    """All bits on and below a diagonal (or on and above it), else none."""
    mask = np.arange(columns) <= np.arange(rows)[:, None] + (diagonal if lower else diagonal - 1)
    if not lower:
        np.logical_not(mask, out=mask)
    if itemsize > 8:
        return mask
    return np.negative(mask.view(np.int8)).astype(f"i{itemsize}", copy=False)


_triangle_kept = functools.lru_cache(8)(_triangle)
_MASKED = 1 << 16  # elements of a matrix up to which its triangle is cut out by a mask
_STRIP = 128  # rows that are cut at once of a larger one


def _keep(x: Array, diagonal: int, lower: bool) -> Array:
    """x, but 0 outside of a triangle, by bits."""
    rows, columns = x.shape[-2:]
    if rows * columns > _MASKED and rows > _STRIP:
        return _keep_in_strips(x, diagonal, lower)
    make = _triangle_kept if rows * columns <= _MASKED else _triangle
    mask = make(rows, columns, diagonal, lower, x.itemsize)
    if x.itemsize > 8:
        return np.where(mask, x, np.zeros((), x.dtype))
    x = x if x.flags.c_contiguous else np.ascontiguousarray(x)
    return np.bitwise_and(x.view(mask.dtype), mask).view(x.dtype)


def _keep_in_strips(x: Array, diagonal: int, lower: bool) -> Array:
    """The same, strip by strip: only where a strip meets the diagonal is there need of a mask."""
    out = np.zeros(x.shape, x.dtype)
    rows, columns = x.shape[-2:]
    for low in range(0, rows, _STRIP):
        high = min(low + _STRIP, rows)
        # Columns that some rows of the strip keep and some do not.
        first, last = (min(max(row + diagonal + lower, 0), columns) for row in (low, high - 1))
        here = (..., slice(low, high))
        whole = slice(0, first) if lower else slice(last, columns)
        out[(*here, whole)] = x[(*here, whole)]
        if first < last:
            edge = (*here, slice(first, last))
            out[edge] = _keep(x[edge], diagonal + low - first, lower)
    return out


def tril(x: Array, diagonal: int) -> Array:
    """The lower triangle."""
    return _keep(x, diagonal, True)


def triu(x: Array, diagonal: int) -> Array:
    """The upper triangle."""
    return _keep(x, diagonal, False)


def _sides(x_ndim: int, padding: tuple[int, ...]) -> list[tuple[int, int]]:
    sides = [(padding[2 * i], padding[2 * i + 1]) for i in range(len(padding) // 2)]
    return [(0, 0)] * (x_ndim - len(sides)) + sides[::-1]


def pad(x: Array, padding: tuple[int, ...], mode: str, value: float) -> Array:
    """Elements added at both ends of the last dims."""
    sides = _sides(x.ndim, padding)
    if mode == "constant":
        out = np.empty([n + a + b for n, (a, b) in zip(x.shape, sides)], x.dtype)
        out.fill(value)
        if min(padding) < 0:  # cuts
            keep = [slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, sides)]
            x = x[tuple(keep)]
        here = [slice(max(a, 0), max(a, 0) + n) for n, (a, _) in zip(x.shape, sides)]
        put(out[tuple(here)], x)
        return out
    for dim, (before, after) in enumerate(sides):
        if before or after:
            x = np.take(x, _source(x.shape[dim], before, after, mode), axis=dim)
    return x


def _source(n: int, before: int, after: int, mode: str) -> Array:
    """Which element each padded position shows."""
    at = np.arange(-before, n + after)
    if mode == "replicate":
        return np.clip(at, 0, n - 1)
    if mode == "circular":
        cut = max(-before, 0)  # what negative padding cuts is not wrapped to
        return cut + (at - cut) % (n - cut - max(-after, 0))
    at = np.abs(at)
    return np.where(at >= n, 2 * (n - 1) - at, at)


def pad_backward(g: Array, shape: tuple[int, ...], padding: tuple[int, ...], mode: str) -> Array:
    """What each element gathers from the positions that show it."""
    sides = _sides(g.ndim, padding)
    if mode == "constant":
        out = np.zeros(shape, g.dtype)
        keep = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(shape, sides))
        lengths = [s.stop - s.start for s in keep]
        here = tuple(slice(max(a, 0), max(a, 0) + n) for n, (a, _) in zip(lengths, sides))
        put(out[keep], g[here])
        return out
    kind = g.dtype
    wide = g.astype(np.float32) if kind.itemsize == 2 and kind.kind != "i" else g
    for dim, (before, after) in enumerate(sides):
        if before or after:
            source = _source(shape[dim], before, after, mode)
            out = np.zeros((shape[dim], *np.moveaxis(wide, dim, 0).shape[1:]), wide.dtype)
            np.add.at(out, source, np.moveaxis(wide, dim, 0))
            wide = np.moveaxis(out, 0, dim)
    return np.ascontiguousarray(wide).astype(kind, copy=False)
