"""Scaled dot-product attention, (B, H, L, E), in blocks whose scores fit the cache.

A block is some rows of one head, or several heads whole where sequences are short, or several
examples.  It needs its scores once: they are never stored for the whole.  A causal block stops at
its last column that is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.host import blas, threads
from tritorch.host.narrow import like, widen
from tritorch.host.rowwise import FLOATS, largest, rowwise, total

Array = np.ndarray[Any, Any]
Index = tuple[Any, ...]

SCORES = 1 << 16  # scores of a block: with what is computed of them they stay in the cache


def _for_heads(shape: tuple[int, ...], columns: int, work: Callable[[Index], None]) -> None:
    """work((examples, heads)) for parts of the batch, side by side."""
    examples, heads, length = shape[:3]
    one = max(length * columns, 1)
    if heads * one <= SCORES:
        per = max(1, SCORES // max(heads * one, 1))
        parts: list[Index] = [
            (slice(i, min(i + per, examples)), slice(None)) for i in range(0, examples, per)
        ]
    else:
        per = max(1, SCORES // one)
        parts = [
            (slice(i, i + 1), slice(h, min(h + per, heads)))
            for i in range(examples)
            for h in range(0, heads, per)
        ]
    large = examples * heads * one >= threads.PARALLEL
    threads.blocks(len(parts), 1, lambda low, high: work(parts[low]), large)


def _rows(length: int, columns: int, causal: bool) -> Iterator[tuple[slice, slice]]:
    """Blocks of rows, and the columns that they can see."""
    step = max(16, SCORES // max(columns, 1))
    for low in range(0, length, step):
        high = min(low + step, length)
        yield slice(low, high), slice(0, min(high, columns) if causal else columns)


def _products(a: Array, b: Array) -> Array:
    """a b^T, dense: a product's own memory may lie otherwise."""
    out = np.empty((*a.shape[:-1], b.shape[-2]), a.dtype)
    return blas.matmul(a, b.swapaxes(-1, -2), out)


def _scores(q: Array, k: Array, mask: Array | None, causal: bool, rows: slice) -> Array:
    """One block of q k^T (q is scaled), masked: dense rows.  What is not seen is -inf."""
    scores = _products(q, k)
    if causal:
        # Only the triangle at the end holds keys that some of the queries don't see.
        corner = scores[..., rows.start :]
        hidden = np.arange(corner.shape[-1]) > np.arange(corner.shape[-2])[:, None]
        np.copyto(corner, -np.inf, where=hidden)
    if mask is not None:
        if mask.dtype == bool:
            np.copyto(scores, -np.inf, where=~mask)
        else:
            scores += widen(mask)
    return scores


def _mask(mask: Array | None, q: Array, k: Array) -> Array | None:
    return None if mask is None else np.broadcast_to(mask, (*q.shape[:3], k.shape[2]))


def _for_each_query(x: Array, group: int) -> Array:
    """Keys or values, once for each head of the queries."""
    return x if group == 1 else np.repeat(x, group, axis=1)


def _for_each_key(x: Array, group: int) -> Array:
    """The gradient of `_for_each_query`."""
    if group == 1:
        return x
    return x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(2)


def _weighed(scores: Any) -> Any:
    """log(sum(exp(scores))) of each row, and their softmax."""
    top = largest(scores)
    weights = _C.exp(scores - top)
    sums = total(weights)
    return _C.log(sums) + top, weights * np.reciprocal(sums)


def _weighed_of_seen(scores: Any) -> Any:
    """The same where rows may see nothing: log(0), and no weights."""
    top = largest(scores)
    top = np.where(top == -np.inf, 0, top)
    weights = _C.exp(scores - top)
    sums = total(weights)
    return _C.log(sums) + top, weights * np.reciprocal(np.where(sums == 0, 1, sums))


def _weigh(scores: Array, v: Array, out: Array, lse: Array, all_seen: bool = True) -> None:
    """Attention by rows of scores, which become weights."""
    rows = scores.reshape(lse.size, scores.shape[-1])
    logs = np.empty((len(rows), 1), rows.dtype)
    if not rows.size:  # no keys
        logs[...] = -np.inf
    rowwise(_weighed if all_seen else _weighed_of_seen, "a", rows.dtype)(rows, logs, rows)
    lse[...] = logs.reshape(lse.shape)
    blas.matmul(scores, v, out=out)


def _sloped(scores: Any, lse: Any, slopes: Any, inner: Any) -> Any:
    """The weights again, and the gradient of the scores."""
    weights = _C.exp(scores - lse)
    return weights, (slopes - inner) * weights


def _slope(scores: Array, lse: Array, slopes: Array, inner: Array) -> None:
    """Rows of scores become weights, and those of slopes the gradient of the scores."""
    step = rowwise(_sloped, "acac", scores.dtype)
    x, y = (each.reshape(lse.size, scores.shape[-1]) for each in (scores, slopes))
    column = lambda each: each.reshape(lse.size, 1)
    step(x, column(lse), y, column(inner), x, y)


def attention(
    q: Array, k: Array, v: Array, mask: Array | None, causal: bool, scale: float, *drop: float
) -> tuple[Array, Array]:
    """softmax(q k^T scale + mask) v, and the log of each row's sum."""
    if mask is None and not causal and q.dtype in FLOATS and q.shape[1] == k.shape[1]:
        if 0 < q.size // q.shape[3] * k.shape[2] <= SCORES:
            out, lse = np.empty((*q.shape[:3], v.shape[3]), q.dtype), np.empty(q.shape[:3], q.dtype)
            _weigh(_products(q * q.dtype.type(scale), k), v, out, lse)
            return out, lse
    group = q.shape[1] // max(k.shape[1], 1)
    a, b, c = widen(q), _for_each_query(widen(k), group), _for_each_query(widen(v), group)
    mask = _mask(mask, q, k)
    out = np.empty((*q.shape[:3], v.shape[3]), a.dtype)
    lse = np.empty(q.shape[:3], a.dtype)
    factor = a.dtype.type(scale)
    all_seen = mask is None and k.shape[2] > 0

    short = 0 < q.shape[2] * k.shape[2] <= SCORES and all_seen and not causal

    def work(part: Index) -> None:
        keys, values = b[part], c[part]
        if short:
            _weigh(_products(a[part] * factor, keys), values, out[part], lse[part])
            return
        for rows, seen in _rows(q.shape[2], k.shape[2], causal):
            here = (*part, rows)
            hides = None if mask is None else mask[(*here, seen)]
            scores = _scores(a[here] * factor, keys[..., seen, :], hides, causal, rows)
            _weigh(scores, values[..., seen, :], out[here], lse[here], all_seen)

    _for_heads(q.shape, k.shape[2], work)
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
    *drop: float,
) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v."""
    group = q.shape[1] // max(k.shape[1], 1)
    a, b, c = widen(q), _for_each_query(widen(k), group), _for_each_query(widen(v), group)
    grad, given = widen(g), widen(out)
    mask = _mask(mask, q, k)
    factor = a.dtype.type(scale)
    dq, dk, dv = np.empty(q.shape, a.dtype), np.empty(b.shape, a.dtype), np.empty(c.shape, a.dtype)

    def work(part: Index) -> None:
        keys, values, d_keys, d_values = b[part], c[part], dk[part], dv[part]
        blocks = list(_rows(q.shape[2], k.shape[2], causal))
        if len(blocks) != 1 or blocks[0][1].stop != k.shape[2]:
            d_keys[...] = 0
            d_values[...] = 0
        for rows, seen in blocks:
            here = (*part, rows)
            hides = None if mask is None else mask[(*here, seen)]
            scaled, dy = a[here] * factor, grad[here]
            weights = _scores(scaled, keys[..., seen, :], hides, causal, rows)
            base = lse[here]
            if mask is not None:
                base = np.where(np.isneginf(base), 0, base)  # where nothing is seen, no weight
            slopes = _products(dy, values[..., seen, :])
            _slope(weights, base, slopes, np.einsum("...le,...le->...l", dy, given[here]))
            d = blas.matmul(slopes, keys[..., seen, :])
            np.multiply(d, factor, out=dq[here])
            for sums, left, right in (
                (d_values, weights.swapaxes(-1, -2), dy), (d_keys, slopes.swapaxes(-1, -2), scaled)
            ):  # fmt: skip
                if len(blocks) == 1 and seen.stop == k.shape[2]:
                    blas.matmul(left, right, out=sums)
                else:
                    sums[..., seen, :] += blas.matmul(left, right)

    _for_heads(q.shape, k.shape[2], work)
    return (
        like(dq, q), like(_for_each_key(dk, group), k), like(_for_each_key(dv, group), v),
    )  # fmt: skip


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
