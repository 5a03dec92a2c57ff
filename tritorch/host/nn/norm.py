"""Normalisation and its gradients, over threads, natively where that pays.

Sums over the whole batch (the gradients of weights) are kept for each block and added in order, so
that threads change nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import by_steps, fold, scratch, seen
from tritorch.host import loops, threads
from tritorch.host.chains.rowwise import FLOATS, kinds, number, rowwise, total
from tritorch.host.pointwise.narrow import computing, like, widen
from tritorch.host.pointwise.pointwise import relu, relu_backward
from tritorch.host.reduce.rows import FEW, dots, sums

Array = np.ndarray[Any, Any]
_row_major = seen(np.ascontiguousarray)


def _kind(x: Array) -> np.dtype[Any]:
    return computing(x.dtype)


def _flat(v: Array | None) -> Any:
    return None if v is None else widen(v).reshape(-1)


# ---- over rows ----

Sizes = tuple[int, int, int, int]


def _sizes(x: Array, groups: int) -> Sizes:
    """Rows of groups of channels: how many, groups, channels of one, elements of a channel."""
    plane = math.prod(x.shape[2:])
    return x.shape[0] * groups, groups, x.shape[1] // max(groups, 1), plane


def _dense(v: Array | None, kind: np.dtype[Any]) -> Any:
    """A weight as a row."""
    return None if v is None else np.ascontiguousarray(widen(v), kind).reshape(-1)


def _normed(
    x: Array, weight: Array | None, bias: Array | None, eps: float, sizes: Sizes, centred: bool
) -> tuple[Array, Array | None, Array]:
    """Rows normalised, their means, if they are centred, and 1 / their deviations."""
    kind, count = _kind(x), sizes[0]
    w, b, out = _dense(weight, kind), _dense(bias, kind), scratch(x.shape, x.dtype)
    mean, rstd = scratch(count, kind) if centred else None, scratch(count, kind)
    if not x.size:
        if mean is not None:
            mean.fill(0)
        rstd.fill(eps**-0.5 if eps > 0 else math.inf)
    elif kind is x.dtype:
        x = np.ascontiguousarray(x)
        loops.normalise_rows(x, w, b, out, mean, rstd, kind.char, sizes, eps)
    else:
        rows, targets = x.reshape(count, -1), out.reshape(count, -1)
        groups = sizes[1]  # whose rows have other weights each: blocks are of whole images

        def work(low: int, high: int) -> None:
            low, high = low * groups, high * groups
            block = np.ascontiguousarray(rows[low:high], kind)
            loops.normalise_rows(
                block, w, b, block, None if mean is None else mean[low:high], rstd[low:high],
                kind.char, (high - low, *sizes[1:]), eps,
            )  # fmt: skip
            targets[low:high] = block

        threads.rows(count // groups, rows.shape[1] * groups * kind.itemsize, work)
    return out, mean, rstd


def _slopes(
    g: Array, x: Array, weight: Array | None, mean: Array | None, rstd: Array, sizes: Sizes
) -> tuple[Array, Array, Array]:
    """The gradients of rows, weight and bias."""
    kind, (count, groups, channels, plane) = _kind(x), sizes
    grouped = (groups, plane) != (1, 1)
    dw, db = (scratch((count, channels) if grouped else channels, kind) for _ in range(2))
    dy, rows = (np.ascontiguousarray(v, kind) for v in (g, x))
    w, m, r = (_dense(v, kind) for v in (weight, mean, rstd))
    out = scratch(x.shape, kind)
    loops.normalise_rows_backward(dy, rows, w, m, r, out, dw, db, kind.char, sizes)
    if grouped:
        dw, db = (fold(np.add, v.reshape(-1, groups * channels), axis=0) for v in (dw, db))
    ref = x if weight is None else weight
    return out.astype(x.dtype, copy=False), like(dw, ref), like(db, ref)


def _of_rows(x: Array, n: int) -> Sizes:
    """The last n dims are a row."""
    split = x.ndim - n
    return math.prod(x.shape[:split]), 1, math.prod(x.shape[split:]), 1


@by_steps
def layer_norm(
    x: Array, n: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """(x - mean) * rstd * weight + bias over the last n dims."""
    out, mean, rstd = _normed(x, weight, bias, eps, _of_rows(x, n), True)
    assert mean is not None
    lead = x.shape[: x.ndim - n]
    return out, mean.reshape(lead), rstd.reshape(lead)


@by_steps
def layer_norm_backward(
    g: Array, x: Array, n: int, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    dx, dw, db = _slopes(g, x, weight, mean, rstd, _of_rows(x, n))
    shape = x.shape[x.ndim - n :]
    return dx, dw.reshape(shape), db.reshape(shape)


@by_steps
def rms_norm(x: Array, n: int, weight: Array | None, eps: float) -> tuple[Array, Array]:
    """x * rstd * weight over the last n dims."""
    out, _, rstd = _normed(x, weight, None, eps, _of_rows(x, n), False)
    return out, rstd.reshape(x.shape[: x.ndim - n])


@by_steps
def rms_norm_backward(
    g: Array, x: Array, n: int, weight: Array | None, rstd: Array
) -> tuple[Array, Array]:
    """The gradients of x and weight."""
    dx, dw, _ = _slopes(g, x, weight, None, rstd, _of_rows(x, n))
    return dx, dw.reshape(x.shape[x.ndim - n :])


# ---- over groups of channels ----


@by_steps
def group_norm(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Normalised over groups of channels."""
    out, mean, rstd = _normed(x, weight, bias, eps, _sizes(x, groups), True)
    assert mean is not None
    return out, mean.reshape(-1, groups), rstd.reshape(-1, groups)


@by_steps
def group_norm_backward(
    g: Array, x: Array, groups: int, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    return _slopes(g, x, weight, mean, rstd, _sizes(x, groups))


# ---- over the batch ----


def _row_statistics(x: Any, size: Any, eps: Any, weight: Any, bias: Any) -> Any:
    """The mean, the variance, 1 / its root, and what is normalised."""
    mean = total(x) / size
    centred = x - mean
    variance = total(np.square(centred)) / size
    rstd = np.reciprocal(np.sqrt(variance + eps))
    y = centred * rstd if weight is None else centred * rstd * weight
    return mean, variance, rstd, y if bias is None else y + bias


def _over_batch(sums: Array) -> Array:
    """(N, C, 1) -> (C,), sums of planes added in float64."""
    return np.add.reduce(sums[..., 0], axis=0, dtype=np.float64)


NARROW = 8  # elements of planes from which they are normalised natively


@loops.gate("normalise", "normalise_backward")
def _is_native(x: Array) -> bool:
    """Whether the planes of x are normalised natively."""
    return math.prod(x.shape[2:]) >= NARROW and x.dtype in FLOATS and x.size >= FEW


@by_steps
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
        flat = _row_major(cube.swapaxes(0, 1)).reshape(c, -1)  # channels are rows
        scaled, made = scratch(flat.shape, kind), scratch((3, c, 1), kind)
        columns = [None if v is None else _dense(v, kind)[:, None] for v in (weight, bias)]
        run = rowwise(_row_statistics, "acc" + kinds(*columns), kind)
        run(flat, number(flat.shape[1], kind), number(eps, kind), *columns, *made, scaled)
        m, v, r = made[..., 0]
        planes = scaled.reshape(c, cube.shape[0], cube.shape[2]).swapaxes(0, 1)
        return _row_major(planes).reshape(x.shape), m, r, v
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
