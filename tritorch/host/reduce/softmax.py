"""Softmax and its gradients, in blocks that stay in the cache, over threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch.arrays.arrays import by_steps, scratch
from tritorch.core.dtype import dtype
from tritorch.host import loops, threads
from tritorch.host.chains.rowwise import largest, pays, rowwise, total
from tritorch.host.pointwise.narrow import computing, widen
from tritorch.host.reduce import rows

Array = np.ndarray[Any, Any]
Kernel = Callable[..., None]

# ---- row by row ----


def _row_softmax(x: Any) -> Any:
    y = loops.exp(x - largest(x))
    return y * np.reciprocal(total(y))


def _row_log_softmax(x: Any) -> Any:
    y = x - largest(x)
    return y - loops.log(total(loops.exp(y)))


def _row_softmax_backward(g: Any, y: Any) -> Any:
    product = g * y
    return product - y * total(product)


def _row_log_softmax_backward(g: Any, y: Any) -> Any:
    return g - loops.exp(y) * total(g)


def _by_rows(
    function: Callable[..., Any], kind: np.dtype[Any], dim: int, *arrays: Array
) -> Array | None:
    """The function of rows, where the dim is the last one and that pays; else None."""
    shape = arrays[0].shape
    if dim != len(shape) - 1 or arrays[0].dtype is not kind or not pays(shape[dim], *arrays):
        return None
    out = scratch(shape, kind)
    given = (*arrays, out)
    if dim > 2:
        given = tuple([x.reshape(-1, shape[dim]) for x in given])
    rowwise(function, "a" * len(arrays), kind)(*given)
    return out


# ---- in blocks ----

_SMALL = 8.0  # logs of sums of exp of what is smaller are as exact as differences from the largest


def _along(kernel: Kernel, kind: np.dtype[Any], dim: int, *arrays: Array) -> Array:
    """kernel(out, *blocks, axis) on blocks that hold the dim whole, in the computing type."""
    shape = arrays[0].shape
    out = np.empty(shape, kind)
    if out.size == 0:
        return out
    wide = computing(kind)
    if dim == len(shape) - 1 and wide is kind and out.nbytes < threads.CACHE:
        if dim == 1:
            kernel(out, *arrays, 1)
        else:
            n = shape[dim]
            kernel(out.reshape(-1, n), *(a.reshape(-1, n) for a in arrays), 1)
        return out
    n, inner = shape[dim], math.prod(shape[dim + 1 :])
    outer = out.size // (n * inner)

    def run(target: Array, parts: list[Array], axis: int) -> None:
        parts = [p.astype(wide, copy=False) for p in parts]
        if wide == kind:
            kernel(target, *parts, axis)
        else:
            room = np.empty(target.shape, wide)
            kernel(room, *parts, axis)
            target[...] = room

    if inner == 1:
        flat = [a.reshape(outer, n) for a in arrays]
        target: Array = out.reshape(outer, n)

        def block(low: int, high: int) -> None:
            run(target[low:high], [a[low:high] for a in flat], 1)

        threads.rows(outer, n * wide.itemsize, block)
    else:
        cubes = [a.reshape(outer, n, inner) for a in arrays]
        target = out.reshape(outer, n, inner)
        # Pieces of rows long enough to stream, even where the whole does not fit the cache.
        width = min(inner, max(1024, threads.CACHE // (n * wide.itemsize)))
        pieces = -(-inner // width)
        deep = max(1, threads.CACHE // (n * inner * wide.itemsize)) if pieces == 1 else 1

        def columns(low: int, high: int) -> None:
            if pieces == 1:
                run(target[low:high], [a[low:high] for a in cubes], 1)
                return
            for piece in range(low, high):
                i, at = divmod(piece, pieces)
                part = (i, slice(None), slice(at * width, (at + 1) * width))
                run(target[part], [a[part] for a in cubes], 0)

        threads.blocks(outer * pieces, deep, columns, out.size >= threads.PARALLEL)
    return out


def _sum(x: Array, axis: int) -> Array:
    if x.ndim == 2 and axis == 1:
        return rows.sums(x)
    return np.add.reduce(x, axis=axis, keepdims=True)


def _softmax(out: Array, x: Array, axis: int) -> None:
    if x.ndim == 2 and axis == 1:
        if rows.bounded(x, rows.TAME):  # then nothing is gained by subtracting the largest
            loops.exp(x, out=out)
        else:
            rows.across(np.subtract, x, rows.largest(x), out)
            loops.exp(out, out=out)
        total = rows.sums(out)
        if x.shape[1] > rows.PIECE:  # a long row's numbers are alike: so are their errors
            rows.across(np.true_divide, out, total, out)
        else:
            rows.across(np.multiply, out, np.reciprocal(total, out=total), out)
        return
    np.subtract(x, np.max(x, axis=axis, keepdims=True), out=out)
    loops.exp(out, out=out)
    np.multiply(out, 1 / _sum(out, axis), out=out)


def _log_softmax(out: Array, x: Array, axis: int) -> None:
    if x.ndim == 2 and axis == 1:
        if rows.bounded(x, _SMALL):
            total = rows.sums(loops.exp(x, out=out))
            rows.across(np.subtract, x, loops.log(total, out=total), out)
            return
        rows.across(np.subtract, x, rows.largest(x), out)
        total = rows.sums(loops.exp(out))
        rows.across(np.subtract, out, loops.log(total, out=total), out)
        return
    np.subtract(x, np.max(x, axis=axis, keepdims=True), out=out)
    total = _sum(loops.exp(out), axis)
    np.subtract(out, loops.log(total, out=total), out=out)


def _softmax_backward(out: Array, g: Array, y: Array, axis: int) -> None:
    np.multiply(g, y, out=out)
    total = _sum(out, axis)
    np.subtract(out, y * total, out=out)


def _log_softmax_backward(out: Array, g: Array, y: Array, axis: int) -> None:
    loops.exp(y, out=out)
    np.multiply(out, _sum(g, axis), out=out)
    np.subtract(g, out, out=out)


@by_steps
def softmax(x: Array, dim: int, dtype: dtype) -> Array:
    """exp(x) / sum(exp(x))."""
    found = _by_rows(_row_softmax, dtype.numpy, dim, x)
    return _along(_softmax, dtype.numpy, dim, x) if found is None else found


@by_steps
def log_softmax(x: Array, dim: int, dtype: dtype) -> Array:
    """x - log(sum(exp(x)))."""
    found = _by_rows(_row_log_softmax, dtype.numpy, dim, x)
    return _along(_log_softmax, dtype.numpy, dim, x) if found is None else found


@by_steps
def softmax_backward(g: Array, out: Array, dim: int, dtype: dtype) -> Array:
    """out * (g - sum(g * out))."""
    if out.dtype.itemsize > dtype.itemsize:  # the gradient of a wider result, rounded at the end
        return _wide(_softmax_backward, g, out, dim, dtype)
    found = _by_rows(_row_softmax_backward, dtype.numpy, dim, g, out)
    return _along(_softmax_backward, dtype.numpy, dim, g, out) if found is None else found


@by_steps
def log_softmax_backward(g: Array, out: Array, dim: int, dtype: dtype) -> Array:
    """g - exp(out) * sum(g)."""
    if out.dtype.itemsize > dtype.itemsize:
        return _wide(_log_softmax_backward, g, out, dim, dtype)
    found = _by_rows(_row_log_softmax_backward, dtype.numpy, dim, g, out)
    return _along(_log_softmax_backward, dtype.numpy, dim, g, out) if found is None else found


def _wide(kernel: Kernel, g: Array, out: Array, dim: int, dtype: dtype) -> Array:
    """The gradient in out's type, then converted."""
    wide = widen(out)
    return _along(kernel, wide.dtype, dim, widen(g), wide).astype(dtype.numpy)
