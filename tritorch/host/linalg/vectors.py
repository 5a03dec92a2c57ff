"""Products of vectors of three numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.host.pointwise.narrow import like, widen

Array = np.ndarray[Any, Any]


def cross(a: Array, b: Array, dim: int) -> Array:
    """a x b along a dim of three; both of one shape."""
    wide_a, wide_b = (np.moveaxis(widen(x), dim, 0) for x in (a, b))
    out = np.empty(a.shape, wide_a.dtype)
    components = np.moveaxis(out, dim, 0)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        target = components[i, ...]
        np.multiply(wide_a[j], wide_b[k], out=target)
        target -= wide_a[k] * wide_b[j]
    return like(out, a)
