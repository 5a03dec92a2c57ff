"""Softmax and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.core.dtype import dtype
from tritorch.cpu.narrow import widen

Array = np.ndarray[Any, Any]


def _shifted(x: Array, dim: int) -> Array:
    wide = widen(x)
    if x.shape[dim] == 0:
        return wide.copy()
    return wide - wide.max(axis=dim, keepdims=True)


def softmax(x: Array, dim: int, dtype: dtype) -> Array:
    """exp(x) / sum(exp(x))."""
    out = _shifted(x, dim)
    np.exp(out, out=out)
    out /= out.sum(axis=dim, keepdims=True)
    return out.astype(dtype.numpy, copy=False)


def log_softmax(x: Array, dim: int, dtype: dtype) -> Array:
    """x - log(sum(exp(x)))."""
    out = _shifted(x, dim)
    out -= np.log(np.exp(out).sum(axis=dim, keepdims=True))
    return out.astype(dtype.numpy, copy=False)


def softmax_backward(g: Array, out: Array, dim: int, dtype: dtype) -> Array:
    """out * (g - sum(g * out))."""
    g, out = widen(g), widen(out)
    part = g * out
    part -= out * part.sum(axis=dim, keepdims=True)
    return part.astype(dtype.numpy, copy=False)


def log_softmax_backward(g: Array, out: Array, dim: int, dtype: dtype) -> Array:
    """g - exp(out) * sum(g)."""
    g, out = widen(g), widen(out)
    return (g - np.exp(out) * g.sum(axis=dim, keepdims=True)).astype(dtype.numpy, copy=False)
