"""Jagged rows to padded ones and back."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _rows(offsets: Array, length: int) -> tuple[Array, Array]:
    """Which padded rows there are, as a mask, and which jagged ones these are, in order."""
    lengths = np.minimum(np.diff(offsets), length)
    there = np.arange(length) < lengths[:, None]
    return there, (offsets[:-1, None] + np.arange(length))[there]


def to_padded(x: Array, offsets: Array, length: int, padding: Any) -> Array:
    """out[b, s] = x[offsets[b] + s] where the component is as long, else padding."""
    there, rows = _rows(offsets, length)
    out = np.empty((*there.shape, x.shape[1]), x.dtype)
    out[~there] = padding
    out[there] = x[rows]
    return out


def from_padded(x: Array, offsets: Array, total: int) -> Array:
    """out[offsets[b] + s] = x[b, s] for the rows that components have."""
    there, rows = _rows(offsets, x.shape[1])
    out = np.zeros((total, x.shape[2]), x.dtype)
    out[rows] = x[there]
    return out
