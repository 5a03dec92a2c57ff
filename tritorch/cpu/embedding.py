"""The gradient of embeddings."""

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
