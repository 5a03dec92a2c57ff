"""Sorting and searching."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch.host import loops
from tritorch.host.pointwise.narrow import widen
from tritorch.host.reduce.rows import taken

Array = np.ndarray[Any, Any]


def _order(x: Array, dim: int, descending: bool, k: int | None = None) -> Array:
    """Stable; NaN is the greatest.  k: of the first only."""
    wide, lead = widen(x), (slice(None),) * dim
    if not descending:
        return wide.argsort(dim, kind="stable")[(*lead, slice(0, k))]
    # Reversed twice, so that equals stay in order.
    n = x.shape[dim]
    flipped = wide[(*lead, slice(None, None, -1))].argsort(dim, kind="stable")
    last = None if k is None or k == n else n - 1 - k
    return np.subtract(n - 1, flipped[(*lead, slice(None, last, -1))])


def _at(x: Array, index: Array, dim: int) -> Array:
    """What lies at indices along a dim."""
    if dim == x.ndim - 1 and x.flags.c_contiguous and index.size:
        flat = index.reshape(-1, index.shape[dim])
        return taken(x.reshape(len(flat), -1), flat).reshape(index.shape)
    return np.take_along_axis(x, index, dim)


def sort(x: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    """Values in order, and where they were."""
    index = np.ascontiguousarray(_order(x, dim, descending))
    return _at(x, index, dim), index


FEW = 64  # elements that are put in order as they come


def _few(x: Array, k: int, dim: int, largest: bool) -> tuple[Array, Array]:
    """The k largest or smallest, in order, and where they were, in one pass."""
    last = dim == x.ndim - 1
    rows = np.ascontiguousarray(x if last else np.moveaxis(x, dim, -1))
    shape = (*rows.shape[:-1], k)
    values, places = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    n = rows.shape[-1]
    loops.first_of_rows(rows, values, places, rows.size // n, n, k, largest, x.dtype.char)
    if last:
        return values, places
    return tuple(np.ascontiguousarray(np.moveaxis(v, -1, dim)) for v in (values, places))  # type: ignore[return-value]


def topk(x: Array, k: int, dim: int, largest: bool) -> tuple[Array, Array]:
    """The k largest or smallest, in order."""
    n = x.shape[dim]
    if 0 < k <= FEW and x.size and x.dtype.char in "fdil":
        return _few(x, k, dim, largest)
    if k == 0 or n <= 64 or k > n // 4:
        index = _order(x, dim, largest, k)
    else:  # a selection first, in linear time
        wide = widen(x)
        places = np.argpartition(wide, n - k if largest else k - 1, axis=dim)
        part = np.take(places, np.arange(n - k, n) if largest else np.arange(k), axis=dim)
        part = np.sort(part, axis=dim)  # so that equals stay in order
        inner = _order(np.take_along_axis(wide, part, dim), dim, largest)
        index = np.take_along_axis(part, inner, dim)
    index = np.ascontiguousarray(index)
    return _at(x, index, dim), index


def kthvalue(x: Array, k: int, dim: int) -> tuple[Array, Array]:
    """The k-th smallest."""
    index = np.take(np.argpartition(widen(x), k - 1, axis=dim), [k - 1], axis=dim)
    return np.take_along_axis(x, index, dim).squeeze(dim), index.squeeze(dim)


def _nans(x: Array) -> Array:
    return np.isnan(widen(x)) if x.dtype.kind not in "biu" else np.zeros(x.shape, bool)


def median(x: Array, dim: int) -> tuple[Array, Array]:
    """The lower median; NaN if there is one."""
    order = _order(x, dim, False)
    nans = _nans(x)
    middle = np.full([1 if i == dim else n for i, n in enumerate(x.shape)], (x.shape[dim] - 1) // 2)
    index = np.take_along_axis(order, middle, dim)
    first_nan = np.argmax(nans, axis=dim, keepdims=True)
    index = np.where(nans.any(axis=dim, keepdims=True), first_nan, index)
    return np.take_along_axis(x, index, dim).squeeze(dim), index.squeeze(dim)


def nanmedian(x: Array, dim: int) -> tuple[Array, Array]:
    """The lower median of what is not NaN."""
    order = _order(x, dim, False)
    count = (~_nans(x)).sum(axis=dim, keepdims=True)
    index = np.take_along_axis(order, np.maximum(count - 1, 0) // 2, dim)
    return np.take_along_axis(x, index, dim).squeeze(dim), index.squeeze(dim)


def mode(x: Array, dim: int) -> tuple[Array, Array]:
    """The most frequent value (the smallest of equals), and its last place."""
    order = np.moveaxis(_order(x, dim, False), dim, -1)
    values = np.take_along_axis(np.moveaxis(x, dim, -1), order, -1)
    place = np.arange(x.shape[dim])
    starts = np.ones(values.shape, bool)
    starts[..., 1:] = values[..., 1:] != values[..., :-1]
    length = place - np.maximum.accumulate(np.where(starts, place, 0), axis=-1)
    best = np.argmax(length, axis=-1)[..., None]
    pick = lambda v: np.take_along_axis(v, best, -1)[..., 0]
    return pick(values), pick(order)


def unique(x: Array) -> tuple[Array, Array, Array]:
    """The different elements in order, where each came to, how often."""
    if x.dtype.kind == "c":
        values, inverse, counts = np.unique(
            x, return_inverse=True, return_counts=True, equal_nan=False
        )
        return values, inverse.reshape(-1).astype(np.int64), counts.astype(np.int64)
    order = np.argsort(widen(x), kind="stable")
    values, run, counts = unique_consecutive(x[order])
    inverse = np.empty(x.size, np.int64)
    inverse[order] = run
    return values, inverse, counts


def unique_consecutive(x: Array) -> tuple[Array, Array, Array]:
    """Runs of equal elements."""
    if x.size == 0:
        return x.copy(), np.empty(0, np.int64), np.empty(0, np.int64)
    first = np.concatenate([[True], x[1:] != x[:-1]])
    starts = np.flatnonzero(first)
    return x[starts], np.cumsum(first) - 1, np.diff(np.append(starts, x.size))


def searchsorted(sorted: Array, values: Array, right: bool) -> Array:
    """Where values belong in sorted rows."""
    side: Any = "right" if right else "left"
    if sorted.ndim == 1:
        return np.asarray(np.searchsorted(widen(sorted), widen(values), side)).astype(np.int64)
    out = np.empty(values.shape, np.int64)
    rows = widen(sorted).reshape(math.prod(sorted.shape[:-1]), sorted.shape[-1])
    wanted = widen(values).reshape(rows.shape[0], values.shape[-1])
    flat = out.reshape(wanted.shape)
    for i, row in enumerate(rows):
        flat[i] = np.searchsorted(row, wanted[i], side)
    return out


def bincount(x: Array, weights: Array | None, minlength: int) -> Array:
    """How often each integer occurs."""
    if weights is None:
        return np.bincount(x.astype(np.int64), minlength=minlength).astype(np.int64)
    counts = np.bincount(x.astype(np.int64), weights.astype(np.float64), minlength)
    return counts.astype(np.float32 if weights.dtype == np.float32 else np.float64)


def histc(x: Array, bins: int, low: float, high: float) -> Array:
    """A histogram of equal bins, whose bounds are rounded as PyTorch's are."""
    flat = widen(x).reshape(-1)
    kind = flat.dtype.type
    first, last = kind(low), kind(high)
    inside = flat[(flat >= first) & (flat <= last)]
    place = ((inside - first) * kind(bins) / (last - first)).astype(np.int64)
    return np.bincount(np.minimum(place, bins - 1), minlength=bins).astype(x.dtype)
