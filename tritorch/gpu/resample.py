"""Resampling of one dim of images by a table of weights; see kernels/resample.py."""

from __future__ import annotations

import numpy as np

from tritorch import _C
from tritorch._triton.kernel import kernel
from tritorch.core.dtype import float32, float64
from tritorch.gpu.arrays import from_numpy
from tritorch.gpu.images import five_strides, is_wide, three
from tritorch.gpu.matmul import triton_name
from tritorch.gpu.pooling import block_of
from tritorch.host.resample import table

Array = _C.Array


def resample(
    x: Array, dim: int, n: int, m: int, scale: float | None, align: bool, kind: str,
    transposed: bool,
) -> Array:  # fmt: skip
    """One dim of n elements as m; transposed: back, as gradients go."""
    begin, weights = table(n, m, scale, align, kind, transposed)
    compute = float64 if x.dtype is float64 else float32
    shape = (*x.shape[:dim], len(begin), *x.shape[dim + 1 :])
    out = _C.empty(shape, x.dtype, x.device_index)
    if out.numel() == 0:
        return out
    block = block_of(out.numel())
    kernel("resample", "resample")(
        (-(-out.numel() // block),), x, from_numpy(begin.astype(np.int32), x.device_index),
        from_numpy(weights.astype(compute.numpy), x.device_index), out, out.numel(), x.shape[1],
        weights.shape[1], x.shape[dim], three(shape[2:]), five_strides(x), ACROSS=dim == 3,
        COMPUTE=triton_name(compute), WIDE=is_wide(x, out), BLOCK=block, num_warps=4,
    )  # fmt: skip
    return out
