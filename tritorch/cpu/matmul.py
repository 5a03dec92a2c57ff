"""Matrix products of what BLAS does not take directly."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.cpu.narrow import like, widen

Array = np.ndarray[Any, Any]


def mm(a: Array, b: Array) -> Array:
    """The product of two matrices."""
    if a.dtype.kind in "iu":
        return _integers(a, b)
    return like(np.matmul(widen(a), widen(b)), a)


bmm = mm


def _integers(a: Array, b: Array) -> Array:
    """Through float64's BLAS where that is exact, else NumPy's loops."""
    if a.size and b.size:
        top = float(np.abs(a.astype(np.float64)).max()) * float(np.abs(b.astype(np.float64)).max())
        if top * a.shape[-1] < 2**53:
            return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(a.dtype)
    return np.matmul(a, b)
