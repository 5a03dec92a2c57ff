"""float16, bfloat16 and float8 compute in float32 and round once."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tritorch.arrays.arrays import convert
from tritorch.core.dtype import from_numpy_dtype

WIDE = np.dtype(np.float32)


@functools.cache
def is_narrow(kind: np.dtype[Any]) -> bool:
    """Whether it is one of these (ml_dtypes' are of kind "V"), not one that is only stored."""
    return kind.itemsize < 4 and kind.kind in "fV" and from_numpy_dtype(kind).native


def computing(kind: np.dtype[Any]) -> np.dtype[Any]:
    """The type that results of a type are computed in."""
    return WIDE if is_narrow(kind) else kind


def widen(x: Any) -> Any:
    """The array in the type that it computes in."""
    return convert(x, WIDE) if is_narrow(x.dtype) else x


def like(out: Any, x: Any) -> Any:
    """The result in the input's type."""
    out = np.asarray(out)
    return out if out.dtype == x.dtype else convert(out, x.dtype)


def row_major(array: Any) -> Any:
    """Dense rows: NumPy keeps the order of dims where PyTorch gives contiguous results."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
