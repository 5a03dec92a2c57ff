"""Along the rows of matrices, what NumPy's own reductions are slower at.

Sums and dots are products with ones: BLAS takes many rows at once.  Pieces of PIECE elements keep
the rounding of a pairwise sum.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FEW = 1024  # elements up to which NumPy's own reductions cost less than what it takes to avoid them
PIECE = 1024  # elements that one product adds
SHORT = 1024  # rows up to which looking for the place of an extreme is the faster way to it
CHUNK = 32  # elements of a running sum that one product gives
TAME = 60.0  # exp of what is smaller can be added up without overflow, and nothing underflows
BLAS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


@functools.lru_cache(64)
def _ones(n: int, kind: np.dtype[Any]) -> Array:
    ones = np.ones((n, 1), kind)
    ones.setflags(write=False)
    return ones


def sums(x: Array) -> Array:
    """Sums along the last dim, which stays."""
    n, kind = x.shape[-1], x.dtype
    if n <= PIECE:
        if kind not in BLAS:
            return np.add.reduce(x, axis=-1, keepdims=True)
        if x.ndim == 2:
            return x.dot(_ones(n, kind))
        return np.matmul(x, _ones(n, kind))
    count = -(-n // PIECE)
    if n % count or not x.flags.c_contiguous or kind not in BLAS:
        return np.add.reduce(x, axis=-1, keepdims=True)
    parts = x.reshape(-1, n // count).dot(_ones(n // count, kind))
    return np.add.reduce(parts.reshape(*x.shape[:-1], count), axis=-1, keepdims=True)


def across(ufunc: Any, x: Array, column: Array, out: Array) -> Array:
    """out = ufunc(x, column) of a matrix and a column: small ones faster than NumPy broadcasts."""
    return ufunc(x, column.repeat(x.shape[1], 1) if x.size < FEW else column, out=out)


def bounded(x: Array, limit: float) -> bool:
    """Whether all numbers of a dense array lie between limits, none being NaN."""
    flat = x.reshape(-1)
    return flat.item(flat.argmax()) < limit and flat.item(flat.argmin()) > -limit


def log_of_sums(x: Array, scratch: Array, *, of_infinite: bool = False) -> Array:
    """log(sum(exp(x))) along a matrix's rows, as a column; NaN for rows with an infinite largest
    element, unless asked for."""
    if bounded(x, TAME):
        total = sums(np.exp(x, out=scratch))
        return np.log(total, out=total)
    top = largest(x)
    if of_infinite:
        top[~np.isfinite(top)] = 0
    np.exp(across(np.subtract, x, top, scratch), out=scratch)
    total = sums(scratch)
    np.log(total, out=total)
    total += top
    return total


def dots(a: Array, b: Array) -> Array:
    """Sums of a * b along the last dim, which stays."""
    return np.matmul(a[..., None, :], b[..., None])[..., 0]


@functools.lru_cache(64)
def _starts_kept(count: int, step: int) -> Array:
    starts = np.arange(0, count * step, step)
    starts.setflags(write=False)
    return starts


def picked(x: Array, place: Array) -> Array:
    """The element at a place, which must be inside, of each row of a dense matrix."""
    count, n = x.shape
    starts = _starts_kept(count, n) if count <= PIECE and n else np.arange(0, x.size, n)
    return x.reshape(-1).take(place + starts, mode="wrap")


def taken(x: Array, places: Array) -> Array:
    """The elements at places, a matrix of them, of each row of a dense matrix."""
    count, n = x.shape
    starts = _starts_kept(count, n) if count <= PIECE and n else np.arange(0, x.size, n)
    return x.reshape(-1).take(places + starts[:, None], mode="wrap")


def extremes(x: Array, find: Any) -> Array:
    """What np.argmax or np.argmin finds in each row of a matrix, as a column."""
    return picked(x, x.argmax(1) if find is np.argmax else x.argmin(1))[:, None]


def largest(x: Array) -> Array:
    """The largest of each row of a matrix, as a column."""
    dense = x.flags.c_contiguous and x.dtype.kind == "f"
    if x.size >= FEW and 8 <= x.shape[1] <= SHORT and dense:
        return extremes(x, np.argmax)
    return np.maximum.reduce(x, axis=1, keepdims=True)


@functools.cache
def _upper(kind: np.dtype[Any]) -> Array:
    return np.triu(np.ones((CHUNK, CHUNK), kind))


def running_sums(x: Array) -> Array | None:
    """Running sums of a matrix's rows, in chunks by products; None if a number is not finite."""
    rows, n = x.shape
    count = n // CHUNK
    out = np.empty_like(x, order="C")
    body = out[:, : count * CHUNK].reshape(rows, count, CHUNK)
    upper = _upper(x.dtype)
    if n == count * CHUNK:
        np.matmul(x.reshape(-1, CHUNK), upper, out=body.reshape(-1, CHUNK))
    else:
        body = np.matmul(x[:, : count * CHUNK].reshape(rows, count, CHUNK), upper)
    before = np.add.accumulate(body[:, :, -1], axis=1)
    if not math.isfinite(np.add.reduce(before, None)):
        return None  # a product would take infinity times 0 into elements before it
    body[:, 1:] += before[:, :-1, None]
    if n > count * CHUNK:
        out[:, : count * CHUNK] = body.reshape(rows, -1)
        rest = out[:, count * CHUNK :]
        np.add.accumulate(x[:, count * CHUNK :], axis=1, out=rest)
        rest += before[:, -1:]
        if not np.isfinite(rest[:, -1].sum()):
            return None
    return out
