"""Along the rows of matrices, what NumPy's own reductions are slower at.

Sums and dots are products with ones: BLAS takes many rows at once.  Pieces of PIECE elements keep
the rounding of a pairwise sum.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tritorch.arrays.arrays import add, scratch, take
from tritorch.host import loops
from tritorch.host.chains.rowwise import FLOATS, largest as of_row, pays, rowwise, total
from tritorch.host.linalg import blas

Array = np.ndarray[Any, Any]

FEW = 1024  # elements up to which NumPy's own reductions cost less than what it takes to avoid them
PIECE = 1024  # elements that one product adds
SHORT = 1024  # rows up to which looking for the place of an extreme is the faster way to it
TAME = 60.0  # exp of what is smaller can be added up without overflow, and nothing underflows
BLAS = FLOATS


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
            return blas.dot(x, _ones(n, kind))
        return blas.matmul(x, _ones(n, kind))
    count = -(-n // PIECE)
    if not x.flags.c_contiguous or kind not in BLAS:
        return np.add.reduce(x, axis=-1, keepdims=True)
    if n % count:
        return loops.sum_dims(x, x.ndim - 1, 1, True)
    parts = blas.dot(x.reshape(-1, n // count), _ones(n // count, kind))
    return np.add.reduce(parts.reshape(*x.shape[:-1], count), axis=-1, keepdims=True)


def across(ufunc: Any, x: Array, column: Array, out: Array) -> Array:
    """out = ufunc(x, column) of a matrix and a column: small ones faster than NumPy broadcasts."""
    return ufunc(x, column.repeat(x.shape[1], 1) if x.size < FEW else column, out=out)


def bounded(x: Array, limit: float) -> bool:
    """Whether all numbers of a dense array lie between limits, none being NaN."""
    flat = x.reshape(-1)
    return flat.item(flat.argmax()) < limit and flat.item(flat.argmin()) > -limit


def _log_of_sum(x: Any) -> Any:
    top = of_row(x)
    return loops.log(total(loops.exp(x - top))) + top


def _log_of_sum_of_infinite(x: Any) -> Any:
    top = of_row(x)
    top = np.where(np.isfinite(top), top, 0)
    return loops.log(total(loops.exp(x - top))) + top


def log_of_sums(x: Array, *, of_infinite: bool = False) -> Array:
    """log(sum(exp(x))) along a matrix's rows, as a column; NaN for rows with an infinite largest
    element, unless asked for."""
    if pays(x.shape[1], x):
        column = scratch((len(x), 1), x.dtype)
        rowwise(_log_of_sum_of_infinite if of_infinite else _log_of_sum, "a", x.dtype)(x, column)
        return column
    room = np.empty(x.shape, x.dtype)
    if bounded(x, TAME):
        total = sums(loops.exp(x, out=room))
        return loops.log(total, out=total)
    top = largest(x)
    if of_infinite:
        top[~np.isfinite(top)] = 0
    loops.exp(across(np.subtract, x, top, room), out=room)
    total = sums(room)
    loops.log(total, out=total)
    total += top
    return total


def dots(a: Array, b: Array) -> Array:
    """Sums of a * b along the last dim, which stays."""
    return blas.matmul(a[..., None, :], b[..., None])[..., 0]


@functools.lru_cache(64)
def _starts_kept(count: int, step: int) -> Array:
    starts = np.arange(0, count * step, step)
    starts.setflags(write=False)
    return starts


def picked(x: Array, place: Array) -> Array:
    """The element at a place, which must be inside, of each row of a dense matrix."""
    count, n = x.shape
    starts = _starts_kept(count, n) if count <= PIECE and n else np.arange(0, x.size, n)
    return take(x.reshape(-1), add(place, starts), mode="wrap")


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
