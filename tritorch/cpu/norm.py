"""Normalisation and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.cpu.narrow import like, widen

Array = np.ndarray[Any, Any]


def _wide(v: Array | None) -> Any:
    return None if v is None else widen(v)


def _statistics(rows: Array, eps: float) -> tuple[Array, Array]:
    mean = rows.mean(axis=-1, keepdims=True)
    off = rows - mean
    variance = (off * off).mean(axis=-1, keepdims=True)
    return mean, 1 / np.sqrt(variance + rows.dtype.type(eps))


def _rows(x: Array, n: int) -> Array:
    lead = x.shape[: x.ndim - n]
    size = int(np.prod(x.shape[x.ndim - n :], dtype=np.int64))
    return widen(x).reshape(int(np.prod(lead, dtype=np.int64)), size)


def layer_norm(
    x: Array, n: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """(x - mean) * rstd * weight + bias over the last n dims."""
    rows = _rows(x, n)
    mean, rstd = _statistics(rows, eps)
    out = (rows - mean) * rstd
    if weight is not None:
        out *= widen(weight).reshape(-1)
    if bias is not None:
        out += widen(bias).reshape(-1)
    lead = x.shape[: x.ndim - n]
    return like(out.reshape(x.shape), x), mean.reshape(lead), rstd.reshape(lead)


def layer_norm_backward(
    g: Array, x: Array, n: int, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    rows, grad = _rows(x, n), _rows(g, n)
    r = rstd.reshape(-1, 1)
    normal = (rows - mean.reshape(-1, 1)) * r
    shape = x.shape[x.ndim - n :]
    dw, db = (grad * normal).sum(0).reshape(shape), grad.sum(0).reshape(shape)
    if weight is not None:
        grad = grad * widen(weight).reshape(-1)
    dx = r * (
        grad
        - grad.mean(axis=-1, keepdims=True)
        - normal * (grad * normal).mean(axis=-1, keepdims=True)
    )
    ref = x if weight is None else weight
    return like(dx.reshape(x.shape), x), like(dw, ref), like(db, ref)


def rms_norm(x: Array, n: int, weight: Array | None, eps: float) -> tuple[Array, Array]:
    """x * rstd * weight over the last n dims."""
    rows = _rows(x, n)
    rstd = 1 / np.sqrt((rows * rows).mean(axis=-1, keepdims=True) + rows.dtype.type(eps))
    out = rows * rstd
    if weight is not None:
        out *= widen(weight).reshape(-1)
    return like(out.reshape(x.shape), x), rstd.reshape(x.shape[: x.ndim - n])


def rms_norm_backward(
    g: Array, x: Array, n: int, weight: Array | None, rstd: Array
) -> tuple[Array, Array]:
    """The gradients of x and weight."""
    rows, grad = _rows(x, n), _rows(g, n)
    r = rstd.reshape(-1, 1)
    normal = rows * r
    dw = (grad * normal).sum(0).reshape(x.shape[x.ndim - n :])
    if weight is not None:
        grad = grad * widen(weight).reshape(-1)
    dx = r * (grad - normal * (grad * normal).mean(axis=-1, keepdims=True))
    return like(dx.reshape(x.shape), x), like(dw, x if weight is None else weight)


def _channels(v: Array | None, ndim: int) -> Any:
    return None if v is None else widen(v).reshape([-1 if i == 1 else 1 for i in range(ndim)])


def group_norm(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Normalised over groups of channels."""
    n = x.shape[0]
    size = int(np.prod(x.shape[1:], dtype=np.int64)) // groups
    rows = widen(x).reshape(n * groups, size)
    mean, rstd = _statistics(rows, eps)
    out = ((rows - mean) * rstd).reshape(x.shape)
    if weight is not None:
        out *= _channels(weight, x.ndim)
    if bias is not None:
        out += _channels(bias, x.ndim)
    return like(out, x), mean.reshape(n, groups), rstd.reshape(n, groups)


def group_norm_backward(
    g: Array, x: Array, groups: int, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    n = x.shape[0]
    size = int(np.prod(x.shape[1:], dtype=np.int64)) // groups
    rows, grad = widen(x).reshape(n * groups, size), widen(g)
    r = rstd.reshape(-1, 1)
    normal = (rows - mean.reshape(-1, 1)) * r
    axes = tuple(i for i in range(x.ndim) if i != 1)
    dw, db = (grad * normal.reshape(x.shape)).sum(axes), grad.sum(axes)
    if weight is not None:
        grad = grad * _channels(weight, x.ndim)
    grad = grad.reshape(n * groups, size)
    dx = r * (
        grad
        - grad.mean(axis=-1, keepdims=True)
        - normal * (grad * normal).mean(axis=-1, keepdims=True)
    )
    ref = x if weight is None else weight
    return like(dx.reshape(x.shape), x), like(dw, ref), like(db, ref)


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
    wide = widen(x)
    axes = tuple(i for i in range(x.ndim) if i != 1)
    if training:
        average = wide.mean(axis=axes)
        off = wide - _channels(average, x.ndim)
        variance = (off * off).mean(axis=axes)
    else:
        average, variance = widen(mean), widen(var)  # type: ignore[arg-type]
        off = wide - _channels(average, x.ndim)
    rstd = 1 / np.sqrt(variance + wide.dtype.type(eps))
    scale = rstd if weight is None else rstd * widen(weight)
    out = off * _channels(scale, x.ndim)
    if bias is not None:
        out += _channels(bias, x.ndim)
    return like(out, x), average, rstd, variance


def batch_norm_backward(
    g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array, training: bool
) -> tuple[Array, Array, Array]:
    """The gradients of x, weight and bias."""
    wide, grad = widen(x), widen(g)
    axes = tuple(i for i in range(x.ndim) if i != 1)
    normal = (wide - _channels(mean, x.ndim)) * _channels(rstd, x.ndim)
    dw, db = (grad * normal).sum(axes), grad.sum(axes)
    scale = rstd if weight is None else rstd * widen(weight)
    if training:
        count = x.size // max(x.shape[1], 1)
        grad = grad - _channels(db / count, x.ndim) - normal * _channels(dw / count, x.ndim)
    ref = x if weight is None else weight
    return like(grad * _channels(scale, x.ndim), x), like(dw, ref), like(db, ref)
