"""Matrix products of what BLAS does not take directly."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.host.linalg import blas
from tritorch.host.pointwise.narrow import like, widen

Array = np.ndarray[Any, Any]


def mm(a: Array, b: Array) -> Array:
    """The product of two matrices."""
    if a.dtype.kind in "biu":
        return _integers(a, b)
    return like(blas.matmul(widen(a), widen(b)), a)


bmm = mm


def multiply_into(out: Array, a: Array, b: Array, addend: Array | None = None) -> None:
    """out = a b + addend; out may be of a wider type, and may be the addend."""
    product = blas.matmul(widen(a), widen(b))
    out[...] = product if addend is None else widen(addend) + product


def int_mm(a: Array, b: Array) -> Array:
    """The product of two matrices of bytes, in int32, which wraps.

    float64 holds the sums of 2^38 such products."""
    product = blas.matmul(a.astype(np.float64), b.astype(np.float64))
    return product.astype(np.int64).astype(np.int32)


def _integers(a: Array, b: Array) -> Array:
    """Through float64's BLAS where that is exact, else NumPy's loops, which wrap."""
    if a.size and b.size and a.dtype.kind != "b":
        top = _largest(a) * _largest(b) * a.shape[-1]
        if top < 2**53:
            product = blas.matmul(a.astype(np.float64), b.astype(np.float64))
            return product.astype(np.int64).astype(a.dtype)
    return np.matmul(a, b)


def _largest(x: Array) -> int:
    return max(abs(int(x.min())), abs(int(x.max())))
