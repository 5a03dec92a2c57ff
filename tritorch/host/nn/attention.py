"""Scaled dot-product attention, (B, H, L, E): Note [Attention] in src/host/attention.cpp.

Where NumPy's BLAS is not OpenBLAS, and where there is nothing to add up, NumPy computes it whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tritorch.host import loops
from tritorch.host.linalg import blas
from tritorch.host.pointwise.narrow import like, widen

Array = np.ndarray[Any, Any]


def _mask(mask: Array | None, q: Array, k: Array, kind: np.dtype[Any]) -> Array | None:
    """A mask of all scores: bools, or numbers of the dtype that is computed in."""
    if mask is None:
        return None
    if mask.dtype != bool:
        mask = widen(mask).astype(kind, copy=False)
    return np.broadcast_to(mask, (*q.shape[:3], k.shape[2]))


def _dense(*given: Array) -> list[Array]:
    """Arrays whose rows lie dense, one after the other."""
    found = []
    for x in given:
        lies = x.strides[3] == x.itemsize and x.strides[2] >= x.shape[3] * x.itemsize
        found.append(x if lies else np.ascontiguousarray(x))
    return found


def attention(
    q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float, *drop: float
) -> tuple[Array, Array]:
    """softmax(q k^T scale + mask) v, and the log of each row's sum."""
    a, b, c = _dense(widen(q), widen(k), widen(v))
    kind = a.dtype
    hides = _mask(mask, q, k, kind)
    out, lse = np.empty((*q.shape[:3], v.shape[3]), kind), np.empty(q.shape[:3], kind)
    size = 0 if hides is None else hides.itemsize
    if not blas.found() or not loops.attend(
        a, b, c, hides, out, lse, kind.char, size, causal, scale
    ):
        out, lse = _whole(a, b, c, hides, causal, scale)
    return like(out, q), lse


def attention_backward(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, lse: Array,
    causal: bool, scale: float, *drop: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of q, k and v."""
    dy, a, b, c, made = _dense(widen(g), widen(q), widen(k), widen(v), widen(out))
    kind = a.dtype
    hides, lse = _mask(mask, q, k, kind), np.ascontiguousarray(lse)
    dq, dk, dv = np.empty(q.shape, kind), np.empty(k.shape, kind), np.empty(v.shape, kind)
    size = 0 if hides is None else hides.itemsize
    if not blas.found() or not loops.attend_backward(
        dy, a, b, c, hides, made, lse, dq, dk, dv, kind.char, size, causal, scale
    ):
        dq, dk, dv = _whole_backward(dy, a, b, c, hides, made, lse, causal, scale)
    return like(dq, q), like(dk, k), like(dv, v)


# ---- by NumPy ------------------------------------------------------------------------------------


def _for_each_query(x: Array, group: int) -> Array:
    """Keys or values, once for each head of the queries."""
    return x if group == 1 else np.repeat(x, group, axis=1)


def _for_each_key(x: Array, group: int) -> Array:
    """The gradient of `_for_each_query`."""
    if group == 1:
        return x
    return x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(2)


def _scores(q: Array, k: Array, mask: Array | None, causal: bool, scale: float) -> Array:
    """q k^T scale, masked: what is not seen is -inf."""
    scores = np.matmul(q * q.dtype.type(scale), k.swapaxes(-1, -2))
    if causal:
        rows, columns = scores.shape[-2:]
        np.copyto(scores, -np.inf, where=np.arange(columns) > np.arange(rows)[:, None])
    if mask is None:
        return scores
    return np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask


def _whole(
    q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float
) -> tuple[Array, Array]:
    group = q.shape[1] // max(k.shape[1], 1)
    scores = _scores(q, _for_each_query(k, group), mask, causal, scale)
    top = np.maximum.reduce(scores, axis=-1, keepdims=True, initial=-np.inf)
    top = np.where(top == -np.inf, 0, top)
    weights = np.exp(scores - top)
    sums = np.add.reduce(weights, axis=-1, keepdims=True)
    weights /= np.where(sums == 0, 1, sums)
    out = np.matmul(weights, _for_each_query(v, group))
    lse = (np.log(sums) + top)[..., 0]
    return out.astype(q.dtype, copy=False), lse.astype(q.dtype, copy=False)


def _whole_backward(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, lse: Array,
    causal: bool, scale: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    group, factor = q.shape[1] // max(k.shape[1], 1), q.dtype.type(scale)
    keys, values = _for_each_query(k, group), _for_each_query(v, group)
    base = np.where(np.isneginf(lse), 0, lse)[..., None]  # where nothing is seen, no weight
    weights = np.exp(_scores(q, keys, mask, causal, scale) - base)
    slopes = np.matmul(g, values.swapaxes(-1, -2))
    slopes = (slopes - np.add.reduce(g * out, axis=-1, keepdims=True)) * weights
    dq = np.matmul(slopes, keys) * factor
    dk = np.matmul(slopes.swapaxes(-1, -2), q * factor)
    dv = np.matmul(weights.swapaxes(-1, -2), g)
    kind = q.dtype
    return tuple(
        x.astype(kind, copy=False) for x in (dq, _for_each_key(dk, group), _for_each_key(dv, group))
    )  # type: ignore[return-value]


# ---- several lengths -----------------------------------------------------------------------------


def _sequences(
    q_starts: Array, k_starts: Array, window: tuple[int, int]
) -> Iterator[tuple[slice, slice, Array | None, bool]]:
    """Rows and keys of each sequence, its mask, and whether it is causal instead."""
    behind, ahead = window
    for i in range(len(q_starts) - 1):
        rows = slice(int(q_starts[i]), int(q_starts[i + 1]))
        keys = slice(int(k_starts[i]), int(k_starts[i + 1]))
        n_rows, n_keys = rows.stop - rows.start, keys.stop - keys.start
        causal = n_rows == n_keys and window == (-1, 0)
        mask = None
        if window != (-1, -1) and not causal:
            place = np.arange(n_rows)[:, None] + (n_keys - n_rows)
            col = np.arange(n_keys)
            mask = np.ones((1, 1, n_rows, n_keys), bool)
            if ahead >= 0:
                mask &= col <= place + ahead
            if behind >= 0:
                mask &= col >= place - behind
        yield rows, keys, mask, causal


def _part(x: Array, places: slice) -> Array:
    """One sequence of (T, H, E) as (1, H, L, E)."""
    return x[None, places].swapaxes(1, 2)


def varlen(
    q: Array, k: Array, v: Array, q_starts: Array, k_starts: Array, longest: tuple[int, int],
    window: tuple[int, int], scale: float,
) -> tuple[Array, Array]:  # fmt: skip
    """Attention of sequences that lie one after the other, (T, H, E); and lse, (H, T)."""
    out = np.zeros((*q.shape[:2], v.shape[2]), q.dtype)
    lse = np.full(q.shape[1::-1], -np.inf, widen(q[:0]).dtype)
    for rows, keys, mask, causal in _sequences(q_starts, k_starts, window):
        some, sums = attention(_part(q, rows), _part(k, keys), _part(v, keys), mask, causal, scale)
        out[rows], lse[:, rows] = some[0].swapaxes(0, 1), sums[0]
    return out, lse


def varlen_backward(
    g: Array, q: Array, k: Array, v: Array, q_starts: Array, k_starts: Array, out: Array,
    lse: Array, longest: tuple[int, int], window: tuple[int, int], scale: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The gradients of q, k and v."""
    dq, dk, dv = (np.zeros(x.shape, x.dtype) for x in (q, k, v))
    for rows, keys, mask, causal in _sequences(q_starts, k_starts, window):
        d = attention_backward(
            _part(g, rows), _part(q, rows), _part(k, keys), _part(v, keys), mask,
            _part(out, rows), lse[None, :, rows], causal, scale,
        )  # fmt: skip
        for whole, places, part in ((dq, rows, d[0]), (dk, keys, d[1]), (dv, keys, d[2])):
            whole[places] = part[0].swapaxes(0, 1)
    return dq, dk, dv
