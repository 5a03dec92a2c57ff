"""Normalisation and its gradients, in blocks that stay in the cache, over threads.

Sums over the whole batch (the gradients of weights) are kept for each block and added in order, so
that threads change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.host import blas, threads
from tritorch.host.narrow import computing, like, widen
from tritorch.host.pointwise import relu, relu_backward
from tritorch.host.rows import FEW, dots, sums
from tritorch.host.rowwise import FLOATS, kinds, number, rowwise, total

Array = np.ndarray[Any, Any]


def _kind(x: Array) -> np.dtype[Any]:
    return computing(x.dtype)


def _flat(v: Array | None) -> Any:
    return None if v is None else widen(v).reshape(-1)


def _rows(x: Array, n: int) -> Array:
    """x as a matrix, whose rows are the last n dims."""
    if n == 1 and x.ndim == 2:
        return x
    lead = math.prod(x.shape[: x.ndim - n])
    return x.reshape(lead, math.prod(x.shape[x.ndim - n :]))


class _Blocks:
    """Blocks of rows; sums over all rows are kept for each block, then added in order."""

    def __init__(self, n: int, width: int, kind: np.dtype[Any]) -> None:
        self.n, self.bytes = n, width * kind.itemsize
        self.per = max(1, threads.CACHE // max(self.bytes, 1))
        self.count = -(-n // self.per)

    def run(self, work: Any) -> None:
        threads.rows(self.n, self.bytes, work)

    def partial(self, shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
        return np.zeros((self.count, *shape), kind)


# ---- over the last dims ----


def _row_statistics(x: Any, size: Any, eps: Any, weight: Any, bias: Any) -> Any:
    """The mean, the variance, 1 / its root, and what is normalised."""
    mean = total(x) / size
    centred = x - mean
    variance = total(np.square(centred)) / size
    rstd = np.reciprocal(np.sqrt(variance + eps))
    return mean, variance, rstd, _moved(centred * rstd, weight, bias)


def _row_norm(x: Any, size: Any, eps: Any, weight: Any, bias: Any) -> Any:
    mean, _, rstd, y = _row_statistics(x, size, eps, weight, bias)
    return mean, rstd, y


def _moved(x: Any, weight: Any, bias: Any) -> Any:
    y = x if weight is None else x * weight
    return y if bias is None else y + bias


def _row_rms_norm(x: Any, size: Any, eps: Any, weight: Any) -> Any:
    rstd = np.reciprocal(np.sqrt(total(np.square(x)) / size + eps))
    y = x * rstd
    return rstd, y if weight is None else y * weight


def _row_gradient(x: Any, g: Any, mean: Any, rstd: Any, size: Any, weight: Any) -> Any:
    """g (x - mean), whose sums over rows are the weight's gradient but for rstd; x's gradient."""
    centred = x if mean is None else x - mean
    product = g * centred
    scaled = g if weight is None else g * weight
    by = total(product if weight is None else scaled * centred) * (rstd * rstd / size)
    shift = centred * by if mean is None else centred * by + total(scaled) / size
    return product, (scaled - shift) * rstd


def _dense(v: Array | None, kind: np.dtype[Any]) -> Any:
    """A weight as a row."""
    return None if v is None else np.ascontiguousarray(widen(v), kind).reshape(-1)


def _normed(
    function: Any, rows: Array, made: Sequence[Array], eps: float, *given: Array | None
) -> Array:
    """What a function of rows gives that is as large as they are; `made` are columns for the
    others, to which it gives what they are of no elements."""
    kind, count = made[0].dtype, rows.shape[1]
    run = rowwise(function, "acc" + kinds(*given), kind)
    numbers, out = (number(count, kind), number(eps, kind)), np.empty(rows.shape, rows.dtype)
    if kind is rows.dtype and count:  # a chain's threads share it
        run(np.ascontiguousarray(rows), *numbers, *given, *made, out)
        return out

    def work(low: int, high: int) -> None:
        block = np.ascontiguousarray(rows[low:high], kind)
        target = np.empty(block.shape, kind)
        run(block, *numbers, *given, *[column[low:high] for column in made], target)
        out[low:high] = target

    if count:
        threads.rows(len(rows), count * kind.itemsize, work)
    else:
        for column, value in zip(made[::-1], (eps**-0.5 if eps > 0 else math.inf, 0)):
            column.fill(value)
    return out


def layer_norm(
    x: Array, n: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """(x - mean) * rstd * weight + bias over the last n dims."""
    rows, kind, lead = _rows(x, n), _kind(x), x.shape[: x.ndim - n]
    made = np.empty((len(rows), 1), kind), np.empty((len(rows), 1), kind)
    out = _normed(_row_norm, rows, made, eps, _dense(weight, kind), _dense(bias, kind))
    return out.reshape(x.shape), made[0].reshape(lead), made[1].reshape(lead)


def _rows_backward(
    g: Array, x: Array, n: int, weight: Array | None, mean: Array | None, rstd: Array
) -> tuple[Array, Array, Array]:
    rows, grad, kind = _rows(x, n), _rows(g, n), _kind(x)
    w, size = _dense(weight, kind), number(max(rows.shape[1], 1), kind)
    m, r = (None if v is None else v.reshape(-1, 1) for v in (mean, rstd))
    assert r is not None
    out = np.empty(rows.shape, x.dtype)
    blocks = _Blocks(rows.shape[0], rows.shape[1], kind)
    dw, db = blocks.partial(rows.shape[1:], kind), blocks.partial(rows.shape[1:], kind)
    run = rowwise(_row_gradient, "aa" + kinds(m, r) + "c" + kinds(w), kind)

    def work(low: int, high: int) -> None:
        block, dy = (np.ascontiguousarray(v[low:high], kind) for v in (rows, grad))
        scale, place = r[low:high], low // blocks.per
        product = np.empty(block.shape, kind)
        target = out[low:high] if kind is x.dtype else np.empty(block.shape, kind)
        run(block, dy, None if m is None else m[low:high], scale, size, w, product, target)
        blas.matmul(scale.T, product, out=dw[place, None])
        blas.matmul(np.ones_like(scale).T, dy, out=db[place, None])
        if target.dtype is not x.dtype:
            out[low:high] = target

    blocks.run(work)
    ref, shape = x if weight is None else weight, x.shape[x.ndim - n :]
    dw, db = np.add.reduce(dw, axis=0).reshape(shape), np.add.reduce(db, axis=0).reshape(shape)
    return out.reshape(x.shape), like(dw, ref), like(db, ref)


def layer_norm_backward(
    g: Array, x: Array, n: int, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    return _rows_backward(g, x, n, weight, mean, rstd)


def rms_norm(x: Array, n: int, weight: Array | None, eps: float) -> tuple[Array, Array]:
    """x * rstd * weight over the last n dims."""
    rows, kind = _rows(x, n), _kind(x)
    rstd = np.empty((len(rows), 1), kind)
    out = _normed(_row_rms_norm, rows, (rstd,), eps, _dense(weight, kind))
    return out.reshape(x.shape), rstd.reshape(x.shape[: x.ndim - n])


def rms_norm_backward(
    g: Array, x: Array, n: int, weight: Array | None, rstd: Array
) -> tuple[Array, Array]:
    """The gradients of x and weight."""
    return _rows_backward(g, x, n, weight, None, rstd)[:2]


# ---- over groups of channels ----


def group_norm(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Normalised over groups of channels."""
    n, c, kind = x.shape[0], x.shape[1], _kind(x)
    plane, made = math.prod(x.shape[2:]), [np.empty((n * groups, 1), kind) for _ in range(2)]
    plain = weight is None and bias is None
    wide = x if plain else x.astype(kind, copy=False)
    rows = wide.reshape(n * groups, c // groups * plane)
    out = _normed(_row_norm, rows, made, eps, None, None).reshape(x.shape)
    if not plain:
        w, b = (None if v is None else _dense(v, kind)[:, None] for v in (weight, bias))
        cube = out.reshape(n, c, plane)
        rowwise(_moved, "a" + kinds(w, b), kind)(cube, w, b, cube)
        out = out.astype(x.dtype, copy=False)
    return out, made[0].reshape(n, groups), made[1].reshape(n, groups)


def group_norm_backward(
    g: Array, x: Array, groups: int, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    n, per = x.shape[0], x.shape[1] // groups
    kind, plane = _kind(x), math.prod(x.shape[2:])
    rows, grad = x.reshape(n * groups, per, plane), g.reshape(n * groups, per, plane)
    w = None if weight is None else _flat(weight).reshape(groups, per)
    m, r = mean.reshape(-1, 1, 1), rstd.reshape(-1, 1, 1)
    out = np.empty(rows.shape, x.dtype)
    dw, db = np.empty((n * groups, per), kind), np.empty((n * groups, per), kind)
    size = kind.type(max(per * plane, 1))

    def work(low: int, high: int) -> None:
        block = rows[low:high].astype(kind, copy=False)
        dy = grad[low:high].astype(kind, copy=False)
        normal = block - m[low:high]
        normal *= r[low:high]
        totals = sums(dy)[..., 0], dots(dy, normal)[..., 0]
        db[low:high], dw[low:high] = totals
        share = 1 if w is None else w[np.arange(low, high) % groups].astype(kind, copy=False)
        first, second = (np.add.reduce(s * share, axis=1)[:, None, None] / size for s in totals)
        normal *= second
        normal += first
        scaled = dy if w is None else dy * share[..., None]  # type: ignore[index]
        np.subtract(scaled, normal, out=normal)
        np.multiply(normal, r[low:high], out=out[low:high], casting="unsafe")

    _Blocks(n * groups, per * plane, kind).run(work)
    ref = x if weight is None else weight
    dw, db = (np.add.reduce(v.reshape(n, groups * per), axis=0) for v in (dw, db))
    return out.reshape(x.shape), like(dw, ref), like(db, ref)


# ---- over the batch ----


def _over_batch(sums: Array) -> Array:
    """(N, C, 1) -> (C,), sums of planes added in float64."""
    return np.add.reduce(sums[..., 0], axis=0, dtype=np.float64)


NARROW = 8  # elements of planes from which they are normalised natively


def _is_native(x: Array) -> bool:
    """Whether the planes of x are normalised natively."""
    return math.prod(x.shape[2:]) >= NARROW and x.dtype in FLOATS and x.size >= FEW


def batch_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    mean: Array | None,
    var: Array | None,
    training: bool,
    eps: float,
    *,
    of_relu: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """Normalised over all dims but the channels: out, or relu of it if there are FEW elements or
    more; mean, rstd, variance."""
    kind, c = _kind(x), x.shape[1]
    cube = x.reshape(x.shape[0], c, math.prod(x.shape[2:]))
    if training and kind is x.dtype and 0 < x.size < FEW:
        flat = np.ascontiguousarray(cube.swapaxes(0, 1)).reshape(c, -1)  # channels are rows
        scaled, made = np.empty(flat.shape, kind), np.empty((3, c, 1), kind)
        columns = [None if v is None else _dense(v, kind)[:, None] for v in (weight, bias)]
        run = rowwise(_row_statistics, "acc" + kinds(*columns), kind)
        run(flat, number(flat.shape[1], kind), number(eps, kind), *columns, *made, scaled)
        m, v, r = made[..., 0]
        planes = scaled.reshape(c, cube.shape[0], cube.shape[2]).swapaxes(0, 1)
        return np.ascontiguousarray(planes).reshape(x.shape), m, r, v
    out = np.empty(cube.shape, x.dtype)
    if training:
        average, variance = np.empty(c, kind), np.empty(c, kind)
    else:
        average, variance = _flat(mean), _flat(var)
    if _is_native(x):
        average, variance = _dense(average, kind), _dense(variance, kind)
        _C.normalise(
            np.ascontiguousarray(x), _dense(weight, kind), _dense(bias, kind), out, average,
            variance, kind.char, cube.shape, eps, training, of_relu,
        )  # fmt: skip
    else:
        w, b = _flat(weight), _flat(bias)
        _by_blocks(cube, w, b, average, variance, training, eps, out)
        if of_relu:
            relu(out, out)
    rstd = 1 / np.sqrt(variance + variance.dtype.type(eps))
    return out.reshape(x.shape), average, rstd, variance


def _by_blocks(
    cube: Array, w: Any, b: Any, average: Array, variance: Array, training: bool, eps: float,
    out: Array,
) -> None:  # fmt: skip
    """The batch norm of a cube; training: with its averages and variances, which are written."""
    kind, count = _kind(cube), max(cube.shape[0] * cube.shape[2], 1)

    def work(low: int, high: int) -> None:
        block = cube[:, low:high].astype(kind, copy=False)
        if training:
            average[low:high] = _over_batch(sums(block)) / count
        target = block - average[low:high, None]
        if training:
            variance[low:high] = _over_batch(dots(target, target)) / count
        scale = 1 / np.sqrt(variance[low:high] + kind.type(eps))
        if w is not None:
            scale = scale * w[low:high]
        target *= scale[:, None]
        if b is not None:
            target += b[low:high, None]
        out[:, low:high] = target

    # Channels side by side in memory (no spatial dims) are better taken together.
    threads.rows(cube.shape[1], count * kind.itemsize, work)


def batch_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array, training: bool,
    y: Array | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of x, weight and bias; y: relu's result, if g is the gradient of that."""
    kind, c = _kind(x), x.shape[1]
    cube = x.reshape(x.shape[0], c, math.prod(x.shape[2:]))
    out = np.empty(cube.shape, x.dtype)
    dw, db = np.empty(c, kind), np.empty(c, kind)
    if _is_native(x) and g.dtype is x.dtype:
        given, made, block = (None if v is None else np.ascontiguousarray(v) for v in (g, y, x))
        w, m, r = (_dense(v, kind) for v in (weight, mean, rstd))
        _C.normalise_backward(
            given, made, block, w, m, r, out, dw, db, kind.char, cube.shape, training
        )
    else:
        grad = (g if y is None else relu_backward(g, y)).reshape(cube.shape)
        _gradients_by_blocks(grad, cube, weight, mean, rstd, training, out, dw, db)
    ref = x if weight is None else weight
    return out.reshape(x.shape), like(dw, ref), like(db, ref)


def _gradients_by_blocks(
    grad: Array, cube: Array, weight: Array | None, mean: Array, rstd: Array, training: bool,
    out: Array, dw: Array, db: Array,
) -> None:  # fmt: skip
    kind, count = _kind(cube), max(cube.shape[0] * cube.shape[2], 1)
    scale = rstd if weight is None else rstd * _flat(weight)

    def work(low: int, high: int) -> None:
        dy = grad[:, low:high].astype(kind, copy=False)
        centred = cube[:, low:high] - mean[low:high, None]
        r = rstd[low:high]
        first, second = _over_batch(sums(dy)), _over_batch(dots(dy, centred)) * r
        db[low:high], dw[low:high] = first, second
        factor = scale[low:high, None]
        if training:
            centred *= (second * r / count).astype(kind)[:, None]
            centred += (first / count).astype(kind)[:, None]
            np.subtract(dy, centred, out=centred)
            dy = centred
        np.multiply(dy, factor, out=out[:, low:high], casting="unsafe")

    threads.rows(cube.shape[1], count * kind.itemsize, work)
