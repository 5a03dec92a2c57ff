"""Along the rows of matrices, what NumPy's own reductions are slower at.

Sums and dots are products with ones: BLAS takes many rows at once.  Pieces of PIECE elements keep
the rounding of a pairwise sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FEW = 1024  # elements up to which NumPy's own reductions cost less than what it takes to avoid them
PIECE = 1024  # elements that one product adds
SHORT = 1024  # rows up to which looking for the place of an extreme is the faster way to it
CHUNK = 32  # elements of a running sum that one product gives
BLAS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


def sums(x: Array) -> Array:
    """Sums along the last dim, which stays."""
    n = x.shape[-1]
    if x.size < FEW:
        return np.add.reduce(x, axis=-1, keepdims=True)
    count = -(-n // PIECE)
    if count == 1:
        return np.matmul(x, np.ones((n, 1), x.dtype))
    if n % count or not x.flags.c_contiguous:
        return np.add.reduce(x, axis=-1, keepdims=True)
    pieces = x.reshape(-1, n // count)
    parts = np.matmul(pieces, np.ones((n // count, 1), x.dtype))
    return np.add.reduce(parts.reshape(*x.shape[:-1], count), axis=-1, keepdims=True)


def dots(a: Array, b: Array) -> Array:
    """Sums of a * b along the last dim, which stays."""
    return np.matmul(a[..., None, :], b[..., None])[..., 0]


def extremes(x: Array, find: Any) -> Array:
    """What np.argmax or np.argmin finds in each row of a matrix, as a column."""
    place = find(x, axis=1)
    place += np.arange(0, x.size, x.shape[1])
    return x.reshape(-1).take(place)[:, None]


def largest(x: Array) -> Array:
    """The largest of each row of a matrix, as a column."""
    dense = x.flags.c_contiguous and x.dtype.kind == "f"
    if x.size >= FEW and 8 <= x.shape[1] <= SHORT and dense:
        return extremes(x, np.argmax)
    return np.maximum.reduce(x, axis=1, keepdims=True)


def running_sums(x: Array) -> Array | None:
    """Running sums of a matrix's rows, in chunks by products; None if a number is not finite."""
    rows, n = x.shape
    count = n // CHUNK
    out = np.empty_like(x, order="C")
    body = out[:, : count * CHUNK].reshape(rows, count, CHUNK)
    upper = np.triu(np.ones((CHUNK, CHUNK), x.dtype))
    if n == count * CHUNK:
        np.matmul(x.reshape(-1, CHUNK), upper, out=body.reshape(-1, CHUNK))
    else:
        body = np.matmul(x[:, : count * CHUNK].reshape(rows, count, CHUNK), upper)
    before = np.add.accumulate(body[:, :, -1], axis=1)
    if not np.isfinite(before.sum()):
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
