"""Normalisation and its gradients, in blocks that stay in the cache, over threads.

Sums over the whole batch (the gradients of weights) are kept for each block and added in order, so
that threads change nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch.host import threads
from tritorch.host.narrow import computing, like, widen
from tritorch.host.rows import FEW, across, dots, sums

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


def _standardize(x: Array, out: Array, eps: float) -> tuple[Array, Array, Array]:
    """out = (x - mean) rstd along the last dim of a matrix; mean, rstd and variance as columns."""
    size = x.dtype.type(max(x.shape[1], 1))
    mean = sums(x)
    np.divide(mean, size, out=mean)
    across(np.subtract, x, mean, out)
    variance = sums(np.square(out)) if x.size < FEW else dots(out, out)
    np.divide(variance, size, out=variance)
    rstd = np.add(variance, x.dtype.type(eps))
    np.reciprocal(np.sqrt(rstd, out=rstd), out=rstd)
    across(np.multiply, out, rstd, out)
    return mean, rstd, variance


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


def layer_norm(
    x: Array, n: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """(x - mean) * rstd * weight + bias over the last n dims."""
    rows, kind, w, b = _rows(x, n), _kind(x), _flat(weight), _flat(bias)
    out = np.empty(rows.shape, x.dtype)
    if kind is x.dtype and rows.nbytes <= threads.CACHE:
        m, r, _ = _standardize(rows, out, eps)
        if w is not None:
            np.multiply(out, w, out=out, casting="same_kind")
        if b is not None:
            np.add(out, b, out=out, casting="same_kind")
        lead = x.shape[: x.ndim - n]
        return out.reshape(x.shape), m.reshape(lead), r.reshape(lead)
    mean, rstd = np.empty(rows.shape[0], kind), np.empty(rows.shape[0], kind)

    def work(low: int, high: int) -> None:
        block = rows[low:high].astype(kind, copy=False)
        target = out[low:high] if kind == x.dtype else np.empty_like(block)
        m, r, _ = _standardize(block, target, eps)
        if w is not None:
            np.multiply(target, w, out=target, casting="same_kind")
        if b is not None:
            np.add(target, b, out=target, casting="same_kind")
        mean[low:high], rstd[low:high] = m[:, 0], r[:, 0]
        if kind != x.dtype:
            out[low:high] = target

    _Blocks(rows.shape[0], rows.shape[1], kind).run(work)
    lead = x.shape[: x.ndim - n]
    return out.reshape(x.shape), mean.reshape(lead), rstd.reshape(lead)


def _rows_backward(
    g: Array, x: Array, n: int, weight: Array | None, mean: Array | None, rstd: Array
) -> tuple[Array, Array, Array]:
    rows, grad, kind = _rows(x, n), _rows(g, n), _kind(x)
    w = _flat(weight)
    w = None if w is None else w.astype(kind, copy=False)
    m, r = (None if v is None else v.reshape(-1, 1) for v in (mean, rstd))
    out = np.empty(rows.shape, x.dtype)
    blocks = _Blocks(rows.shape[0], rows.shape[1], kind)
    dw, db = blocks.partial(rows.shape[1:], kind), blocks.partial(rows.shape[1:], kind)
    size = kind.type(max(rows.shape[1], 1))

    def work(low: int, high: int) -> None:
        block = rows[low:high].astype(kind, copy=False)
        dy = grad[low:high].astype(kind, copy=False)
        scale = r[low:high]  # type: ignore[index]
        centred = block.copy() if m is None else block - m[low:high]
        product = dy * centred
        np.matmul(scale.T, product, out=dw[low // blocks.per, None])
        np.matmul(np.ones_like(scale).T, dy, out=db[low // blocks.per, None])
        column = np.ones((len(centred[0]), 1), kind) if w is None else w[:, None]
        centred *= np.matmul(product, column) * (scale * scale / size)
        if m is not None:
            centred += np.matmul(dy, column) / size
        np.subtract(dy if w is None else np.multiply(dy, w, out=product), centred, out=centred)
        np.multiply(centred, scale, out=out[low:high], casting="unsafe")

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
    rows, kind, w = _rows(x, n), _kind(x), _flat(weight)
    out, rstd = np.empty(rows.shape, x.dtype), np.empty(rows.shape[0], kind)
    size = kind.type(max(rows.shape[1], 1))

    def work(low: int, high: int) -> None:
        block = rows[low:high].astype(kind, copy=False)
        target = out[low:high] if kind == x.dtype else np.empty_like(block)
        np.square(block, out=target)
        square = sums(target) / size
        r = 1 / np.sqrt(square + kind.type(eps))
        np.multiply(block, r, out=target)
        if w is not None:
            np.multiply(target, w, out=target, casting="same_kind")
        rstd[low:high] = r[:, 0]
        if kind != x.dtype:
            out[low:high] = target

    _Blocks(rows.shape[0], rows.shape[1], kind).run(work)
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
    n, per = x.shape[0], x.shape[1] // groups
    kind, plane = _kind(x), math.prod(x.shape[2:])
    rows = x.reshape(n * groups, per * plane)
    w, b = (None if v is None else _flat(v).reshape(groups, per, 1) for v in (weight, bias))
    out = np.empty(rows.shape, x.dtype)
    mean, rstd = np.empty(n * groups, kind), np.empty(n * groups, kind)

    def work(low: int, high: int) -> None:
        block = rows[low:high].astype(kind, copy=False)
        target = np.empty(block.shape, kind) if kind != x.dtype else out[low:high]
        m, r, _ = _standardize(block, target, eps)
        mean[low:high], rstd[low:high] = m[:, 0], r[:, 0]
        if w is not None or b is not None:
            planes, which = target.reshape(-1, per, plane), np.arange(low, high) % groups
            if w is not None:
                np.multiply(planes, w[which], out=planes, casting="same_kind")
            if b is not None:
                np.add(planes, b[which], out=planes, casting="same_kind")
        if kind != x.dtype:
            out[low:high] = target

    if rows.nbytes <= threads.CACHE:
        work(0, n * groups)
    else:
        _Blocks(n * groups, per * plane, kind).run(work)
    return out.reshape(x.shape), mean.reshape(n, groups), rstd.reshape(n, groups)


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


def batch_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    mean: Array | None,
    var: Array | None,
    training: bool,
    eps: float,
) -> tuple[Array, Array, Array, Array]:
    """Normalised over all dims but the channels: out, mean, rstd, variance."""
    kind, c = _kind(x), x.shape[1]
    cube = x.reshape(x.shape[0], c, math.prod(x.shape[2:]))
    w, b = _flat(weight), _flat(bias)
    if training and kind is x.dtype and 0 < x.size < FEW:
        flat = cube.swapaxes(0, 1).reshape(c, -1)  # channels are rows
        scaled = np.empty(flat.shape, kind)
        m, r, v = _standardize(flat, scaled, eps)
        if w is not None:
            np.multiply(scaled, w[:, None], out=scaled, casting="same_kind")
        if b is not None:
            np.add(scaled, b[:, None], out=scaled, casting="same_kind")
        planes = scaled.reshape(c, cube.shape[0], cube.shape[2]).swapaxes(0, 1)
        return np.ascontiguousarray(planes).reshape(x.shape), m[:, 0], r[:, 0], v[:, 0]
    out = np.empty(cube.shape, x.dtype)
    if training:
        average, variance = np.empty(c, kind), np.empty(c, kind)
    else:
        average, variance = _flat(mean), _flat(var)
    count = max(cube.shape[0] * cube.shape[2], 1)

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
    threads.rows(c, count * kind.itemsize, work)
    rstd = 1 / np.sqrt(variance + variance.dtype.type(eps))
    return out.reshape(x.shape), average, rstd, variance


def batch_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array, training: bool
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    kind, c = _kind(x), x.shape[1]
    cube = x.reshape(x.shape[0], c, math.prod(x.shape[2:]))
    grad = g.reshape(cube.shape)
    scale = rstd if weight is None else rstd * _flat(weight)
    out = np.empty(cube.shape, x.dtype)
    dw, db = np.empty(c, kind), np.empty(c, kind)
    count = max(cube.shape[0] * cube.shape[2], 1)

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

    threads.rows(c, count * kind.itemsize, work)
    ref = x if weight is None else weight
    return out.reshape(x.shape), like(dw, ref), like(db, ref)
