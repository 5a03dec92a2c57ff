"""Cross-entropy of rows of logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.arrays.arrays import asarray, by_steps, negative, scratch, subtract
from tritorch.host import loops, threads
from tritorch.host.chains.rowwise import rowwise
from tritorch.host.index.indexing import outside
from tritorch.host.pointwise.narrow import computing, like, widen
from tritorch.host.reduce import rows

Array = np.ndarray[Any, Any]


@by_steps
def cross_entropy(
    logits: Array, target: Array, weight: Array | None, ignore_index: int, label_smoothing: float
) -> tuple[Array, Array]:
    """One loss a row, and log(sum(exp(logits)))."""
    kind = computing(logits.dtype)
    n, c = logits.shape
    if weight is None and not label_smoothing and not 0 <= ignore_index < c:
        if kind is logits.dtype and logits.size and logits.flags.c_contiguous:
            hit = scratch(n, kind)
            if loops.gather(
                logits, np.ascontiguousarray(target, np.int64), hit, n, c, 1, 1, kind.itemsize
            ):
                lse = rows.log_of_sums(logits)[:, 0]
                return subtract(lse, hit, out=hit), lse
    ignored, safe = None, target
    if 0 <= ignore_index < c or outside(target, c) is not None:
        ignored = target == ignore_index
        safe = target * ~ignored
    scale: Any = None
    if weight is not None:
        scale = widen(weight).astype(kind, copy=False)
    elif label_smoothing:
        scale = np.ones(c, kind)
    total = kind.type(scale.sum(dtype=np.float64)) if label_smoothing else 0
    lse, loss = np.empty(n, kind), np.empty(n, kind)

    def work(low: int, high: int) -> None:
        x = logits[low:high].astype(kind, copy=False)
        log = rows.log_of_sums(x)[:, 0]
        lse[low:high] = log
        label = safe[low:high]
        row = log - (rows.picked(x, label) if x.flags.c_contiguous else x[np.arange(len(x)), label])
        if weight is not None:
            row *= scale[label]
        if label_smoothing:
            row *= 1 - label_smoothing
            row += (log * total - x @ scale) * (label_smoothing / c)
        loss[low:high] = row

    if c:
        threads.rows(n, c * kind.itemsize, work)
    if ignored is not None:
        loss[ignored] = 0
    return like(loss, logits), lse


@by_steps
def nll(scores: Array, target: Array, ignore_index: int) -> tuple[Array, Array]:
    """One loss a row of scores, all classes of which weigh the same, and how many rows have one."""
    n, c = scores.shape
    hit = scratch(n, scores.dtype)
    inside = not 0 <= ignore_index < c and scores.flags.c_contiguous
    if inside and loops.gather(
        scores, np.ascontiguousarray(target), hit, n, c, 1, 1, scores.itemsize
    ):
        return negative(hit), asarray(n)
    ignored = target == ignore_index
    losses = -scores[np.arange(n), target * ~ignored]
    losses[ignored] = 0
    return losses, np.array(n - np.count_nonzero(ignored))


def cross_entropy_backward(
    g: Array,
    logits: Array,
    target: Array,
    weight: Array | None,
    ignore_index: int,
    label_smoothing: float,
    lse: Array,
    out: Array | None = None,
) -> Array:
    """The gradient of the logits, which may be written in their place."""
    kind = computing(logits.dtype)
    n, c = logits.shape
    if weight is None and not label_smoothing and logits.dtype is g.dtype is kind:
        if c and not 0 <= ignore_index < c and outside(target, c) is None:
            return _picked_backward(g, logits, target, lse, out)
    ignored = target == ignore_index
    safe = target * ~ignored
    scale = np.ones(c, kind) if weight is None else widen(weight).astype(kind, copy=False)
    total = kind.type(scale.sum(dtype=np.float64)) if label_smoothing else 0
    row = np.where(ignored, 0, widen(g)).astype(kind, copy=False)
    hit = row * scale[safe] * kind.type(1 - label_smoothing)
    share = kind.type(label_smoothing / max(c, 1))
    out = np.empty(logits.shape, logits.dtype) if out is None else out

    def work(low: int, high: int) -> None:
        x = logits[low:high].astype(kind, copy=False)
        part = np.subtract(x, lse[low:high, None])
        loops.exp(part, out=part)
        part *= (hit[low:high] + row[low:high] * share * total)[:, None]
        part[np.arange(high - low), safe[low:high]] -= hit[low:high]
        if label_smoothing:
            part -= row[low:high, None] * share * scale
        out[low:high] = part

    if c:
        threads.rows(n, c * kind.itemsize, work)
    return out


def _picked_backward(
    g: Array, logits: Array, target: Array, lse: Array, out: Array | None
) -> Array:
    """The gradient of the logits where each row has a class, and all classes weigh the same."""
    if out is None:
        logits, out = np.ascontiguousarray(logits), np.empty(logits.shape, logits.dtype)
    rowwise(_shares, "acc", logits.dtype)(logits, lse[:, None], g[:, None], out)
    out[np.arange(len(out)), target] -= g
    return out


def _shares(x: Any, lse: Any, g: Any) -> Any:
    return loops.exp(x - lse) * g


def cross_entropy_in_place(
    logits: Array, target: Array, weight: Array | None, ignore_index: int, g: Array
) -> Array:
    """The losses of rows; the logits become their gradient."""
    losses, lse = cross_entropy(logits, target, weight, ignore_index, 0.0)
    cross_entropy_backward(g, logits, target, weight, ignore_index, 0.0, lse, logits)
    return losses
