"""Gathering and scattering."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.core.layout import contiguous_strides
from tritorch.cpu.narrow import row_major, widen

Array = np.ndarray[Any, Any]


def _places(shape: tuple[int, ...], dim: int, index: Array) -> Array:
    """Where the elements that `index` names lie in a dense array of a shape."""
    n = shape[dim]
    if index.size:
        low, high = int(index.min()), int(index.max())
        if low < 0 or high >= n:
            bad = low if low < 0 else high
            raise RuntimeError(f"index {bad} is out of bounds for dimension {dim} with size {n}")
    steps = contiguous_strides(shape)
    places = index * steps[dim] if steps[dim] != 1 else index
    for k, (count, step) in enumerate(zip(index.shape, steps)):
        if k != dim and count > 1:
            sides = [count if i == k else 1 for i in range(index.ndim)]
            places = places + np.arange(0, count * step, step).reshape(sides)
    return places


def gather(x: Array, dim: int, index: Array) -> Array:
    """x[index[i, j], j]."""
    return np.ascontiguousarray(x).reshape(-1).take(_places(x.shape, dim, index))


def _cut(src: Array, index: Array) -> Array:
    """src may be larger than index: what lies outside is not used."""
    return src if src.shape == index.shape else src[tuple(slice(0, n) for n in index.shape)]


def scatter(x: Array, dim: int, index: Array, src: Array) -> Array:
    """x with src at index; the last write wins."""
    out = x.copy(order="C")
    out.reshape(-1)[_places(x.shape, dim, index)] = _cut(src, index)
    return out


def scatter_value(x: Array, dim: int, index: Array, value: Any) -> Array:
    """x with a number at index."""
    out = x.copy(order="C")
    out.reshape(-1)[_places(x.shape, dim, index)] = value
    return out


def _accumulate(ufunc: Any, out: Array, key: Any, src: Any) -> Array:
    """ufunc.at, narrow floats in float32."""
    wide = widen(out)
    if wide is not out:
        src = widen(src) if isinstance(src, np.ndarray) else src
        ufunc.at(wide, key, src)
        return wide.astype(out.dtype)
    ufunc.at(out, key, src)
    return out


def scatter_add(x: Array, dim: int, index: Array, src: Array) -> Array:
    """x with src added at index."""
    ufunc = np.logical_or if x.dtype == bool else np.add
    flat = x.copy(order="C").reshape(-1)
    added = _cut(src, index).reshape(-1)
    places = _places(x.shape, dim, index).reshape(-1)
    return _accumulate(ufunc, flat, places, added).reshape(x.shape)


_REDUCE = {
    "sum": np.add,
    "prod": np.multiply,
    "amax": np.maximum,
    "amin": np.minimum,
    "mean": np.add,
}


def _identity(reduce: str, kind: np.dtype[Any]) -> Any:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if kind.kind == "b":
        return reduce == "amin"
    if kind.kind in "iu":
        return np.iinfo(kind).min if reduce == "amax" else np.iinfo(kind).max
    return -np.inf if reduce == "amax" else np.inf


def scatter_reduce(
    x: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool
) -> Array:
    """x with src reduced into it at index."""
    places = _places(x.shape, dim, index).reshape(-1)
    out = x.copy(order="C").reshape(-1)
    if not include_self:
        out[places] = _identity(reduce, x.dtype)
    ufunc: Any = _REDUCE[reduce]
    if x.dtype == bool:
        ufunc = np.logical_and if reduce in ("prod", "amin") else np.logical_or
    kind = x.dtype
    out = widen(out)
    ufunc.at(out, places, widen(_cut(src, index)).reshape(-1))
    if reduce == "mean":
        count = np.full(out.shape, 1 if include_self else 0, np.int64)
        np.add.at(count, places, 1)
        count = np.maximum(count, 1)
        out = np.floor_divide(out, count) if kind.kind in "iu" else out / count
    return out.astype(kind, copy=False).reshape(x.shape)


def index_select(x: Array, dim: int, index: Array) -> Array:
    """Entries of a dim."""
    return np.take(x, index, axis=dim)


def _at(dim: int, index: Array) -> tuple[Any, ...]:
    return (*(slice(None),) * dim, index)


def index_add(x: Array, dim: int, index: Array, source: Array, alpha: Any) -> Array:
    """x with alpha * source added at indices of a dim."""
    wide = widen(source)
    scaled = wide if alpha == 1 else (wide * wide.dtype.type(alpha))
    out = x.copy()
    if x.dtype == bool:
        np.logical_or.at(out, _at(dim, index), scaled.astype(bool))
        return out
    return _accumulate(np.add, out, _at(dim, index), scaled)


def index_reduce(
    x: Array, dim: int, index: Array, source: Array, reduce: str, include_self: bool
) -> Array:
    """x with slices of source reduced into those at indices of a dim: equal indices first."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    key = _at(dim, ordered[starts])
    ufunc = _REDUCE[reduce]
    wide = widen(x)
    runs = ufunc.reduceat(np.take(widen(source), order, axis=dim), starts, axis=dim)
    runs = runs.astype(wide.dtype, copy=False)
    if include_self:
        runs = ufunc(wide[key], runs)
    if reduce == "mean":
        count = np.diff(np.append(starts, index.size)) + int(include_self)
        count = count.reshape([-1 if i == dim else 1 for i in range(x.ndim)])
        runs = np.floor_divide(runs, count) if x.dtype.kind in "iu" else runs / count
    out = x.copy()
    out[key] = runs.astype(x.dtype)
    return out


def index_copy(x: Array, dim: int, index: Array, source: Array) -> Array:
    """x with source at indices of a dim."""
    out = x.copy()
    out[_at(dim, index)] = source
    return out


def index_fill(x: Array, dim: int, index: Array, value: Any) -> Array:
    """x with a number at indices of a dim."""
    out = x.copy()
    out[_at(dim, index)] = value
    return out


def take(x: Array, index: Array) -> Array:
    """Elements of the flattened array."""
    return np.asarray(x.reshape(-1)[index])


def put(x: Array, index: Array, source: Array, accumulate: bool) -> Array:
    """x with source at indices of the flattened array."""
    out = x.copy().reshape(-1)
    if accumulate:
        ufunc = np.logical_or if x.dtype == bool else np.add
        out = _accumulate(ufunc, out, index.reshape(-1), source.reshape(-1))
    else:
        out[index.reshape(-1)] = source.reshape(-1)
    return out.reshape(x.shape)


def masked_select(x: Array, mask: Array) -> Array:
    """Elements where the mask holds."""
    if x.shape != mask.shape:
        return x[mask]
    return x.reshape(-1).take(np.flatnonzero(mask))  # several times as fast


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    """x with source's elements, in order, where the mask holds."""
    out = x.copy()
    out[mask] = source.reshape(-1)[: int(mask.sum())]
    return out


def nonzero(x: Array) -> Array:
    """The indices of elements that are not 0."""
    if x.ndim == 1:
        return np.flatnonzero(x).reshape(-1, 1)
    return np.argwhere(x).astype(np.int64, copy=False)


def _key(indices: tuple[Array | None, ...]) -> tuple[Any, ...]:
    return tuple(slice(None) if index is None else index for index in indices)


def _check(shape: tuple[int, ...], indices: tuple[Array | None, ...]) -> None:
    for dim, index in enumerate(indices):
        if index is None or index.size == 0:
            continue
        low, high = int(index.min()), int(index.max())
        n = shape[dim]
        if low < -n or high >= n:
            bad = high if high >= n else low
            raise IndexError(f"index {bad} is out of bounds for dimension {dim} with size {n}")


def index(x: Array, indices: tuple[Array | None, ...]) -> Array:
    """x[indices]."""
    _check(x.shape, indices)
    return row_major(np.asarray(x[_key(indices)]))


def index_put_(
    x: Array, indices: tuple[Array | None, ...], values: Array, accumulate: bool
) -> Array:
    """x[indices] = values, or += values."""
    _check(x.shape, indices)
    key = _key(indices)
    if not accumulate:
        x[key] = values
    elif x.dtype == bool:
        np.logical_or.at(x, key, values)
    else:
        result = _accumulate(np.add, x, key, values)
        if result is not x:
            x[...] = result
    return x
