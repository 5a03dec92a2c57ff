"""float16, bfloat16 and float8 compute in float32 and round once."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tritorch.core.dtype import from_numpy_dtype
from tritorch.host import threads

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
    return x.astype(WIDE) if is_narrow(x.dtype) else x


LARGE = 1 << 20  # elements from which blocks over threads pay,
PER = 1 << 18  # and how large those are: ml_dtypes' casts would not let threads run side by side
_ONE, _HALF, _SHIFT = (np.full((), n, np.uint32) for n in (1, 0x7FFF, 16))


def _is_bfloat16(kind: np.dtype[Any]) -> bool:
    return kind.itemsize == 2 and kind.kind == "V"


def widen_block(x: Any) -> Any:
    """A dense array of a narrow type in float32, letting other threads run."""
    if not _is_bfloat16(x.dtype):
        return x.astype(WIDE)
    bits = x.view(np.uint16).astype(np.uint32)
    return np.left_shift(bits, _SHIFT, out=bits).view(WIDE)


def round_block(x: Any, kind: np.dtype[Any]) -> Any:
    """A dense float32 array in a narrow type, letting other threads run: bfloat16 by integers."""
    if not _is_bfloat16(kind):
        return x.astype(kind)
    top = np.maximum.reduce(x)
    if top != top:  # adding could carry a NaN's bits away
        return x.astype(kind)
    bits = x.view(np.uint32)
    rounded = np.right_shift(bits, _SHIFT)
    np.bitwise_and(rounded, _ONE, out=rounded)
    np.add(rounded, bits, out=rounded)
    np.add(rounded, _HALF, out=rounded)  # to even
    np.right_shift(rounded, _SHIFT, out=rounded)
    return rounded.astype(np.uint16).view(kind)


def round_to(x: Any, kind: np.dtype[Any]) -> Any:
    """A float32 array in a narrow type."""
    if x.size < LARGE or not _is_bfloat16(kind) or not x.flags.c_contiguous:
        return x.astype(kind)
    return threads.mapped(lambda part: round_block(part, kind), kind, x, per=PER)


def like(out: Any, x: Any) -> Any:
    """The result in the input's type."""
    out = np.asarray(out)
    return out if out.dtype == x.dtype else out.astype(x.dtype)


def row_major(array: Any) -> Any:
    """Dense rows: NumPy keeps the order of dims where PyTorch gives contiguous results."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
