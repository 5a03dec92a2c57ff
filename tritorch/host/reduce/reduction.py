"""Reductions over dims."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tritorch.arrays.arrays import asarray, by_steps, divide, fold, scratch, seen
from tritorch.core.dtype import dtype
from tritorch.host import loops, threads
from tritorch.host.chains import rowwise
from tritorch.host.linalg import blas
from tritorch.host.pointwise.narrow import computing, is_narrow, like, row_major, widen
from tritorch.host.reduce import rows

Array = np.ndarray[Any, Any]
Dims = tuple[int, ...]
_places_of_largest, _places_of_smallest = seen(np.ndarray.argmax), seen(np.ndarray.argmin)


def _type(kind: np.dtype[Any]) -> np.dtype[Any]:
    """What a reduction to a type accumulates in."""
    return computing(kind)


def _out(result: Any, kind: np.dtype[Any]) -> Array:
    array = row_major(asarray(result))
    return array if array.dtype is kind or array.dtype == kind else array.astype(kind)


def convert(x: Array, kind: np.dtype[Any]) -> Array:
    """x in a type, of complex numbers the real part if the type is real."""
    if x.dtype == kind:
        return x
    if x.dtype.kind == "c" and kind.kind not in "cb":
        x = x.real
    elif is_narrow(x.dtype) and kind.kind in "iu":
        x = x.astype(np.float32)
    if x.dtype.kind == "f" and kind.kind in "iu" and kind.itemsize < 8:
        x = x.astype(np.int64)  # wraps, where a direct cast would saturate
    return x.astype(kind)


_CHUNK = 1 << 16  # elements of a row, and
_TALL = 512  # rows of a column, that are reduced before the rest: for threads, and for accuracy


@functools.lru_cache(16)
def _rows_by(ufunc: Any, kind: np.dtype[Any]) -> Any:
    return rowwise.rowwise(_ROWS[ufunc], "a", kind)


def _along_last(ufunc: Any, x: Array, dims: Dims, keepdim: bool) -> Array | None:
    """A reduction over the last dim of a dense array of floats; None of any other."""
    kind, shape = x.dtype, x.shape
    if len(dims) != 1 or dims[0] != len(shape) - 1 or kind not in rows.BLAS:
        return None
    n = shape[-1]
    if not x.flags.c_contiguous or not 0 < n <= threads.BLOCK or not x.size:
        return None
    out = scratch((*shape[:-1], 1) if keepdim else shape[:-1], kind)
    _rows_by(ufunc, kind)(x.reshape(-1, n), out.reshape(-1, 1))
    return out


def _fold(ufunc: Any, x: Array, kind: np.dtype[Any], dims: Dims, keepdim: bool) -> Any:
    """ufunc.reduce over dims, in a type; large arrays in chunks over threads."""
    if x.dtype is kind and kind in rows.BLAS and x.flags.c_contiguous:
        if dims and dims[-1] - dims[0] == len(dims) - 1 and dims[-1] == x.ndim - 1 and x.size:
            first = dims[0]  # the last dims
            shape = x.shape[:first]
            quick = _of_rows(ufunc, x, x.size // math.prod(shape) if first else x.size)
            if quick is not None:
                return quick.reshape(shape + (1,) * len(dims) if keepdim else shape)
        quick = _by_rows(ufunc, x, dims)
        if quick is not None:
            return quick.reshape(_reduced(x.shape, dims, keepdim))
    if x.size < threads.PARALLEL or not x.flags.c_contiguous:
        return fold(ufunc, convert(x, kind), axis=dims, keepdims=keepdim)
    shape, final = _reduced(x.shape, dims, True), _reduced(x.shape, dims, keepdim)
    if dims == tuple(range(x.ndim - len(dims), x.ndim)):  # the last dims: rows
        n = math.prod(x.shape[i] for i in dims)
        return _fold_rows(ufunc, x.reshape(x.size // n, n), kind).reshape(final)
    if dims == tuple(range(len(dims))):  # the first dims: columns
        n = math.prod(x.shape[i] for i in dims)
        return _fold_columns(ufunc, x.reshape(n, x.size // n), kind).reshape(final)
    lead = x.shape[0]
    if 0 in dims or lead < 2:
        return ufunc.reduce(convert(x, kind), axis=dims, keepdims=keepdim)
    out = np.empty(shape, kind)

    def work(low: int, high: int) -> None:
        ufunc.reduce(convert(x[low:high], kind), axis=dims, keepdims=True, out=out[low:high])

    threads.rows(lead, x.nbytes // lead, work)
    return out.reshape(final)


def _reduced(shape: tuple[int, ...], dims: Dims, keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return tuple(1 if i in dims else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in dims)


def _by_rows(ufunc: Any, x: Array, dims: Dims) -> Array | None:
    """By rows, or down columns, where that is a faster way; dims that lie apart one run of them
    after the other."""
    if not x.size:
        return None
    last = dims[-1]
    first = next(i for i in range(last, -1, -1) if i - 1 not in dims)
    n = x.shape[last] if first == last else math.prod(x.shape[first : last + 1])
    if first != dims[0]:
        if x.size < rows.FEW or ufunc not in _ROWS:
            return None
        part = _by_rows(ufunc, x, tuple(range(first, last + 1)))
        if part is None:
            return None
        kept = part.reshape(_reduced(x.shape, tuple(range(first, last + 1)), True))
        return np.asarray(_fold(ufunc, kept, x.dtype, dims[: dims.index(first)], True))
    if last == x.ndim - 1:
        return _of_rows(ufunc, x, n)
    if x.size < rows.FEW:
        return None
    outer = math.prod(x.shape[:first])
    width = x.size // (outer * n)
    out = scratch(outer * width, x.dtype)
    found = loops.fold_columns(x, out, x.dtype.char, ufunc.__name__, outer, n, width)
    return out if found else None


_ROWS = {
    np.add: rowwise.total, np.multiply: rowwise.product, np.maximum: rowwise.largest,
    np.minimum: rowwise.smallest,
}  # fmt: skip
_LONG = 1 << 10  # elements of a piece of a row that one thread does not add up alone


def _of_rows(ufunc: Any, x: Array, n: int) -> Array | None:
    """Sums and extremes of rows of n elements, of which long ones are added up in pieces."""
    function = _ROWS.get(ufunc)
    if function is None:
        return None
    count = x.size // n
    if n > threads.BLOCK:
        pieces = None if n % _LONG else _of_rows(ufunc, x, _LONG)
        return None if pieces is None else _of_rows(ufunc, pieces, n // _LONG)
    out = scratch((count, 1), x.dtype)
    rowwise.rowwise(function, "a", x.dtype)(x.reshape(count, n), out)
    return out


def _fold_rows(ufunc: Any, x: Array, kind: np.dtype[Any]) -> Array:
    count, n = x.shape
    whole = n // _CHUNK
    if whole < 2:
        out = np.empty(count, kind)

        def work(low: int, high: int) -> None:
            ufunc.reduce(convert(x[low:high], kind), axis=1, out=out[low:high])

        threads.rows(count, n * x.itemsize, work)
        return out
    pieces = whole + (n % _CHUNK > 0)
    partial = np.empty((count, pieces), kind)

    def chunk(low: int, high: int) -> None:
        for place in range(low, high):
            row, i = divmod(place, pieces)
            part = convert(x[row, i * _CHUNK : (i + 1) * _CHUNK], kind)
            partial[row, i] = ufunc.reduce(part)

    threads.blocks(count * pieces, 1, chunk, True)
    return ufunc.reduce(partial, axis=1)


def _fold_columns(ufunc: Any, x: Array, kind: np.dtype[Any]) -> Array:
    n, columns = x.shape
    pieces = -(-n // _TALL)
    partial = np.empty((pieces, columns), kind)

    def work(low: int, high: int) -> None:
        for i in range(low, high):
            ufunc.reduce(convert(x[i * _TALL : (i + 1) * _TALL], kind), axis=0, out=partial[i])

    if pieces > 1:
        threads.blocks(pieces, 1, work, True)
        return ufunc.reduce(partial, axis=0)
    width = 1 << 12

    def strip(low: int, high: int) -> None:
        ufunc.reduce(convert(x[:, low:high], kind), axis=0, out=partial[0, low:high])

    threads.blocks(columns, width, strip, True)
    return partial[0]


@by_steps
def sum(x: Array, dims: Dims, keepdim: bool, dtype: dtype) -> Array:
    """The sum over dims."""
    kind = dtype.numpy
    if kind.kind == "b":
        return any(x, dims, keepdim)
    if _is_small(x, dims, kind):
        return loops.sum_dims(np.ascontiguousarray(x), dims[0], len(dims), keepdim)
    return _out(_fold(np.add, x, _type(kind), dims, keepdim), kind)


def _is_small(x: Array, dims: Dims, kind: np.dtype[Any]) -> bool:
    """Says if `ops/reduce/reduction.py` adds such an array up at once, by these very loops, when it
    is row-major: results do not depend on how an array lies."""
    side_by_side = dims[-1] - dims[0] == len(dims) - 1
    return 0 < x.size < 4096 and x.dtype is kind and kind.char in "fd" and side_by_side


@by_steps
def mean(x: Array, dims: Dims, keepdim: bool, dtype: dtype) -> Array:
    """The mean over dims."""
    kind = _type(dtype.numpy)
    small = 0 < x.size < 4096 and x.dtype is kind and kind in rows.BLAS
    if small and len(dims) == x.ndim and not keepdim:
        total = loops.sum_dims(np.ascontiguousarray(x), 0, x.ndim, False)
        return asarray(divide(total, x.size))  # as `Tensor.mean()` computes at once
    count = x.shape[dims[0]] if len(dims) == 1 else math.prod(x.shape[dim] for dim in dims)
    total = _fold(np.add, x, kind, dims, keepdim)
    return _out(divide(total, count), dtype.numpy)


@by_steps
def prod(x: Array, dims: Dims, keepdim: bool, dtype: dtype) -> Array:
    """The product over dims."""
    kind = dtype.numpy
    if kind.kind == "b":
        return all(x, dims, keepdim)
    return _out(_fold(np.multiply, x, _type(kind), dims, keepdim), kind)


def _wide(x: Array) -> np.dtype[Any]:
    return computing(x.dtype)


def _extreme(ufunc: Any, x: Array, dims: Dims, keepdim: bool) -> Array:
    quick = _along_last(ufunc, x, dims, keepdim)
    if quick is not None:
        return quick
    kind = x.dtype if x.dtype in rows.BLAS else _wide(x)
    return _out(_fold(ufunc, x, kind, dims, keepdim), x.dtype)


@by_steps
def amax(x: Array, dims: Dims, keepdim: bool) -> Array:
    """The largest element over dims."""
    return _extreme(np.maximum, x, dims, keepdim)


@by_steps
def amin(x: Array, dims: Dims, keepdim: bool) -> Array:
    """The smallest element over dims."""
    return _extreme(np.minimum, x, dims, keepdim)


_BOOL = np.dtype(bool)


@by_steps
def any(x: Array, dims: Dims, keepdim: bool) -> Array:
    """Whether any element is true."""
    return row_major(asarray(_fold(np.logical_or, x, _BOOL, dims, keepdim)))


@by_steps
def all(x: Array, dims: Dims, keepdim: bool) -> Array:
    """Whether all elements are true."""
    return row_major(asarray(_fold(np.logical_and, x, _BOOL, dims, keepdim)))


def count_nonzero(x: Array, dims: Dims) -> Array:
    """How many elements are not 0."""
    return row_major(np.asarray(_fold(np.add, x != 0, np.dtype(np.int64), dims, False)))


def _argmax(x: Array, dim: int) -> Array:
    return _places_of_largest(x, dim, keepdims=True)  # the first of equals; NaN is the greatest


def _argmin(x: Array, dim: int) -> Array:
    return _places_of_smallest(x, dim, keepdims=True)


def _with_index(find: Any, x: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    index = find(widen(x), dim)
    if dim == x.ndim - 1 and x.flags.c_contiguous and x.size:
        flat = index.reshape(-1)
        values = rows.picked(x.reshape(flat.size, -1), flat)
        shape = index.shape if keepdim else index.shape[:-1]
        return values.reshape(shape), index.reshape(shape)
    values = np.take_along_axis(x, index, dim)
    values, index = (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))
    return row_major(values), row_major(index)


@by_steps
def max_with_index(x: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The largest along a dim, and where."""
    return _with_index(_argmax, x, dim, keepdim)


@by_steps
def min_with_index(x: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The smallest along a dim, and where."""
    return _with_index(_argmin, x, dim, keepdim)


@by_steps
def argmax(x: Array, dim: int, keepdim: bool) -> Array:
    """Where the largest is."""
    return row_major(asarray(_places_of_largest(widen(x), dim, keepdims=keepdim)))


@by_steps
def argmin(x: Array, dim: int, keepdim: bool) -> Array:
    """Where the smallest is."""
    return row_major(asarray(_places_of_smallest(widen(x), dim, keepdims=keepdim)))


@by_steps
def var(x: Array, dims: Dims, correction: float, keepdim: bool) -> Array:
    """The variance over dims."""
    n, kind = x.shape[-1], x.dtype
    if len(dims) == x.ndim > 1 and x.flags.c_contiguous and x.size <= threads.BLOCK:
        n = x.size  # one row
    elif dims != (x.ndim - 1,):
        n = 0
    if rowwise.pays(n, x):
        out = scratch((x.size // n, 1), kind)
        given = rowwise.number(n, kind), rowwise.number(max(n - correction, 0), kind)
        rowwise.rowwise(_row_variance, "acc", kind)(x.reshape(-1, n), *given, out)
        return out.reshape(_reduced(x.shape, dims, keepdim))
    return var_mean(x, dims, correction, keepdim)[0]


def var_mean(x: Array, dims: Dims, correction: float, keepdim: bool) -> tuple[Array, Array]:
    """The variance and the mean over dims."""
    if dims == (x.ndim - 1,) and x.dtype in rows.BLAS and 0 < x.nbytes <= threads.CACHE:
        if x.flags.c_contiguous:
            kind, count = x.dtype, x.shape[-1]
            matrix, shape = x.reshape(-1, count), x.shape[:-1] + (1,) * keepdim
            variance, average = _var_of_rows(matrix, max(count - correction, 0))
            average = _as_running(average, matrix, (1,))
            return variance.reshape(shape), average.reshape(shape)
    narrow = _wide(x)
    large = x.size > threads.BLOCK  # for copies of float64; what a mean lacks is made good
    kind = np.dtype(np.float64) if narrow == np.float32 and not large else narrow
    count = math.prod(x.shape[dim] for dim in dims)
    real = kind.type(0).real.dtype
    wide = convert(x, kind)
    average = np.true_divide(_fold(np.add, wide, kind, dims, True), kind.type(count))
    off = wide - average
    if large and kind == np.float32:
        lacks = np.true_divide(_fold(np.add, off, kind, dims, True), kind.type(count))
    square = (off * off.conj()).real if kind.kind == "c" else np.square(off, out=off)
    total = _fold(np.add, np.ascontiguousarray(square), real, dims, True)
    if large and kind == np.float32:
        known = np.isfinite(average)
        total = total - np.where(known, np.square(lacks) * kind.type(count), 0)
        average = np.where(known, average + lacks, average)
    total = total if keepdim else total.squeeze(dims)
    divisor = max(count - correction, 0) if count else 0  # of nothing: NaN, whatever correction
    variance = np.true_divide(total, real.type(divisor))
    average = _as_running(average, x, dims)
    if not keepdim:
        average = average.squeeze(dims)
    return _out(variance, x.dtype if kind.kind != "c" else real), _out(average, x.dtype)


def _as_running(average: Array, x: Array, dims: Dims) -> Array:
    """Means as PyTorch's running ones: NaN once an infinity is followed by anything."""
    infinite = np.isinf(average)
    if not np.logical_or.reduce(infinite, None):
        return average
    moved = np.moveaxis(x, dims, range(-len(dims), 0))
    flat = moved.reshape(*moved.shape[: x.ndim - len(dims)], -1)
    followed = np.isinf(flat[..., :-1]).any(-1).reshape(average.shape)
    return np.where(infinite & followed, np.array(np.nan, average.dtype), average)


def _row_var(x: Any, n: Any, divisor: Any) -> Any:
    """In float64: distances from a rounded mean would be those from another number."""
    wide, n, divisor = (each.astype(np.float64) for each in (x, n, divisor))
    average = rowwise.total(wide) / n
    variance = rowwise.total(np.square(wide - average)) / divisor
    return variance.astype(x.dtype), average.astype(x.dtype)


def _row_variance(x: Any, n: Any, divisor: Any) -> Any:
    return _row_var(x, n, divisor)[0]


def _var_of_rows(x: Array, divisor: float) -> tuple[Array, Array]:
    count, kind = x.shape[1], x.dtype
    if rowwise.pays(count, x):
        out = scratch((len(x), 1), kind), scratch((len(x), 1), kind)
        given = rowwise.number(count, kind), rowwise.number(divisor, kind)
        rowwise.rowwise(_row_var, "acc", kind)(x, *given, *out)
        return out
    wide = x.astype(np.float64, copy=False)
    average = rows.sums(wide)
    np.true_divide(average, count, out=average)
    off = rows.across(np.subtract, wide, average, np.empty_like(wide))
    total = rows.sums(np.square(off, out=off))
    np.true_divide(total, divisor, out=total)
    return total.astype(kind, copy=False), average.astype(kind, copy=False)


_NORMS: dict[float, Any] = {
    1: lambda x: rowwise.total(np.absolute(x)),
    2: lambda x: np.sqrt(rowwise.total(np.square(x))),
    math.inf: lambda x: rowwise.largest(np.absolute(x)),
    -math.inf: lambda x: rowwise.smallest(np.absolute(x)),
}


@by_steps
def vector_norm(x: Array, ord: float, dims: Dims, keepdim: bool, dtype: dtype) -> Array:
    """(sum |x|^ord)^(1/ord) over dims."""
    plain = x.dtype in rows.BLAS and x.flags.c_contiguous
    if ord == 2 and len(dims) == x.ndim and plain:
        flat, total = x.reshape(-1), 0.0
        for i in range(0, flat.size, 1 << 20):  # BLAS, partial sums in float64
            part = flat[i : i + (1 << 20)]
            total += blas.inner(part, part)
        out = np.array(math.sqrt(total) if total == total else math.nan, dtype.numpy)
        return out.reshape((1,) * x.ndim) if keepdim else out
    if plain and x.dtype is dtype.numpy and ord in _NORMS and x.size and dims[-1] == x.ndim - 1:
        if len(dims) == x.ndim - dims[0]:
            n = math.prod(x.shape[dims[0] :])
            if rowwise.pays(n, x):
                column = scratch((x.size // n, 1), x.dtype)
                rowwise.rowwise(_NORMS[ord], "a", x.dtype)(x.reshape(-1, n), column)
                return column.reshape(_reduced(x.shape, dims, keepdim))
    size = np.absolute(convert(x, _type(dtype.numpy)) if x.dtype.kind != "c" else x)
    kind = size.dtype
    along = lambda ufunc, v: _fold(ufunc, v, kind, dims, keepdim)
    if ord == math.inf:
        out = along(np.maximum, size)
    elif ord == -math.inf:
        out = along(np.minimum, size)
    elif ord == 0:
        out = along(np.add, size != 0)
    elif ord == 1:
        out = along(np.add, size)
    elif ord == 2:
        out = np.sqrt(along(np.add, np.square(size, out=size)))
    else:
        power = kind.type(ord)
        out = np.power(along(np.add, np.power(size, power, out=size)), 1 / power)
    return _out(out, dtype.numpy)


@by_steps
def logsumexp(x: Array, dims: Dims, keepdim: bool) -> Array:
    """log(sum(exp(x))) over dims, without overflow."""
    wide = widen(x)
    last = x.ndim - 1
    if dims == (last,) and x.size and wide.dtype in rows.BLAS:
        matrix = wide.reshape(-1, x.shape[last])
        if rowwise.pays(x.shape[last], matrix):  # they share threads by themselves
            total = rows.log_of_sums(matrix, of_infinite=True)
            return like(total.reshape(_reduced(x.shape, dims, keepdim)), x)
        total = np.empty((len(matrix), 1), wide.dtype)

        def work(low: int, high: int) -> None:
            total[low:high] = rows.log_of_sums(matrix[low:high], of_infinite=True)

        threads.rows(len(matrix), matrix.nbytes // len(matrix), work)
        return like(total.reshape(_reduced(x.shape, dims, keepdim)), x)
    if math.prod(x.shape[dim] for dim in dims) == 0:
        total = _fold(np.add, loops.exp(wide), wide.dtype, dims, keepdim)
        return row_major(like(loops.log(total), x))
    top = _fold(np.maximum, wide.real, wide.real.dtype, dims, True)
    top = np.where(np.isfinite(top), top, 0).astype(wide.real.dtype)
    off = wide - top
    total = loops.log(_fold(np.add, loops.exp(off, out=off), wide.dtype, dims, True)) + top
    return row_major(like(total if keepdim else total.squeeze(dims), x))
