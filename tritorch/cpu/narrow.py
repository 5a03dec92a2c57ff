"""float16, bfloat16 and float8 compute in float32 and round once."""

from __future__ import annotations

from typing import Any

import numpy as np

NARROW = frozenset({"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"})


def widen(x: Any) -> Any:
    """The array in the type that it computes in."""
    return x.astype(np.float32) if x.dtype.name in NARROW else x


def like(out: Any, x: Any) -> Any:
    """The result in the input's type."""
    out = np.asarray(out)
    return out if out.dtype == x.dtype else out.astype(x.dtype)


def row_major(array: Any) -> Any:
    """Dense rows: NumPy keeps the order of dims where PyTorch gives contiguous results."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
