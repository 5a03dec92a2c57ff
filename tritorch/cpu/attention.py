"""Scaled dot-product attention, (B, H, L, E), in blocks of rows whose scores fit the cache.

A block needs its scores once: they are never stored for the whole.  A causal block stops at its
last column that is seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tritorch.cpu.narrow import like, widen

Array = np.ndarray[Any, Any]

SCORES = 1 << 17  # scores of a block


def _blocks(length: int, columns: int, causal: bool) -> Iterator[tuple[slice, slice]]:
    """Rows, and the columns that they can see."""
    step = max(16, SCORES // max(columns, 1))
    for low in range(0, length, step):
        high = min(low + step, length)
        yield slice(low, high), slice(0, min(high, columns) if causal else columns)


def _scores(q: Array, k: Array, mask: Array | None, causal: bool, rows: slice) -> Array:
    """One block: q (already scaled) k^T, masked; a column that is not seen is -inf."""
    scores = np.matmul(q, k.T)
    if causal:
        # Only the triangle at the end holds columns that some of the rows don't see.
        start = rows.start
        corner = scores[:, start:]
        hidden = np.arange(corner.shape[1]) > np.arange(corner.shape[0])[:, None]
        np.copyto(corner, -np.inf, where=hidden)
    if mask is not None:
        if mask.dtype == bool:
            np.copyto(scores, -np.inf, where=~mask)
        else:
            scores += widen(mask)
    return scores


def _mask(mask: Array | None, q: Array, k: Array) -> Array | None:
    return None if mask is None else np.broadcast_to(mask, (*q.shape[:3], k.shape[2]))


def attention(
    q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float
) -> tuple[Array, Array]:
    """softmax(q k^T scale + mask) v, and the log of each row's sum."""
    a, b, c = widen(q), widen(k), widen(v)
    group = q.shape[1] // max(k.shape[1], 1)
    mask = _mask(mask, q, k)
    out = np.empty((*q.shape[:3], v.shape[3]), a.dtype)
    lse = np.empty(q.shape[:3], a.dtype)
    with np.errstate(all="ignore"):
        for i, h in np.ndindex(*q.shape[:2]):
            keys, values = b[i, h // group], c[i, h // group]
            for rows, seen in _blocks(q.shape[2], k.shape[2], causal):
                part = None if mask is None else mask[i, h, rows, seen]
                scaled = a[i, h, rows] * a.dtype.type(scale)
                weights = _scores(scaled, keys[seen], part, causal, rows)
                top = np.max(weights, axis=1, keepdims=True, initial=-np.inf)
                top[np.isneginf(top)] = 0
                weights -= top
                np.exp(weights, out=weights)
                total = np.add.reduce(weights, axis=1, keepdims=True)
                lse[i, h, rows] = (top + np.log(total))[:, 0]
                total[total == 0] = 1  # a row that sees nothing gives 0
                block = np.matmul(weights, values[seen])
                np.divide(block, total, out=out[i, h, rows])
    return like(out, q), lse


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
    a, b, c, grad = widen(q), widen(k), widen(v), widen(g)
    group = q.shape[1] // max(k.shape[1], 1)
    mask = _mask(mask, q, k)
    factor = a.dtype.type(scale)
    delta = np.einsum("bhle,bhle->bhl", grad, widen(out))
    base = np.where(np.isneginf(lse), 0, lse)  # no weight at all, where nothing is seen
    dq, dk, dv = np.empty(q.shape, a.dtype), np.zeros(k.shape, a.dtype), np.zeros(v.shape, a.dtype)
    with np.errstate(all="ignore"):
        for i, h in np.ndindex(*q.shape[:2]):
            j = h // group
            for rows, seen in _blocks(q.shape[2], k.shape[2], causal):
                part = None if mask is None else mask[i, h, rows, seen]
                scaled = a[i, h, rows] * factor
                weights = _scores(scaled, b[i, j, seen], part, causal, rows)
                weights -= base[i, h, rows, None]
                np.exp(weights, out=weights)
                dy = grad[i, h, rows]
                dv[i, j, seen] += np.matmul(weights.T, dy)
                slopes = np.matmul(dy, c[i, j, seen].T)
                slopes -= delta[i, h, rows, None]
                slopes *= weights
                np.multiply(np.matmul(slopes, b[i, j, seen]), factor, out=dq[i, h, rows])
                dk[i, j, seen] += np.matmul(slopes.T, scaled)
    return like(dq, q), like(dk, k), like(dv, v)
