"""Reductions over dims."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch.core.dtype import dtype
from tritorch.cpu.narrow import like, widen

Array = np.ndarray[Any, Any]
Dims = tuple[int, ...]


def _cast(x: Array, kind: dtype) -> Array:
    wide = widen(x)
    target = kind.numpy
    if target.name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return wide if wide.dtype.kind in "fc" else wide.astype(np.float32)
    if target.kind != "c" and wide.dtype.kind == "c":
        wide = wide.real
    return wide if wide.dtype == target else wide.astype(target)


def _out(result: Any, kind: np.dtype[Any]) -> Array:
    array = np.asarray(result)
    return array if array.dtype == kind else array.astype(kind)


def sum(x: Array, dims: Dims, keepdim: bool, dtype: dtype) -> Array:
    """The sum over dims."""
    kind = dtype.numpy
    wide = _cast(x, dtype)
    if kind.kind == "b":
        return _out(np.any(wide, axis=dims, keepdims=keepdim), kind)
    return _out(np.add.reduce(wide, axis=dims, keepdims=keepdim), kind)


def mean(x: Array, dims: Dims, keepdim: bool, dtype: dtype) -> Array:
    """The mean over dims."""
    wide = _cast(x, dtype)
    count = math.prod(x.shape[dim] for dim in dims)
    total = np.add.reduce(wide, axis=dims, keepdims=keepdim)
    return _out(np.true_divide(total, count), dtype.numpy)


def prod(x: Array, dims: Dims, keepdim: bool, dtype: dtype) -> Array:
    """The product over dims."""
    wide = _cast(x, dtype)
    if dtype.numpy.kind == "b":
        return _out(np.all(wide, axis=dims, keepdims=keepdim), dtype.numpy)
    return _out(np.multiply.reduce(wide, axis=dims, keepdims=keepdim), dtype.numpy)


def amax(x: Array, dims: Dims, keepdim: bool) -> Array:
    """The largest element over dims."""
    return like(np.maximum.reduce(widen(x), axis=dims, keepdims=keepdim), x)


def amin(x: Array, dims: Dims, keepdim: bool) -> Array:
    """The smallest element over dims."""
    return like(np.minimum.reduce(widen(x), axis=dims, keepdims=keepdim), x)


def any(x: Array, dims: Dims, keepdim: bool) -> Array:
    """Whether any element is true."""
    return np.asarray(np.any(x != 0, axis=dims, keepdims=keepdim))


def all(x: Array, dims: Dims, keepdim: bool) -> Array:
    """Whether all elements are true."""
    return np.asarray(np.all(x != 0, axis=dims, keepdims=keepdim))


def _argmax(x: Array, dim: int) -> Array:
    return np.argmax(x, axis=dim, keepdims=True)  # the first of equals; NaN is the greatest


def _argmin(x: Array, dim: int) -> Array:
    return np.argmin(x, axis=dim, keepdims=True)


def _with_index(find: Any, x: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    index = np.asarray(find(widen(x), dim))
    values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def max_with_index(x: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The largest along a dim, and where."""
    return _with_index(_argmax, x, dim, keepdim)


def min_with_index(x: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The smallest along a dim, and where."""
    return _with_index(_argmin, x, dim, keepdim)


def argmax(x: Array, dim: int, keepdim: bool) -> Array:
    """Where the largest is."""
    index = _argmax(widen(x), dim)
    return np.asarray(index if keepdim else index.squeeze(dim))


def argmin(x: Array, dim: int, keepdim: bool) -> Array:
    """Where the smallest is."""
    index = _argmin(widen(x), dim)
    return np.asarray(index if keepdim else index.squeeze(dim))


def var(x: Array, dims: Dims, correction: float, keepdim: bool) -> Array:
    """The variance over dims."""
    return var_mean(x, dims, correction, keepdim)[0]


def var_mean(x: Array, dims: Dims, correction: float, keepdim: bool) -> tuple[Array, Array]:
    """The variance and the mean over dims."""
    wide = widen(x)
    count = math.prod(x.shape[dim] for dim in dims)
    average = np.true_divide(np.add.reduce(wide, axis=dims, keepdims=True), count)
    off = wide - average
    total = np.add.reduce(off * off, axis=dims, keepdims=keepdim)
    variance = np.true_divide(total, wide.dtype.type(max(count - correction, 0)))
    if not keepdim:
        average = average.squeeze(dims)
    return like(variance, x), like(average, x)


def vector_norm(x: Array, ord: float, dims: Dims, keepdim: bool, dtype: dtype) -> Array:
    """(sum |x|^ord)^(1/ord) over dims."""
    size = np.absolute(widen(x))
    axis = {"axis": dims, "keepdims": keepdim}
    if ord == math.inf:
        out = np.maximum.reduce(size, **axis)
    elif ord == -math.inf:
        out = np.minimum.reduce(size, **axis)
    elif ord == 0:
        out = np.add.reduce((size != 0).astype(size.dtype), **axis)
    elif ord == 1:
        out = np.add.reduce(size, **axis)
    elif ord == 2:
        out = np.sqrt(np.add.reduce(size * size, **axis))
    else:
        out = np.power(np.add.reduce(np.power(size, size.dtype.type(ord)), **axis), 1 / ord)
    return _out(out, dtype.numpy)


def logsumexp(x: Array, dims: Dims, keepdim: bool) -> Array:
    """log(sum(exp(x))) over dims, without overflow."""
    wide = widen(x)
    if math.prod(x.shape[dim] for dim in dims) == 0:
        return like(np.log(np.add.reduce(np.exp(wide), axis=dims, keepdims=keepdim)), x)
    top = np.maximum.reduce(wide.real, axis=dims, keepdims=True)
    top = np.where(np.isfinite(top), top, 0).astype(wide.real.dtype)
    total = np.log(np.add.reduce(np.exp(wide - top), axis=dims, keepdims=True)) + top
    return like(total if keepdim else total.squeeze(dims), x)
