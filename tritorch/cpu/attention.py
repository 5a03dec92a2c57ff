"""Scaled dot-product attention, (B, H, L, E)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.cpu.narrow import like, widen

Array = np.ndarray[Any, Any]


def _repeat(x: Array, heads: int) -> Array:
    wide = widen(x)
    return wide if x.shape[1] == heads else np.repeat(wide, heads // x.shape[1], axis=1)


def _scores(q: Array, k: Array, mask: Array | None, causal: bool, scale: float) -> Array:
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * q.dtype.type(scale)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, scores.dtype.type(-np.inf))
    if mask is not None:
        if mask.dtype == bool:
            scores = np.where(mask, scores, scores.dtype.type(-np.inf))
        else:
            scores = scores + widen(mask)
    return scores


def attention(
    q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float
) -> tuple[Array, Array]:
    """softmax(q k^T scale + mask) v, and the log of each row's sum."""
    heads = q.shape[1]
    scores = _scores(widen(q), _repeat(k, heads), mask, causal, scale)
    top = scores.max(axis=-1, keepdims=True)
    top = np.where(np.isneginf(top), 0, top)
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    lse = (top + np.log(total))[..., 0]
    weights /= np.where(total == 0, 1, total)  # a row that sees nothing gives 0
    return like(np.matmul(weights, _repeat(v, heads)), q), lse


def attention_backward(
    g: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    out: Array,
    lse: Array,
    causal: bool,
    scale: float,
) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v."""
    heads, kv_heads = q.shape[1], k.shape[1]
    a, b, c, grad = widen(q), _repeat(k, heads), _repeat(v, heads), widen(g)
    scores = _scores(a, b, mask, causal, scale)
    weights = np.where(np.isneginf(lse)[..., None], 0, np.exp(scores - lse[..., None]))
    weights = weights.astype(a.dtype, copy=False)
    dv = np.matmul(np.swapaxes(weights, -1, -2), grad)
    dots = np.matmul(grad, np.swapaxes(c, -1, -2))
    delta = (grad * widen(out)).sum(axis=-1, keepdims=True)
    ds = weights * (dots - delta) * a.dtype.type(scale)
    dq, dk = np.matmul(ds, b), np.matmul(np.swapaxes(ds, -1, -2), a)
    if kv_heads != heads:
        fold = lambda x: x.reshape(x.shape[0], kv_heads, heads // kv_heads, *x.shape[2:]).sum(2)
        dk, dv = fold(dk), fold(dv)
    return like(dq, q), like(dk, k), like(dv, v)
