"""Scans along a dim."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch.arrays.arrays import by_steps, scratch
from tritorch.core.dtype import dtype
from tritorch.host import loops
from tritorch.host.chains.rowwise import FLOATS
from tritorch.host.pointwise.narrow import computing, like, row_major, widen
from tritorch.host.reduce.reduction import convert

Array = np.ndarray[Any, Any]


def _scan(ufunc: Any, x: Array, dim: int, kind: np.dtype[Any]) -> Array:
    if kind.kind == "b":
        return np.logical_or.accumulate(x != 0, axis=dim) if ufunc is np.add else (
            np.logical_and.accumulate(x != 0, axis=dim)
        )  # fmt: skip
    wide = convert(x, computing(kind))
    if wide.dtype in FLOATS and wide.flags.c_contiguous and x.size:
        made, outer = scratch(x.shape, wide.dtype), math.prod(x.shape[:dim])
        inner = x.size // (outer * x.shape[dim])
        scan = loops.running_sums if ufunc is np.add else loops.running_products
        scan(wide, made, outer, x.shape[dim], inner, wide.dtype.char)
        return made if made.dtype is kind else made.astype(kind)
    # Each step rounds: float32 is multiplied in float64, as it is added up.
    exact = np.dtype(np.float64) if wide.dtype == np.float32 else wide.dtype
    out = ufunc.accumulate(wide, axis=dim, dtype=exact)
    return row_major(out if out.dtype is kind else out.astype(kind, copy=False))


@by_steps
def cumsum(x: Array, dim: int, dtype: dtype) -> Array:
    """The running sum."""
    return _scan(np.add, x, dim, dtype.numpy)


@by_steps
def cumprod(x: Array, dim: int, dtype: dtype) -> Array:
    """The running product."""
    return _scan(np.multiply, x, dim, dtype.numpy)


def _extreme(ufunc: Any, x: Array, dim: int) -> tuple[Array, Array]:
    wide = widen(x)
    best = ufunc.accumulate(wide, axis=dim)
    # An element that equals the running extreme (or is NaN) is the latest to hold it.
    holds = wide == best
    if wide.dtype.kind == "f":
        holds |= np.isnan(wide)
    n = x.shape[dim]
    position = np.arange(n).reshape([n if i == dim else 1 for i in range(x.ndim)])
    index = np.maximum.accumulate(np.where(holds, position, 0), axis=dim)
    return row_major(like(best, x)), row_major(index)


def cummax(x: Array, dim: int) -> tuple[Array, Array]:
    """The running maximum, and where (the last of equals)."""
    return _extreme(np.maximum, x, dim)


def cummin(x: Array, dim: int) -> tuple[Array, Array]:
    """The running minimum, and where (the last of equals)."""
    return _extreme(np.minimum, x, dim)


def _complex_logcumsumexp(x: Array, dim: int) -> Array:
    """One element after the other; the imaginary part keeps counting turns, as PyTorch's does."""
    rows = np.moveaxis(x, dim, 0)
    out = np.empty_like(rows)
    so_far = np.full(rows.shape[1:], -np.inf, x.dtype)
    for i, row in enumerate(rows):
        above = row.real > so_far.real
        top, low = np.where(above, row, so_far), np.where(above, so_far, row)
        both = np.log(1 + np.exp(low - top)) + top
        same_infinity = np.isinf(low.real) & (low.real == top.real)
        both = np.where(same_infinity & (low.real > 0), np.log(np.exp(low) + np.exp(top)), both)
        out[i] = so_far = np.where(np.isneginf(low.real), top, both)
    return np.moveaxis(out, 0, dim)


def logcumsumexp(x: Array, dim: int) -> Array:
    """log(cumsum(exp(x))), without overflow."""
    wide = widen(x)
    if wide.dtype.kind == "c":
        return row_major(like(_complex_logcumsumexp(wide, dim), x))
    sums = np.logaddexp.accumulate(wide, axis=dim, dtype=np.float64)
    return row_major(sums.astype(x.dtype, copy=False))
