"""Scans on the GPU: one program a row."""

from __future__ import annotations

import functools
import math
from typing import Any

from tritorch import _C
from tritorch._triton.kernel import kernel
from tritorch.core.arrays import pairs
from tritorch.core.dtype import dtype, int64
from tritorch.gpu.pointwise import triton_type
from tritorch.gpu.reduction import _limit, accumulator, unpaired

Array = _C.Array


@functools.cache
def _function(name: str) -> Any:
    from tritorch.kernels import scan

    return getattr(scan, name)


def _rows(x: Array, y: Array, dim: int) -> Any:
    kept = [i for i in range(x.ndim) if i != dim]
    shape = [x.shape[i] for i in kept]
    dims, (xs, ys) = _C.collapse(shape, [[a.strides[i] for i in kept] for a in (x, y)])
    return math.prod(shape), dims or (1,), xs or (0,), ys or (0,)


def _run(x: Array, dim: int, kind: dtype, combine: str, identity: Any) -> Array:
    y = _C.empty(x.shape, kind, x.device_index)
    if x.numel() == 0:
        return y
    n, shape, xs, ys = _rows(x, y, dim)
    acc = accumulator(kind)
    kernel("scan", "scan_columns")(
        (n,), x, y, x.shape[dim], x.strides[dim], y.strides[dim], shape, xs, ys,
        COMBINE=_function(combine), IDENTITY=identity, ACC=triton_type(acc), ROW_DIMS=len(shape),
        BLOCK=_block(x.shape[dim]), num_warps=4,
    )  # fmt: skip
    return y


def _block(n: int) -> int:
    return min(1024, max(16, 1 << (n - 1).bit_length()))


def _complex(name: str, x: Array, *rest: Any) -> Array:
    from tritorch.cpu import scan as cpu
    from tritorch.ops.backends import through_host

    return through_host(f"scan.{name}", getattr(cpu, name))(x, *rest)


def cumsum(x: Array, dim: int, dtype: dtype) -> Array:
    """The running sum."""
    if dtype.is_complex:
        wide = x if x.dtype is dtype else x.astype(dtype)
        return unpaired(cumsum(pairs(wide), dim, dtype.to_real()), dtype)
    return _run(x, dim, dtype, "plus", 0)


def cumprod(x: Array, dim: int, dtype: dtype) -> Array:
    """The running product."""
    if dtype.is_complex or x.dtype.is_complex:
        return _complex("cumprod", x, dim, dtype)
    return _run(x, dim, dtype, "times", 1)


def logcumsumexp(x: Array, dim: int) -> Array:
    """log(cumsum(exp(x))), without overflow."""
    if x.dtype.is_complex:
        return _complex("logcumsumexp", x, dim)
    return _run(x, dim, x.dtype, "log_plus", -math.inf)


def _extreme(x: Array, dim: int, combine: str, lowest: bool) -> tuple[Array, Array]:
    y = _C.empty(x.shape, x.dtype, x.device_index)
    index = _C.empty(x.shape, int64, x.device_index)
    if x.numel() == 0:
        return y, index
    n, shape, xs, ys = _rows(x, y, dim)
    acc = accumulator(x.dtype)
    kernel("scan", "scan_extreme")(
        (n,), x, y, index, x.shape[dim], x.strides[dim], y.strides[dim], shape, xs, ys,
        COMBINE=_function(combine), IDENTITY=_limit(acc, lowest), ACC=triton_type(acc),
        ROW_DIMS=len(shape), BLOCK=_block(x.shape[dim]), num_warps=4,
    )  # fmt: skip
    return y, index


def cummax(x: Array, dim: int) -> tuple[Array, Array]:
    """The running maximum, and where (the last of equals)."""
    return _extreme(x, dim, "later_larger", True)


def cummin(x: Array, dim: int) -> tuple[Array, Array]:
    """The running minimum, and where (the last of equals)."""
    return _extreme(x, dim, "later_smaller", False)
