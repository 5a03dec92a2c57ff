"""Embeddings: the gradient, and sums over bags."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.host.pointwise.narrow import like, widen

Array = np.ndarray[Any, Any]


_SHORT = 64  # groups up to this long are added place by place


def _fold(ufunc: Any, take: Any, starts: Array, ends: Array, width: int, kind: Any) -> Array:
    """ufunc over the rows of each group; 0 for an empty one.  take: of some places, their rows."""
    out = np.zeros((starts.size, width), kind)
    lengths = ends - starts
    longest = int(lengths.max()) if lengths.size else 0
    full = np.flatnonzero(lengths)
    if 0 < longest <= _SHORT:
        everywhere = full.size == starts.size and int(lengths.min()) == longest
        out[full] = take(starts[full])
        for place in range(1, longest):
            if everywhere:
                ufunc(out, take(starts + place), out=out)
            else:
                some = full[lengths[full] > place]
                out[some] = ufunc(out[some], take(starts[some] + place))
    elif longest:
        out[full] = ufunc.reduceat(take(slice(None)), starts[full], axis=0)
    return out


def embedding_backward(
    g: Array, indices: Array, n: int, padding_idx: int, by_frequency: bool
) -> Array:
    """Row i: the sum of the gradients where indices are i."""
    width = g.shape[-1]
    rows = widen(g).reshape(-1, width)
    flat = indices.reshape(-1)
    if by_frequency and flat.size:
        rows = rows / np.bincount(flat, minlength=n)[flat][:, None].astype(rows.dtype)
    return like(_by_index(rows.__getitem__, flat, n, width, rows.dtype, padding_idx), g)


def _by_index(take: Any, indices: Array, n: int, width: int, kind: Any, padding_idx: int) -> Array:
    """Row i: the sum of the rows where indices are i.  take: of some places, their rows."""
    out = np.zeros((n, width), kind)
    if indices.size:
        order = np.argsort(indices, kind="stable")
        ordered = indices[order]
        ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) + 1
        starts = np.concatenate([[0], ends[:-1]])
        sums = _fold(np.add, lambda places: take(order[places]), starts, ends, width, kind)
        out[ordered[starts]] = sums
    if padding_idx >= 0:
        out[padding_idx] = 0
    return out


# ---- bags ----------------------------------------------------------------------------------------


def _bags(offsets: Array, n: int, include_last: bool) -> tuple[Array, Array]:
    """Where each bag begins and ends; offsets ascend."""
    if include_last:
        return offsets[:-1], offsets[1:]
    return offsets, np.append(offsets[1:], n) if offsets.size else offsets


def _kept(indices: Array, offsets: Array, include_last: bool, padding_idx: int) -> Any:
    """Places of indices that count, their bags, and where in those each bag begins and ends."""
    starts, ends = _bags(offsets, indices.size, include_last)
    low, high = (int(starts[0]), int(ends[-1])) if starts.size else (0, 0)
    places, bags = np.arange(low, high), np.repeat(np.arange(starts.size), ends - starts)
    starts, ends = starts - low, ends - low
    if padding_idx >= 0:
        counts = indices[low:high] != padding_idx
        before = np.concatenate([[0], np.cumsum(counts)])
        places, bags, starts, ends = places[counts], bags[counts], before[starts], before[ends]
    return places, bags, starts, ends


def _shares(starts: Array, ends: Array, kind: Any) -> Array:
    """1 / size of each bag."""
    return (1 / np.maximum(ends - starts, 1)).astype(kind)


def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    per_sample_weights: Array | None,
    mode: str,
    include_last_offset: bool,
    padding_idx: int,
) -> Array:
    """The sum, mean or max of the rows of each bag; padding_idx counts for nothing."""
    places, _, starts, ends = _kept(indices, offsets, include_last_offset, padding_idx)
    used = indices[places]
    samples = None if per_sample_weights is None else widen(per_sample_weights)[places, None]

    def take(where: Any) -> Array:
        rows = widen(weight[used[where]])
        return rows if samples is None else rows * samples[where]

    kind = widen(weight[:0]).dtype
    ufunc = np.maximum if mode == "max" else np.add
    out = _fold(ufunc, take, starts, ends, weight.shape[1], kind)
    if mode == "mean":
        out *= _shares(starts, ends, out.dtype)[:, None]
    return like(out, weight)


def embedding_bag_backward(
    g: Array,
    weight: Array,
    indices: Array,
    offsets: Array,
    per_sample_weights: Array | None,
    mode: str,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[Array, Array]:
    """The gradients of weight and per_sample_weights (nothing, without them)."""
    places, bags, starts, ends = _kept(indices, offsets, include_last_offset, padding_idx)
    used, wide = indices[places], widen(g)
    kind, width = wide.dtype, wide.shape[1]
    samples = np.zeros((0,), kind)
    take = lambda where: wide[bags[where]]
    if mode == "mean":
        wide = wide * _shares(starts, ends, kind)[:, None]
    elif mode == "max":
        seen = widen(weight[used])
        top = _fold(np.maximum, seen.__getitem__, starts, ends, width, kind)[bags]
        # Only the first of equals has the gradient.
        place = np.arange(places.size)[:, None]
        first = np.where((seen == top) | (seen != seen), place, places.size)
        chosen = _fold(np.minimum, first.__getitem__, starts, ends, width, first.dtype)
        take = lambda where: wide[bags[where]] * (chosen[bags[where]] == place[where])
    elif per_sample_weights is not None:
        shares = widen(per_sample_weights)[places, None]
        samples = np.zeros(indices.shape, kind)
        samples[places] = np.einsum("ij,ij->i", wide[bags], widen(weight[used]))
        samples = like(samples, per_sample_weights)
        take = lambda where: wide[bags[where]] * shares[where]
    return like(_by_index(take, used, weight.shape[0], width, kind, -1), weight), samples
