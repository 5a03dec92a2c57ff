"""Cross-entropy of rows of logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.cpu.narrow import like, widen

Array = np.ndarray[Any, Any]


def cross_entropy(
    logits: Array, target: Array, weight: Array | None, ignore_index: int, label_smoothing: float
) -> tuple[Array, Array]:
    """One loss a row, and log(sum(exp(logits)))."""
    x = widen(logits)
    n, c = x.shape
    top = x.max(axis=1, keepdims=True) if x.size else np.zeros((n, 1), x.dtype)
    lse = (top + np.log(np.exp(x - top).sum(axis=1, keepdims=True)))[:, 0]
    ignored = target == ignore_index
    safe = np.where(ignored, 0, target)
    scale = np.ones(c, x.dtype) if weight is None else widen(weight)
    loss = (lse - x[np.arange(n), safe]) * scale[safe] * (1 - label_smoothing)
    if label_smoothing:
        loss = loss + ((lse[:, None] - x) * scale).sum(axis=1) * (label_smoothing / c)
    return like(np.where(ignored, 0, loss), logits), lse


def cross_entropy_backward(
    g: Array,
    logits: Array,
    target: Array,
    weight: Array | None,
    ignore_index: int,
    label_smoothing: float,
    lse: Array,
) -> Array:
    """The gradient of the logits."""
    x = widen(logits)
    n, c = x.shape
    ignored = target == ignore_index
    safe = np.where(ignored, 0, target)
    scale = np.ones(c, x.dtype) if weight is None else widen(weight)
    row = np.where(ignored, 0, widen(g))
    hit = row * scale[safe] * (1 - label_smoothing)
    out = np.exp(x - lse[:, None])
    share = label_smoothing / c
    out *= (hit + row * share * scale.sum())[:, None]
    out[np.arange(n), safe] -= hit
    if label_smoothing:
        out -= row[:, None] * share * scale
    return like(out, logits)
