"""Fourier transforms on NumPy's, with batches over threads and long ones in two steps."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.strides import transform_order
from tritorch.core.layout import contiguous_strides
from tritorch.host import threads

Array = np.ndarray[Any, Any]
Dims = tuple[int, ...]

_SCALES: Any = (
    "backward",
    "ortho",
    "forward",
)  # a transform by norm; the inverse counts from the end
_LONG = 1 << 17  # points from which a transform leaves the cache
_SOME = 1 << 15  # points from which a second thread pays for being woken


def _complex(kind: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.complex64 if kind.itemsize == (8 if kind.kind == "c" else 4) else complex)


def _along(function: Callable[..., Any], x: Array, dim: int, size: int, kind: Any) -> Array:
    """function(part, axis) for the lines of x along a dim; `size` is a result's length."""
    if x.size < _SOME:
        return np.ascontiguousarray(function(x, dim)).astype(kind, copy=False)
    x = np.ascontiguousarray(x)
    n, outer, inner = x.shape[dim], math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    out = np.empty((*x.shape[:dim], size, *x.shape[dim + 1 :]), kind)
    source, target = x.reshape(outer, n, inner), out.reshape(outer, size, inner)
    line = max(n, size) * out.itemsize
    if inner == 1:

        def rows(low: int, high: int) -> None:
            target[low:high, :, 0] = function(source[low:high, :, 0], -1)

        threads.blocks(outer, max(1, (threads.CACHE >> 1) // line), rows, True)
        return out
    # Lines that lie across are gathered some at a time: each line of the cache is read once.
    wide = min(inner, max(16, (threads.CACHE >> 2) // line))
    if wide == inner:  # several small matrices at a time

        def matrices(low: int, high: int) -> None:
            part = np.ascontiguousarray(source[low:high].swapaxes(1, 2))
            target[low:high] = function(part, -1).swapaxes(1, 2)

        threads.blocks(outer, max(1, (threads.CACHE >> 2) // (line * inner)), matrices, True)
        return out
    per_row = -(-inner // wide)

    def tiles(low: int, high: int) -> None:
        for tile in range(low, high):
            row, column = tile // per_row, tile % per_row * wide
            part = np.ascontiguousarray(source[row, :, column : column + wide].T)
            target[row, :, column : column + wide] = function(part, -1).T

    threads.blocks(outer * per_row, 1, tiles, True)
    return out


@functools.lru_cache(256)
def _halves(n: int) -> tuple[int, int]:
    """n as a product of two sizes, the first the smaller and as large as it can be."""
    first = next(d for d in range(math.isqrt(n), 0, -1) if n % d == 0)
    return first, n // first


@functools.lru_cache(4)
def _twiddles(n: int, first: int, sign: int, kind: Any) -> Array:
    """exp(sign 2 pi i j k / n) for j < n / first and k < first."""
    exact = np.arange(n // first)[:, None] * np.arange(first)
    return np.exp(exact * (sign * 2j * math.pi / n)).astype(kind)


def _in_two_steps(source: Array, target: Array, step: Any, norm: Any, twiddles: Array) -> None:
    """A long line as a matrix: its columns, twiddles, its rows; the target is (columns, rows)."""
    middle = np.empty_like(twiddles)  # by column
    count, width = source.shape

    def columns(low: int, high: int) -> None:
        part = np.ascontiguousarray(source[:, low:high].T)
        np.multiply(step(part, norm=norm), twiddles[low:high], out=middle[low:high])

    def rows(low: int, high: int) -> None:
        part = np.ascontiguousarray(middle[:, low:high].T)
        target[:, low:high] = step(part, norm=norm).T

    threads.blocks(width, 64, columns, True)
    threads.blocks(count, 64, rows, True)


def _long_lines(x: Array, step: Any, norm: Any, sign: int) -> Array:
    """Lines that do not fit the cache, one after the other."""
    n, kind = x.shape[-1], _complex(x.dtype)
    first, second = _halves(n)
    twiddles = _twiddles(n, first, sign, kind)
    out = np.empty(x.shape, kind)
    for source, target in zip(x.reshape(-1, first, second), out.reshape(-1, second, first)):
        _in_two_steps(source, target, step, norm, twiddles)
    return out


def _complex_dim(x: Array, dim: int, norm: int, forward: bool) -> Array:
    n = x.shape[dim]
    scale = _SCALES[norm] if forward else _SCALES[2 - norm]
    step = np.fft.fft if forward else np.fft.ifft
    if n >= _LONG and _halves(n)[0] >= 64 and (x.ndim == 1 or dim == x.ndim - 1):
        return _long_lines(np.ascontiguousarray(x), step, scale, -1 if forward else 1)
    return _along(
        lambda part, axis: step(part, axis=axis, norm=scale), x, dim, n, _complex(x.dtype)
    )


# ---- where results lie ---------------------------------------------------------------------------


def _innermost(
    compute: Callable[..., Array], x: Array, dims: Dims, last_stays: bool = True
) -> Array:
    """compute(x, dims), its result having the transformed dims innermost in memory, as MKL's has,
    and the others in the order of x."""
    order, back, moved = transform_order(x.strides, dims, last_stays)
    out = compute(x.transpose(order), moved)
    if 1 in out.shape:
        _C.restride(out, contiguous_strides(out.shape))
    return out.transpose(back)


# ---- the transforms ------------------------------------------------------------------------------


def c2c(x: Array, dims: Dims, norm: int, forward: bool) -> Array:
    """The transform over dims; norm 0: as it is, 1: by the root of the size, 2: by the size."""
    if not dims or not x.size:
        return x.astype(_complex(x.dtype))

    def compute(x: Array, dims: Dims) -> Array:
        for dim in reversed(dims):
            x = _complex_dim(x, dim, norm, forward)
        return x

    return _innermost(compute, x, dims, last_stays=False)


def r2c(x: Array, dims: Dims, norm: int, onesided: bool) -> Array:
    """The transform of real numbers; of the last of dims the first half, or all."""
    last = dims[-1]
    n, kind = x.shape[last], _complex(x.dtype)
    size = n // 2 + 1
    if not x.size:
        return np.zeros([*x.shape[:last], size if onesided else n, *x.shape[last + 1 :]], kind)

    def compute(x: Array, dims: Dims) -> Array:
        *others, last = dims
        if onesided:
            real = lambda part, axis: np.fft.rfft(part, axis=axis, norm=_SCALES[norm])
            out = _along(real, x, last, size, kind)
        else:
            out = _complex_dim(x, last, norm, True)
        for dim in reversed(others):
            out = _complex_dim(out, dim, norm, True)
        return out

    return _innermost(compute, x, dims)


def c2r(x: Array, dims: Dims, norm: int, size: int) -> Array:
    """The inverse of r2c's first half: real numbers, `size` of them along the last of dims."""
    *others, last = dims
    kind = np.dtype(_complex(x.dtype).type(0).real.dtype)
    if not x.size:
        return np.zeros([*x.shape[:last], size, *x.shape[last + 1 :]], kind)
    x = c2c(x, tuple(others), norm, False) if others else x
    real = lambda part, axis: np.fft.irfft(part, size, axis=axis, norm=_SCALES[2 - norm])
    compute = lambda x, dims: _along(real, x, dims[0], size, kind)
    return _innermost(compute, x, (last,))
