"""Embeddings: the gradient, and sums over bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.cpu.narrow import like, widen

Array = np.ndarray[Any, Any]


def embedding_backward(
    g: Array, indices: Array, n: int, padding_idx: int, by_frequency: bool
) -> Array:
    """Row i: the sum of the gradients where indices are i."""
    width = g.shape[-1]
    rows = widen(g).reshape(-1, width)
    flat = indices.reshape(-1)
    if by_frequency and flat.size:
        rows = rows / np.bincount(flat, minlength=n)[flat][:, None].astype(rows.dtype)
    out = np.zeros((n, width), rows.dtype)
    if flat.size:
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        out[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0)
    if padding_idx >= 0:
        out[padding_idx] = 0
    return like(out, g)


# ---- bags ----


def _bags(offsets: Array, n: int, include_last: bool) -> tuple[Array, int]:
    """The bag of each index, and how many bags there are."""
    starts = offsets[:-1] if include_last else offsets
    ends = offsets[1:] if include_last else np.append(offsets[1:], n)
    return np.repeat(np.arange(len(starts)), ends - starts), len(starts)


def _kept(indices: Array, offsets: Array, include_last: bool, padding_idx: int) -> Any:
    """Places of indices that count, their bags, the number of bags."""
    bags, count = _bags(offsets, indices.size, include_last)
    places = np.flatnonzero(indices[: bags.size] != padding_idx)
    return places, bags[places], count


def _fold(ufunc: Any, rows: Array, bags: Array, count: int) -> Array:
    """ufunc over the rows of each bag; 0 for an empty one."""
    out = np.zeros((count, rows.shape[1]), rows.dtype)
    if bags.size:
        starts = np.flatnonzero(np.concatenate([[True], bags[1:] != bags[:-1]]))
        out[bags[starts]] = ufunc.reduceat(rows, starts, axis=0)
    return out


def _shares(bags: Array, count: int, kind: Any) -> Array:
    """1 / size of each bag."""
    return (1 / np.maximum(np.bincount(bags, minlength=count), 1)).astype(kind)


def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    mode: str,
    per_sample_weights: Array | None,
    include_last_offset: bool,
    padding_idx: int,
) -> Array:
    """The sum, mean or max of the rows of each bag; padding_idx counts for nothing."""
    places, bags, count = _kept(indices, offsets, include_last_offset, padding_idx)
    rows = widen(weight)[indices[places]]
    if per_sample_weights is not None:
        rows = rows * widen(per_sample_weights)[places, None]
    out = _fold(np.maximum if mode == "max" else np.add, rows, bags, count)
    if mode == "mean":
        out *= _shares(bags, count, out.dtype)[:, None]
    return like(out, weight)


def embedding_bag_backward(
    g: Array,
    weight: Array,
    indices: Array,
    offsets: Array,
    mode: str,
    per_sample_weights: Array | None,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[Array, Array | None]:
    """The gradients of weight and per_sample_weights."""
    places, bags, count = _kept(indices, offsets, include_last_offset, padding_idx)
    used, wide, n = indices[places], widen(weight), weight.shape[0]
    rows = widen(g)[bags]
    samples = None
    if mode == "mean":
        rows = rows * _shares(bags, count, rows.dtype)[bags, None]
    elif mode == "max":
        seen = wide[used]
        top = _fold(np.maximum, seen, bags, count)[bags]
        # Only the first of equals has the gradient.
        place = np.arange(places.size)[:, None]
        first = np.where((seen == top) | (seen != seen), place, places.size)
        rows = rows * (_fold(np.minimum, first, bags, count)[bags] == place)
    elif per_sample_weights is not None:
        samples = np.zeros(indices.shape, wide.dtype)
        samples[places] = np.einsum("ij,ij->i", rows, wide[used])
        samples = like(samples, per_sample_weights)
        rows = rows * widen(per_sample_weights)[places, None]
    out = embedding_backward(rows.astype(wide.dtype, copy=False), used, n, -1, False)
    return like(out, weight), samples
