"""Matrix decompositions and systems, by NumPy's LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def qr(x: Array, mode: str) -> tuple[Array, Array]:
    """Q and R of matrices; mode r: Q is empty."""
    if 0 in x.shape:
        m, n = x.shape[-2:]
        k = m if mode == "complete" else min(m, n)
        q = np.zeros((*x.shape[:-2], m, k), x.dtype)
        if m and k:
            q[...] = np.eye(m, k, dtype=x.dtype)
        return (np.zeros(0, x.dtype) if mode == "r" else q), np.zeros(
            (*x.shape[:-2], k, n), x.dtype
        )
    if mode == "r":
        return np.zeros(0, x.dtype), np.ascontiguousarray(np.linalg.qr(x, "r"))
    q, r = np.linalg.qr(x, mode)  # type: ignore[call-overload]
    return np.ascontiguousarray(q), np.ascontiguousarray(r)


def geqrf(x: Array) -> tuple[Array, Array]:
    """R above the diagonal, the Householder vectors below it, and their factors."""
    h, tau = np.linalg.qr(x, "raw")
    return np.ascontiguousarray(np.swapaxes(h, -1, -2)).astype(x.dtype), tau.astype(x.dtype)


def solve(a: Array, b: Array) -> Array:
    """x of a x = b, matrices both."""
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    if 0 in shape:
        return np.zeros(shape, b.dtype)
    return np.linalg.solve(a, b).astype(b.dtype, copy=False)
