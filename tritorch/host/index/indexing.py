"""Gathering and scattering."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import by_steps
from tritorch.core.layout import contiguous_strides
from tritorch.host import loops, threads
from tritorch.host.pointwise.narrow import is_narrow, row_major, widen

Array = np.ndarray[Any, Any]


INT64 = np.dtype(np.int64)
_KEPT = 1 << 16  # elements up to which what only shapes determine is kept for the next call


@by_steps
def outside(index: Array, n: int) -> int | None:
    """The first number, in order of size, that is no index into n elements."""
    if loops.all_inside(np.ascontiguousarray(index, np.int64), n):
        return None
    low = int(index.min())
    return low if low < 0 else int(index.max())


def _offsets(shape: tuple[int, ...], dim: int, sides: tuple[int, ...]) -> Any:
    """Where the dims but one lead to, in an array of a shape, from indices of other sides."""
    offsets: Any = 0
    for k, (count, step) in enumerate(zip(sides, contiguous_strides(shape))):
        if k != dim and count > 1:
            others = [count if i == k else 1 for i in range(len(sides))]
            offsets = offsets + np.arange(0, count * step, step).reshape(others)
    return offsets


@functools.lru_cache(8)
def _offsets_kept(shape: tuple[int, ...], dim: int, sides: tuple[int, ...]) -> Any:
    offsets = _offsets(shape, dim, sides)
    if type(offsets) is np.ndarray and math.prod(sides) <= _KEPT:
        offsets = np.ascontiguousarray(np.broadcast_to(offsets, sides))  # adds faster
    return offsets


def _places(shape: tuple[int, ...], dim: int, index: Array) -> Array:
    """Where the elements that `index` names lie in a dense array of a shape."""
    if index.dtype is not INT64:
        index = index.astype(INT64)
    bad = outside(index, shape[dim])
    if bad is not None:
        raise RuntimeError(
            f"index {bad} is out of bounds for dimension {dim} with size {shape[dim]}"
        )
    step = math.prod(shape[dim + 1 :])
    places = index * step if step != 1 else index
    kept = _offsets_kept if index.size <= _KEPT else _offsets
    return places + kept(shape, dim, index.shape)


def _in_parts(x: Array, dim: int, index: Array, work: Any) -> bool:
    """work(part of x, index, slice), over threads, where the first dims of index and x agree and
    are many: whether there was need of it."""
    if index.size < threads.PARALLEL or not dim or not x.flags.c_contiguous:
        return False
    lead = index.shape[0]

    def run(low: int, high: int) -> None:
        work(x[low:high], index[low:high], slice(low, high))

    threads.blocks(lead, max(1, threads.BLOCK * lead // index.size), run, True)
    return True


def _sides(x: Array, dim: int, index: Array) -> tuple[int, int, int, int] | None:
    """How many elements are before the dim, along it, and after it, and how many indices along it,
    where both arrays are dense and differ in that dim alone."""
    shape, sides, last = x.shape, index.shape, x.ndim - 1
    if not (x.flags.c_contiguous and index.flags.c_contiguous and index.dtype is INT64):
        return None
    if not last:
        return 1, shape[0], 1, sides[0]
    if dim == last == 1:
        return (shape[0], shape[1], 1, sides[1]) if shape[0] == sides[0] else None
    before, after = shape[:dim], shape[dim + 1 :]
    if before != sides[:dim] or after != sides[dim + 1 :]:
        return None
    return math.prod(before), shape[dim], math.prod(after), sides[dim]


def gather(x: Array, dim: int, index: Array) -> Array:
    """x[index[i, j], j]."""
    out = np.empty(index.shape, x.dtype)
    sides = _sides(x, dim, index)
    if sides is not None and loops.gather(x, index, out, *sides, x.itemsize):
        return out

    def work(part: Array, index: Array, rows: slice) -> None:
        part.reshape(-1).take(_places(part.shape, dim, index), mode="wrap", out=out[rows])

    if _in_parts(x, dim, index, work):
        return out
    if not x.flags.c_contiguous:
        x = np.ascontiguousarray(x)
    # All indices are inside, and "wrap" is the fastest way.
    return x.reshape(-1).take(_places(x.shape, dim, index), mode="wrap")


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
    out, added = x.copy(order="C"), _cut(src, index)
    if x.dtype.char in "fdil" and added.flags.c_contiguous and added.dtype is x.dtype:
        sides = _sides(out, dim, index)
        if sides is not None:
            if loops.scatter_add(out, index, added, *sides, x.dtype.char):
                return out
            _places(x.shape, dim, index)  # says which index is outside
    ufunc = np.logical_or if x.dtype == bool else np.add

    def work(part: Array, index: Array, rows: slice) -> None:
        ufunc.at(part.reshape(-1), _places(part.shape, dim, index).reshape(-1),
                 added[rows].reshape(-1))  # fmt: skip

    if is_narrow(x.dtype):
        places = _places(x.shape, dim, index).reshape(-1)
        return _accumulate(ufunc, out.reshape(-1), places, added.reshape(-1)).reshape(x.shape)
    if not _in_parts(out, dim, index, work):
        work(out, index, slice(None))
    return out


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
    return x.take(index, dim, mode="wrap")  # all are inside


def rows(x: Array, index: Array) -> Array:
    """Entries of the first dim at indices, all inside."""
    return x.take(index, 0, mode="wrap") if x.flags.c_contiguous else row_major(x[index])


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
    return x.reshape(-1).take(mask.reshape(-1).nonzero()[0], mode="wrap")  # several times as fast


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    """x with source's elements, in order, where the mask holds."""
    out = x.copy()
    out[mask] = source.reshape(-1)[: int(mask.sum())]
    return out


def nonzero(x: Array) -> Array:
    """The indices of elements that are not 0, dim by dim in memory."""
    found = np.nonzero(x) if x.ndim > 1 else (np.flatnonzero(x),)
    n = found[0].size
    rows = np.empty((x.ndim, n), np.int64)
    for row, places in zip(rows, found):
        row[:] = places
    out = rows.T
    _C.restride(out, (1, n))
    return out


def _key(indices: tuple[Array | None, ...]) -> tuple[Any, ...]:
    return tuple(slice(None) if index is None else index for index in indices)


def _check(shape: tuple[int, ...], indices: tuple[Array | None, ...]) -> None:
    for dim, index in enumerate(indices):
        if index is None or index.size == 0:
            continue
        plain = index.dtype is INT64 and index.flags.c_contiguous
        if plain and loops.all_inside(index, shape[dim]):
            continue
        low, high = int(index.min()), int(index.max())
        n = shape[dim]
        if not n:
            raise IndexError("index is out of bounds for dimension with size 0")
        if low < -n or high >= n:
            bad = high if high >= n else low
            raise IndexError(f"index {bad} is out of bounds for dimension {dim} with size {n}")


def _checked(shape: tuple[int, ...], indices: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
    """Indices, all of them within their dims; PyTorch lets any pass where nothing is looked up."""
    if 0 in shape and all(n for n, each in zip(shape, indices) if each is not None):
        return tuple(None if each is None else np.zeros_like(each) for each in indices)
    _check(shape, indices)
    return indices


def index(x: Array, indices: tuple[Array | None, ...]) -> Array:
    """x[indices]."""
    indices = _checked(x.shape, indices)
    if len(indices) == 1 and x.flags.c_contiguous and indices[0] is not None:
        return x.take(indices[0], 0)
    return np.asarray(x[_key(indices)])


def index_put_(
    x: Array, indices: tuple[Array | None, ...], values: Array, accumulate: bool
) -> Array:
    """x[indices] = values, or += values."""
    indices = _checked(x.shape, indices)
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
